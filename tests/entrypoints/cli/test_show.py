from __future__ import annotations

import pytest

from clinebox.domain.outcome.model import EvidenceEntry, Flag, Outcome, Reason, Status, StoppedBy, Usage
from clinebox.domain.outcome.policy import Verdict
from clinebox.domain.outcome.render import MEANINGS
from clinebox.entrypoints.cli.explanations import FLAGS
from clinebox.entrypoints.cli.show import Row, plain_outcome, render_row, usage_line

STOPPED = Outcome(
    status=Status.INCOMPLETE,
    reason=Reason.STOPPED,
    failure_kind=None,
    status_code=None,
    timed_out=False,
    stopped_by=StoppedBy.OPERATOR,
    text="first\nsecond\x1b[31m",
    flags=(Flag.NO_TOOL_CALLED,),
    flag_details={Flag.NO_TOOL_CALLED: {}},
    notes=("a [note]",),
    usage=Usage(2200, None, 70, 12),
    evidence=(EvidenceEntry("cleanup.json", None, "stopped_by", "operator"),),
    cline_version="3.0.65",
)


def test_every_reason_and_every_flag_has_its_sentence() -> None:
    assert set(MEANINGS) == set(Reason)
    assert set(FLAGS) == set(Flag)


def test_an_outcome_is_shown_with_all_that_it_says() -> None:
    shown = plain_outcome(
        STOPPED, Verdict(gradable=False, retryable=False), extra=[("reward", "none"), ("sandbox", "[local]")]
    )
    assert [line.strip("│╭╮╰╯─ ") for line in shown.splitlines()] == [
        "incomplete: stopped",
        "The run was stopped on request.",
        "",
        "reward      none",
        "sandbox     [local]",
        "verdict     not gradable, no other attempt",
        "stopped by  operator",
        "text        first",
        r"second\x1b[31m",
        "cline       3.0.65",
        "usage       2,200 tokens in (cached not known), 70 out (12 of them reasoning)",
        "flags       no_tool_called: the agent called no tool",
        "notes       a [note]",
        "evidence    cleanup.json  stopped_by",
        "operator",
        "",
    ]


def test_the_plain_form_has_no_control_codes_and_its_own_width() -> None:
    shown = plain_outcome(STOPPED, Verdict(gradable=True, retryable=True))
    assert "\x1b" not in shown
    assert {len(line) for line in shown.splitlines()} == {100}


@pytest.mark.parametrize(
    ("usage", "line"),
    [
        (None, "not known"),
        (Usage(1, 0, 0, None), "1 tokens in (0 of them cached), 0 out (reasoning not known)"),
        (Usage(0, None, 0, 0), "0 tokens in (cached not known), 0 out (0 of them reasoning)"),
    ],
)
def test_tokens_that_are_not_known_are_never_shown_as_0(usage: Usage | None, line: str) -> None:
    assert usage_line(usage) == line


def test_a_row_never_cuts_the_path() -> None:
    path = "runs/" + "x" * 300
    assert path in render_row(Row.of(path, STOPPED, Verdict(gradable=True, retryable=False))).plain
