"""Scripts from files: what is read, and what people are told when it cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful
from syrupy.assertion import SnapshotAssertion

from clinebox.adapters.scripted_model import (
    Fault,
    Match,
    Script,
    ScriptError,
    ToolCall,
    Turn,
    Usage,
    load_script,
    parse_script,
)


def script_of(text: str, *, as_json: bool = False) -> Script:
    return parse_script(text, source="s", as_json=as_json).unwrap()


def error_of(text: str, *, as_json: bool = False) -> ScriptError:
    return parse_script(text, source="script.json" if as_json else "script.yaml", as_json=as_json).failure()


def test_a_script_in_yaml_is_its_turns() -> None:
    script = script_of(
        """
        turns:
          - text: Let me look.
            tool_calls:
              - {name: read_files, arguments: {files: [{path: sum.sh}]}}
              - {name: run_commands, arguments: '{"commands": [', id: mine}
          - fault: hang_mid_stream
            text: [a, b]
            for_s: 2
            repeat: -1
            match: {has_tools: false}
            usage: {prompt_tokens: 5, cached_tokens: 3}
          - {finish_reason: null, usage: null, done: false}
        """
    )
    first, second, third = script.turns
    assert first.tool_calls == (
        ToolCall(name="read_files", arguments={"files": [{"path": "sum.sh"}]}),
        ToolCall(name="run_commands", arguments='{"commands": [', id="mine"),
    )
    assert (first.finish, first.usage) == ("tool_calls", Usage())
    assert (second.fault, second.text, second.for_s, second.repeat) == (
        Fault.HANG_MID_STREAM,
        ("a", "b"),
        2,
        -1,
    )
    assert second.match == Match(has_tools=False)
    assert second.usage == Usage(prompt_tokens=5, cached_tokens=3)
    assert (third.finish, third.usage, third.done) == (None, None, False)


def test_a_bare_list_of_turns_is_a_script() -> None:
    assert script_of("- text: a\n- text: b\n") == Script(turns=(Turn(text="a"), Turn(text="b")))


def test_a_script_in_json_may_have_tabs_and_escapes_that_yaml_does_not_know() -> None:
    script = script_of('[\n\t{"text": "\\ud83d\\ude00 \\/"}\n]', as_json=True)
    assert script.turns[0].text == "\U0001f600 /"


def test_a_date_in_yaml_stays_the_text_that_stands_there() -> None:
    script = script_of("- tool_calls: [{name: t, arguments: {day: 2026-01-31}}]")
    assert script.turns[0].tool_calls[0].arguments == {"day": "2026-01-31"}


def test_the_suffix_says_how_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"text":\t"x"}]')
    (tmp_path / "a.yaml").write_text("- text: x\n")
    (tmp_path / "a.txt").write_text("\ufeff- text: x\n")
    for name in ("a.json", "a.yaml", "a.txt"):
        assert load_script(tmp_path / name).unwrap() == Script(turns=(Turn(text="x"),))


MISTAKES = {
    "unknown key": "turns:\n  - text: a\n  - txet: b\n",
    "unknown key at the top": "turn:\n  - text: a\n",
    "unknown key in a tool call": "- tool_calls:\n    - name: t\n      args: {}\n",
    "unknown key in usage": "- text: a\n  usage:\n    prompt_tokens: 1\n    total: 2\n",
    "unknown fault": "- text: a\n\n  # a comment\n  fault: explode\n",
    "unknown framing": "- {text: a, framing: http2}\n",
    "name missing": "- text: a\n  tool_calls:\n    - arguments: {}\n",
    "text is a boolean": "- text: yes\n",
    "text is a number": "- text: a\n- text: 5\n",
    "name is a number": "- tool_calls:\n    - name: 5\n",
    "list of other things": "- text:\n    - a\n    - 1\n",
    "arguments are a list": "- tool_calls:\n    - name: t\n      arguments: [1]\n",
    "arguments are no JSON": "- tool_calls:\n    - name: t\n      arguments: {a: .nan}\n",
    "turn is a text": "- text: a\n- just words\n",
    "turns is a mapping": "turns:\n  text: a\n",
    "no turns": "turns: []\n",
    "a scalar": "hello\n",
    "empty": "",
    "only a comment": "# nothing yet\n",
    "status out of range": "- status: 42\n",
    "usage is a text": "- usage: none\n",
    "done is a text": "- {text: a, done: 'no'}\n",
    "status too large": "- status: 1000\n",
    "status as a text": "- status: '429'\n",
    "repeat zero": "- text: a\n  repeat: 0\n",
    "repeat below minus one": "- text: a\n  repeat: -2\n",
    "chunk size zero": "- text: a\n  chunk_size: 0\n",
    "negative delay": "- text: a\n  delay_s: -1\n",
    "endless delay": "- text: a\n  delay_s: .inf\n",
    "for_s without a hang": "- text: a\n  for_s: 5\n",
    "after_chunks without a fault": "- text: a\n  after_chunks: 5\n",
    "location without a redirect": "- text: a\n  location: /x\n",
    "redirect with status 200": "- fault: redirect\n  status: 200\n",
    "text with a status": "- text: a\n  status: 500\n",
    "malformed stream with a body": "- fault: malformed_sse\n  body: x\n",
    "error in a stream with a status": "- fault: sse_error\n  status: 500\n",
    "repeated refusal": "- fault: refuse\n  repeat: 2\n",
    "match without a condition": "- text: a\n  match: {}\n",
    "comments without a count": "- text: a\n  comments: {every_s: 1}\n",
    "header with a line break": '- status: 500\n  headers:\n    X-A: "a\\r\\nb"\n',
    "header of the server's own": "- status: 500\n  headers: {Content-Length: '5'}\n",
    "header name with a space": "- status: 500\n  headers: {'a b': c}\n",
    "header that is a number": "- status: 429\n  headers:\n    Retry-After: 4\n",
    "key twice": "- text: a\n  usage: null\n  text: b\n",
    "no YAML": "- text: 'a\n- text: b\n",
    "tab in YAML": "- text: a\n\tb: c\n",
    "control character": "- text: a\n- text: \x01\n",
    "two documents": "- text: a\n---\n- text: b\n",
    "unknown tag": "- !!python/object:os.system {}\n",
    "unknown alias": "- text: *nobody\n",
    "alias of itself": "- &a\n  body: *a\n",
    "nested too deeply": "- body: " + "[" * 100_000,
    "three mistakes": "- txt: a\n- status: 1\n- fault: nothing\n",
}

JSON_MISTAKES = {
    "no JSON": '[\n  {"text": "a"},\n]\n',
    "unknown key in JSON": '{\n\t"turns": [\n\t\t{"text": "a"},\n\t\t{"txt": "a"}\n\t]\n}\n',
    "key twice in JSON": '[\n{"text": "a",\n"text": "b"}]',
    "half a surrogate pair": '[\n{"text": "\\ud83d"}]',
    "empty JSON": "",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_yaml_is_named_with_its_line(mistake: str, snapshot: SnapshotAssertion) -> None:
    assert str(error_of(MISTAKES[mistake])) == snapshot


@pytest.mark.parametrize("mistake", JSON_MISTAKES)
def test_a_mistake_in_json_is_named_with_its_line(mistake: str, snapshot: SnapshotAssertion) -> None:
    assert str(error_of(JSON_MISTAKES[mistake], as_json=True)) == snapshot


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing.yaml", tmp_path / "binary.yaml"
    binary.write_bytes(b"- text: a\n- text: \xff\n")
    assert str(load_script(missing).failure()) == f"{missing}: cannot be read: No such file or directory"
    assert str(load_script(tmp_path).failure()) == f"{tmp_path}: cannot be read: Is a directory"
    assert str(load_script(binary).failure()) == f"{binary}:2: is not UTF-8 text"


@given(st.text(max_size=200), st.booleans())
def test_any_text_is_a_script_or_an_error_with_a_sentence(text: str, as_json: bool) -> None:  # noqa: FBT001 - hypothesis
    """Reading a script never raises, whatever the file holds."""
    result = parse_script(text, source="s", as_json=as_json)
    assert is_successful(result) or str(result.failure()).startswith("s")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(list(Turn.model_fields)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(list(Turn.model_fields)), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_is_a_script_or_an_error_with_a_line_for_each_problem(value: object) -> None:
    """Every error in a script names the line."""
    result = parse_script(json.dumps([value], indent=1), source="s", as_json=True)
    if not is_successful(result):
        assert all(problem.line is not None for problem in result.failure().problems)
