"""Words that are not Cline's own decide nothing; the endpoint and the version do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import (
    read_stderr,
)
from clinebox.domain.outcome.model import Reason, Status

if TYPE_CHECKING:
    from conftest import Run

CAP = "Model reached the maximum output token limit before completing the turn"
EMPTY = "Model returned empty response"
CLOSED = (
    "The socket connection was closed unexpectedly. For more information, pass `verbose: true` in the "
    "second argument to fetch()"
)
NO_FINISH = "Response stream ended without a finish reason."
CLINES_OWN_SENTENCES = (
    CAP,
    EMPTY,
    CLOSED,
    NO_FINISH,
    "The operation timed out.",
    "Cannot connect to API: Unable to connect. (ConnectionRefused)",
    "JSON parsing failed: Text: {.",
    "The response redirected too many times. x",
    "Detected 5 consecutive identical calls",
    "max consecutive mistakes reached (3) in yolo mode",
    "1 tool call(s) failed: x",
)


# --- words that are not Cline's own


@pytest.mark.parametrize("sentence", CLINES_OWN_SENTENCES)
def test_what_a_model_or_a_tool_says_never_changes_the_status(sentence: str, run: Run) -> None:
    output = [{"query": "cat x", "result": sentence, "success": True, "error": sentence}]
    said = run.says(sentence).calls(commands=[sentence]).returns(output=output).says(sentence)
    assert said.ends(text=sentence).outcome().reason is Reason.FINISHED
    assert said.fails("odd", "unknown").outcome().reason is Reason.UNKNOWN
    assert said.outcome().reason is Reason.NO_RUN_RESULT


@pytest.mark.parametrize("sentence", CLINES_OWN_SENTENCES)
def test_stderr_never_changes_the_status_of_a_run_that_began(sentence: str, run: Run) -> None:
    stderr = read_stderr(f'{{"type":"error","message":"{sentence}"}}\nerror: {sentence}\n'.encode())
    assert run.says("x").ends().but(stderr=stderr).outcome().reason is Reason.FINISHED
    assert run.says("x").but(stderr=stderr).outcome().reason is Reason.NO_RUN_RESULT


# --- the endpoint

ELSEWHERE = "https://api.openai.com/v1/chat/completions"


def test_a_completed_run_that_called_another_endpoint_was_never_set_up(run: Run) -> None:
    stray = run.logs_status(429, "slow", url=ELSEWHERE).says("hi").ends()
    outcome = stray.but(expected_base_url="http://host/v1").outcome()
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.HARNESS_SETUP)
    assert ELSEWHERE in outcome.text


def test_a_failing_run_keeps_its_cause_and_gets_a_note(run: Run) -> None:
    stray = run.logs_status(401, "no key", url=ELSEWHERE).logs_end("no key").fails("no key", "auth")
    outcome = stray.but(expected_base_url="http://host/v1").outcome()
    assert (outcome.reason, outcome.status_code) == (Reason.MODEL_REQUEST, 401)
    assert any(ELSEWHERE in note for note in outcome.notes)


@pytest.mark.parametrize("base_url", ["http://host/v1", "http://HOST:80/v1/", "http://u@host/v1", None])
def test_the_configured_endpoint_is_no_stray(base_url: str | None, run: Run) -> None:
    recovered = run.logs_status(429, "slow").says("hi").ends()
    assert recovered.but(expected_base_url=base_url).outcome().reason is Reason.FINISHED


@pytest.mark.parametrize(
    "base_url", ["http://host/v", "https://host/v1", "http://host:81/v1", "http://ost/v1"]
)
def test_a_near_miss_is_another_endpoint(base_url: str, run: Run) -> None:
    recovered = run.logs_status(429, "slow").says("hi").ends()
    assert recovered.but(expected_base_url=base_url).outcome().reason is Reason.HARNESS_SETUP


@pytest.mark.parametrize("base_url", ["", "host:8000", "ftp://host/v1", "http://"])
def test_a_base_url_that_is_none_is_the_caller_s_mistake(base_url: str, run: Run) -> None:
    failure = classify(run.ends().but(expected_base_url=base_url).evidence()).failure()
    assert repr(base_url) in failure.message


# --- versions


def test_an_unknown_newer_version_is_judged_by_the_newest_rules_with_a_note(run: Run) -> None:
    outcome = run.fails(NO_FINISH, "unknown").but(cline_version="3.1.0").outcome()
    assert outcome.reason is Reason.MODEL_TRANSPORT
    assert outcome.notes == ("Cline 3.1.0 is newer than any measured: rules of 3.0.65 were used",)


@pytest.mark.parametrize("version", ["3.0.57", "3.0.61", "3.0.65", None])
def test_a_measured_version_needs_no_note(version: str | None, run: Run) -> None:
    assert run.says("x").ends().but(cline_version=version).outcome().notes == ()


@pytest.mark.parametrize("version", ["latest", "", "3.0", "3.0.57-beta", "9" * 50, "3.0.5", "\ud800"])
def test_a_version_that_no_row_was_measured_for_still_gives_an_outcome(version: str, run: Run) -> None:
    outcome = run.says("x").ends().but(cline_version=version).outcome()
    assert outcome.reason is Reason.FINISHED
    assert len(outcome.notes) == 1
