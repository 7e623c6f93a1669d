"""What contradicts itself is named, and what does not is left alone; found by mutating the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clinebox.domain.outcome.evidence import ExpectedSource
from clinebox.domain.outcome.model import Flag, Outcome, Reason

if TYPE_CHECKING:
    from conftest import Run


def contradictions(outcome: Outcome) -> object:
    details = outcome.flag_details.get(Flag.CONFLICTING_EVIDENCE)
    return details["conflicts"] if isinstance(details, dict) else []


def test_a_result_that_was_written_while_a_tool_ran_is_not_believed(run: Run) -> None:
    outcome = run.says("x").calls("editor").ends().outcome()
    assert outcome.reason is Reason.UNKNOWN
    assert contradictions(outcome) == ["the run_result says completed, and a call of editor never ended"]
    assert outcome.evidence[-1].field == "toolCallId"


def test_calls_that_ended_contradict_no_result(run: Run) -> None:
    outcome = run.says("x").calls("editor").returns("editor").ends().outcome()
    assert outcome.reason is Reason.FINISHED
    assert contradictions(outcome) == []


@pytest.mark.parametrize("reason", ["error", "aborted"])
def test_a_run_that_did_not_complete_may_leave_a_call_without_its_end(reason: str, run: Run) -> None:
    assert contradictions(run.says("x").calls("editor").ends(reason).outcome()) == []


def test_what_was_wrong_with_the_receipt_is_a_note_that_names_it(run: Run) -> None:
    outcome = run.says("x").ends().with_receipt(timed_out="yes").outcome()
    assert [note for note in outcome.notes if note.startswith("receipt: ") and "timed_out" in note]


def test_the_names_of_expected_sources_stay_as_run_directories_hold_them() -> None:
    assert {source.value for source in ExpectedSource} == {"receipt", "gateway"}
