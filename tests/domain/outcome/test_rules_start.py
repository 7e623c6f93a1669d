"""Runs that never began, and those of which next to nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import (
    ExitEvidence,
    RunEvidence,
    read_log,
    read_stderr,
    read_stdout,
)
from clinebox.domain.outcome.model import Reason, Status

if TYPE_CHECKING:
    from conftest import Run


# --- nothing, and almost nothing


def test_with_nothing_in_any_source_the_outcome_is_unknown() -> None:
    outcome = classify(RunEvidence()).unwrap()
    assert (outcome.status, outcome.reason, outcome.failure_kind) == (
        Status.FAILED,
        Reason.UNKNOWN,
        "unknown",
    )
    assert outcome.text == "Nothing in any source tells how the run ended."


def test_empty_files_and_no_exit_are_unknown_too() -> None:
    evidence = RunEvidence(stdout=read_stdout(b""), log=read_log(b""), stderr=read_stderr(b""))
    assert classify(evidence).unwrap().reason is Reason.UNKNOWN


def test_no_word_and_exit_code_0_is_a_prompt_of_team_alone() -> None:
    evidence = RunEvidence(
        stdout=read_stdout(b""), stderr=read_stderr(b""), exit=ExitEvidence("meta.json", exit_code=0)
    )
    outcome = classify(evidence).unwrap()
    assert outcome.reason is Reason.HARNESS_SETUP
    assert "`/team` alone" in outcome.text
    assert [(entry.source, entry.line, entry.field) for entry in outcome.evidence] == [
        ("meta.json", None, "exit_code")
    ]


@pytest.mark.parametrize("exit_code", [126, 127])
def test_a_program_that_could_not_be_run_is_a_setup_failure(exit_code: int) -> None:
    evidence = RunEvidence(stdout=read_stdout(b""), exit=ExitEvidence("outcome.json", exit_code=exit_code))
    outcome = classify(evidence).unwrap()
    assert outcome.reason is Reason.HARNESS_SETUP
    assert "could not be run" in outcome.text


@pytest.mark.parametrize(
    "end",
    [ExitEvidence("m", signal="SIGKILL"), ExitEvidence("m", exit_code=137), ExitEvidence("m", exit_code=-9)],
)
def test_a_signal_before_the_first_record_is_no_setup_failure(end: ExitEvidence) -> None:
    outcome = classify(RunEvidence(stdout=read_stdout(b""), exit=end)).unwrap()
    assert outcome.reason is Reason.NO_RUN_RESULT
    assert "while it was starting" in outcome.text


def test_the_receipt_s_return_code_tells_an_early_kill_where_no_other_file_does(empty_run: Run) -> None:
    outcome = empty_run.with_receipt(return_code=137).outcome()
    assert outcome.reason is Reason.NO_RUN_RESULT
    assert outcome.evidence[0].source == "cleanup.json"


def test_a_missing_stdout_is_no_proof_that_cline_never_started() -> None:
    evidence = RunEvidence(
        stderr=read_stderr(b"error: unknown option '--x'\n"), exit=ExitEvidence("m", exit_code=1)
    )
    assert classify(evidence).unwrap().reason is Reason.UNKNOWN


def test_an_agent_in_the_log_and_no_record_on_stdout_is_lost_output(empty_run: Run) -> None:
    outcome = empty_run.logs_end("no").but(exit=ExitEvidence("m", exit_code=1)).outcome()
    assert outcome.reason is Reason.NO_RUN_RESULT


def test_sdk_warnings_on_stderr_are_never_a_setup_failure_once_a_run_began(run: Run) -> None:
    stderr = read_stderr(b"Warning: AI SDK Warning System: x\nerror: unknown option\n")
    assert run.says("hi").ends().but(stderr=stderr).outcome().reason is Reason.FINISHED
