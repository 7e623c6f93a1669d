"""What reaches Cline for any text. The oracle below is Cline's own rewriting, written down independently."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from returns.pipeline import is_successful
from syrupy.assertion import SnapshotAssertion

from clinebox.domain.cline.prompt import PreparedPrompt, PromptProblem, prepare_prompt, trimmed

SPACE = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


def attached(text: str) -> list[str]:
    """The paths that Cline looks for (3.0.57, 3.0.65), less those of a name that no file has."""
    prefix = r"(?:/|~/|\.{1,2}/)"
    paths = re.findall(rf'@(?:"({prefix}[^"\r\n]+)"|({prefix}[^{SPACE}]+))', text)
    named = [quoted or plain for quoted, plain in paths]
    quoted_too = [quoted for quoted, _ in paths if quoted]
    return quoted_too + [path for path in named if "`" not in path and path[-1] not in "),.:;!?'\"]}>"]


def silent_exit(text: str) -> list[str]:
    """The mentions for which Cline indexes the work directory, and exits (3.0.57, 3.0.65)."""
    words = re.findall(rf"(?:^|[{SPACE}])@([^{SPACE}]+)", text)
    cores = [re.sub(r"^[(`'\"]+", "", word).rstrip("),.:;!?`'\"") for word in words]
    return [core for core in cores if core and "@" not in core]


def rewritten(text: str) -> list[str]:
    return re.findall(r"</?user_input|<user_command", text) + re.findall(rf"\A/[^{SPACE}]+", text)


def prepared(task: str) -> PreparedPrompt:
    return prepare_prompt(task).unwrap()


MARKS = [*"@/~.\"'`() ,\n\ta:<>\\x]", "\ufeff", "\u00a0", "\x85", "é", "😀"]
hostile = st.text(st.sampled_from(MARKS), min_size=1, max_size=40) | st.lists(
    st.sampled_from(
        ["@/etc/hostname", '@"/a b"', "@", " ", "`", "@property", "/team", "<user_input", "</user_input>",
         "x", "<user_command", "\n", ".", "@./", "@~/x", '"', "(", "'@/lib/x';", "@a@b", "@..", "\u2028"]
    ),
    min_size=1, max_size=12,
).map("".join)  # fmt: skip
prompts = hostile.filter(lambda text: bool(trimmed(text)))


@given(prompts)
@example("@property")
@example('@"/etc/hostname"')
@example("`@/etc/hostname is` here")
@example("<user_input>@/etc/hostname")
@example("/@/etc/hostname")
@example('@"/a @/etc/hostname b"')
def test_nothing_that_cline_would_expand_is_left(task: str) -> None:
    """SPEC §10: "`@path` words and a leading `/word` … are put in backticks (tried: not expanded)"."""
    text = prepared(task).text
    assert attached(text) == []
    assert silent_exit(text) == []
    assert rewritten(text) == []


@given(prompts)
def test_a_text_without_anything_to_expand_arrives_byte_for_byte(task: str) -> None:
    """SPEC §10: "every other text arrives byte for byte, trimmed"."""
    text = trimmed(task)
    if attached(text) == silent_exit(text) == rewritten(text) == []:
        assert prepared(task).text == text
        assert prepared(task).changes == ()


@given(prompts)
def test_the_changes_are_backticks_alone_and_undo_to_the_original(task: str) -> None:
    """SPEC §10: "the change is recorded"."""
    result = prepared(task)
    text, shift = result.text, 0
    for change in result.changes:
        start = change.offset_chars + shift
        assert change.replacement == f"`{change.original}`"
        assert text[start : start + len(change.replacement)] == change.replacement
        shift += len(change.replacement) - len(change.original)
    for change in reversed(result.changes):
        shift -= len(change.replacement) - len(change.original)
        start = change.offset_chars + shift
        text = text[:start] + change.original + text[start + len(change.replacement) :]
    assert text == trimmed(task)


@given(prompts)
def test_preparing_twice_changes_nothing_more(task: str) -> None:
    """What is prepared holds nothing to expand, so it arrives byte for byte."""
    once = prepared(task)
    assert prepared(once.text) == PreparedPrompt(once.text, ())


@given(st.text())
def test_any_text_is_a_prompt_or_a_sentence(task: str) -> None:
    """STYLE: Failure is a value; nothing raises on input."""
    result = prepare_prompt(task, limit_bytes=30)
    if is_successful(result):
        assert 0 < len(result.unwrap().content) <= 30
    else:
        assert result.failure().message.isprintable()


@pytest.mark.parametrize(
    "task",
    [
        "x", "hello", "-- -m", "mail a@b.c now", "@", "a @ b", "@@x", "@a@b c", "user@host:/srv/x",
        "import x from '@/lib/utils';", "(@/etc/hostname)", "`@/etc/hostname`", "`/team` up", "say /team up",
        "/", "/ team", "a/b", "<User_Input>", "user_input", "<user input>", "(@property)", "@...",
        "\x85@x", "tab\tinside", "line\r\nline", "\u200b@x", '"@/x"', "x\x00".replace("\x00", ""),
    ],
)  # fmt: skip
def test_these_arrive_as_they_are(task: str) -> None:
    assert prepared(task) == PreparedPrompt(task, ())


def test_these_are_put_in_backticks(snapshot: SnapshotAssertion) -> None:
    tasks = [
        "@/etc/hostname",
        "see @/etc/hostname, then stop.",
        "a\n@./src/x\t@~/.netrc and @../up",
        "x(@/etc/hostname x",
        "word@/etc/hostname",
        '@"/etc/a file" too',
        '`@"/etc/hostname"`',
        "`@/etc/hostname is` wrong",
        "use @types/node, @property and @(x).",
        "@dataclass(frozen=True)\nclass X:\n    @property\n    def y(self): ...",
        "a\u00a0@x",
        "/team build it",
        "  /TEAM-x build it",
        "/usr/bin/env is broken",
        "/x@/etc/hostname",
        "<user_input mode='act'>hi</user_input>",
        "<user_command slash='team'>hi</user_command>",
    ]
    assert [prepared(task).text for task in tasks] == snapshot


@pytest.mark.parametrize("task", ["", " ", "\n\t", "\ufeff", "\u00a0\u2028"])
def test_a_blank_task_is_refused(task: str) -> None:
    assert prepare_prompt(task).failure().problem is PromptProblem.EMPTY


def test_a_nul_and_a_lone_surrogate_are_refused_with_their_place() -> None:
    nul, surrogate = prepare_prompt("a\0b").failure(), prepare_prompt("ab\udcff").failure()
    assert (nul.problem, surrogate.problem) == (PromptProblem.NUL, PromptProblem.NOT_UNICODE)
    assert "(at 1)" in nul.message
    assert "(at 2)" in surrogate.message


def test_the_bound_is_in_bytes_and_holds_for_what_is_sent() -> None:
    assert prepare_prompt("é" * 5, limit_bytes=10).unwrap().content == "é".encode() * 5
    assert prepare_prompt("é" * 5 + "x", limit_bytes=10).failure().problem is PromptProblem.TOO_LARGE
    assert prepare_prompt("@/a", limit_bytes=4).failure().problem is PromptProblem.TOO_LARGE


@pytest.mark.parametrize("unit", ["@/", '@"/', "@/`", "`@/x", "<user_input", "@", " @a@b", '@"/x" '])
def test_a_megabyte_of_marks_is_no_more_work_than_a_megabyte(unit: str) -> None:
    # quadratic work would take hours here, and the test's own timeout would end it
    result = prepared(unit * (1024 * 1024 // len(unit)))
    assert attached(result.text) == []
