"""Runs that Cline itself gave up: mistakes, loops, and the empty response, told by its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clinebox.domain.outcome.evidence import (
    read_log,
    read_stderr,
)
from clinebox.domain.outcome.model import Reason, Status

if TYPE_CHECKING:
    from conftest import Run

EMPTY = "Model returned empty response"


# --- mistakes and loops


def test_the_loop_detector_is_told_from_the_mistake_limit_by_the_recorded_mistake(run: Run) -> None:
    sentence = "Detected 5 consecutive identical calls"
    outcome = run.error(sentence, recoverable=True).ends("aborted").aborted("external_abort").outcome()
    assert (outcome.status, outcome.reason) == (Status.INCOMPLETE, Reason.LOOP_DETECTED)
    assert outcome.evidence[0].line == 3


def test_the_recorded_mistake_may_stand_in_cline_log_alone(run: Run) -> None:
    logged = run.logs(
        "Recorded consecutive mistake", level=40, details="Detected 5 consecutive identical calls"
    )
    outcome = logged.ends("aborted").aborted("external_abort").outcome()
    assert outcome.reason is Reason.LOOP_DETECTED
    assert outcome.evidence[0].source == "cline.log"


@pytest.mark.parametrize(
    "sentence",
    [
        "1 tool call(s) failed: [editor] Detected 5 consecutive identical calls",
        "Detected five consecutive identical calls",
        "I think it Detected 5 consecutive identical calls",
    ],
)
def test_a_tool_s_words_in_a_mistake_are_no_loop(sentence: str, run: Run) -> None:
    outcome = run.error(sentence, recoverable=True).ends("aborted").aborted("external_abort").outcome()
    assert outcome.reason is Reason.MISTAKE_LIMIT


@pytest.mark.parametrize("reason", ["local_abort", "else"])
def test_aborted_without_an_external_abort_is_unknown(reason: str, run: Run) -> None:
    mistaken = run.error("1 tool call(s) failed: x", recoverable=True).ends("aborted")
    assert mistaken.outcome().reason is Reason.UNKNOWN
    assert mistaken.aborted(reason).outcome().reason is Reason.UNKNOWN


@pytest.mark.parametrize("word", ["max_iterations", "mistake_limit", "", "COMPLETED", None, 1, ["completed"]])
def test_a_finish_reason_that_no_version_writes_is_unknown(word: object, run: Run) -> None:
    outcome = run.says("x").ends(word).outcome()  # type: ignore[arg-type]
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.UNKNOWN)


# --- the empty response


def test_only_stop_in_every_retry_line_is_the_model_s_silence(run: Run) -> None:
    silent = run.logs_retry(1, "stop").logs_retry(2, "stop").logs_end(EMPTY).fails(EMPTY)
    outcome = silent.outcome()
    assert (outcome.reason, outcome.failure_kind) == (Reason.EMPTY_RESPONSE, "agent_invalid_output")
    assert [entry.line for entry in outcome.evidence if entry.source == "cline.log"] == [1, 2]


@pytest.mark.parametrize("words", [("stop", "other"), ("other", "stop"), ("abort", "stop"), ("stop", "")])
def test_one_line_of_the_group_that_is_not_stop_is_transport(words: tuple[str, str], run: Run) -> None:
    first, second = words
    mixed = run.logs_retry(1, first).logs_retry(2, second).logs_end(EMPTY).fails(EMPTY)
    assert mixed.outcome().reason is Reason.MODEL_TRANSPORT


def test_an_earlier_group_does_not_count(run: Run) -> None:
    twice = run.logs_retry(1, "other").logs_retry(1, "stop").logs_retry(2, "stop").logs_end(EMPTY)
    assert twice.fails(EMPTY).outcome().reason is Reason.EMPTY_RESPONSE


@pytest.mark.parametrize("attempts", [(2,), (1, 3), (2, 3), (0,), (-1,)])
def test_a_group_that_does_not_run_from_1_tells_nothing(attempts: tuple[int, ...], run: Run) -> None:
    broken = run
    for attempt in attempts:
        broken = broken.logs_retry(attempt, "stop")
    assert broken.logs_end(EMPTY).fails(EMPTY).outcome().reason is Reason.UNKNOWN


def test_a_sub_agent_s_retries_are_not_the_lead_s(run: Run) -> None:
    sub = run.logs_retry(1, "other").logs_retry(2, "other").logs_end(EMPTY, agent="agent_2")
    assert sub.logs_end(EMPTY).fails(EMPTY).outcome().reason is Reason.CUT_SHORT


def test_no_retry_line_and_the_lead_s_own_end_is_cut_short(run: Run) -> None:
    outcome = run.usage().logs_end(EMPTY).fails(EMPTY).outcome()
    assert (outcome.status, outcome.reason) == (Status.INCOMPLETE, Reason.CUT_SHORT)
    assert outcome.evidence[0].source == "cline.log"


@pytest.mark.parametrize("agent", ["agent_2", "", "AGENT_1"])
def test_another_agent_s_end_proves_nothing_about_the_lead(agent: str, run: Run) -> None:
    assert run.logs_end(EMPTY, agent=agent).fails(EMPTY).outcome().reason is Reason.UNKNOWN


def test_an_empty_response_without_a_log_is_unknown(run: Run) -> None:
    assert run.fails(EMPTY).outcome().reason is Reason.UNKNOWN


def test_the_log_of_an_earlier_run_in_the_same_file_is_not_read(run: Run) -> None:
    """cline.log is read from the run's own offset: Cline appends to it."""
    earlier = run.logs_retry(1, "other").logs_end(EMPTY).log or ()
    own = run.logs_retry(1, "stop").logs_end(EMPTY).log or ()
    before = b"".join(line + b"\n" for line in earlier)
    whole = before + b"".join(line + b"\n" for line in own)
    outcome = run.fails(EMPTY).but(log=read_log(whole, offset_bytes=len(before))).outcome()
    assert outcome.reason is Reason.EMPTY_RESPONSE
    assert outcome.evidence[0].line == 3
    shrunk = run.fails(EMPTY).but(log=read_log(before, offset_bytes=len(whole))).outcome()
    assert shrunk.reason is Reason.UNKNOWN
    assert "cline.log is shorter than this run's own offset" in shrunk.notes


def test_the_log_s_records_are_found_on_stderr_when_the_file_could_not_be_written(run: Run) -> None:
    lines = run.logs_status(429, "slow down").logs_end("slow down").log or ()
    stderr = read_stderr(b"Warning: x\n" + b"".join(line + b"\n" for line in lines))
    outcome = run.fails("slow down", "unknown").but(stderr=stderr, log=read_log(b"")).outcome()
    assert (outcome.reason, outcome.status_code) == (Reason.MODEL_REQUEST, 429)
    assert (outcome.evidence[0].source, outcome.evidence[0].line) == ("stderr.txt", 2)
