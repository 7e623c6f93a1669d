"""The rules of SPEC §2 that the recorded runs do not show, or show only from one side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clinebox.domain.outcome.evidence import (
    read_log,
)
from clinebox.domain.outcome.model import Flag, Reason, Status

if TYPE_CHECKING:
    from conftest import Run

CAP = "Model reached the maximum output token limit before completing the turn"
EMPTY = "Model returned empty response"
CLOSED = (
    "The socket connection was closed unexpectedly. For more information, pass `verbose: true` in the "
    "second argument to fetch()"
)
NO_FINISH = "Response stream ended without a finish reason."


# --- causes of an error, top to bottom


def test_context_overflow_comes_before_the_status_that_caused_it(run: Run) -> None:
    overflow = (
        run.logs_status(400, "Bad Request").logs_end("too long").fails("too long", "context_window_exceeded")
    )
    assert overflow.outcome().reason is Reason.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    "error_class", ["unknown", "auth", "context_window", "CONTEXT_WINDOW_EXCEEDED", None]
)
def test_no_other_error_class_decides(error_class: str | None, run: Run) -> None:
    assert run.fails("prompt is too long: context length", error_class).outcome().reason is Reason.UNKNOWN


def test_a_server_s_own_error_class_words_are_no_overflow(run: Run) -> None:
    recovered = run.error("too long", "context_window_exceeded", recoverable=True)
    assert recovered.says("ok").ends().outcome().reason is Reason.FINISHED


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 429, 500, 503, 529, 599])
def test_the_status_is_the_log_s_and_the_words_are_the_server_s(status: int, run: Run) -> None:
    outcome = run.logs_status(status, "no").logs_end("no").fails("no", "unknown").outcome()
    assert (outcome.reason, outcome.status_code) == (Reason.MODEL_REQUEST, status)
    assert (outcome.evidence[0].source, outcome.evidence[0].line) == ("cline.log", 1)
    assert outcome.evidence[0].excerpt.startswith(f'"statusCode": {status}')


@pytest.mark.parametrize("message", ["HTTP 500", "429 Too Many Requests", "status code 503", "500"])
def test_a_status_is_never_guessed_from_words(message: str, run: Run) -> None:
    outcome = run.fails(message, "unknown").outcome()
    assert (outcome.reason, outcome.status_code) == (Reason.UNKNOWN, None)


@pytest.mark.parametrize("sentence", [CAP, EMPTY, CLOSED, NO_FINISH, "The operation timed out."])
def test_cline_s_sentences_from_the_server_s_mouth_are_a_model_request(sentence: str, run: Run) -> None:
    said = run.logs_status(500, sentence).logs_end(sentence).fails(sentence, "unknown")
    assert (said.outcome().reason, said.outcome().status_code) == (Reason.MODEL_REQUEST, 500)


@pytest.mark.parametrize("sentence", [CAP, EMPTY])
def test_without_the_log_they_are_at_least_never_graded(sentence: str, run: Run) -> None:
    assert run.fails(sentence, "unknown").outcome().status is Status.FAILED


@pytest.mark.parametrize("sentence", [CAP, EMPTY, CLOSED])
def test_an_error_object_in_the_stream_with_cline_s_sentence_is_unknown(sentence: str, run: Run) -> None:
    said = run.logs("[ai-sdk] stream error", err={"type": "Object", "message": sentence})
    assert said.logs_end(sentence).fails(sentence, "unknown").outcome().reason is Reason.UNKNOWN


REDIRECTED = (
    "The response redirected too many times. For more information, pass `verbose: true` in the second"
    " argument to fetch()"
)


def test_a_redirect_loop_is_transport(run: Run) -> None:
    """3.0.57 and 3.0.65: Bun's own error reaches the log unwrapped, with a code and no name."""
    error = {"type": "Error", "message": REDIRECTED, "code": "TooManyRedirects", "errno": 0}
    said = run.logs("[ai-sdk] stream error", err=error)
    outcome = said.logs_end(REDIRECTED).fails(REDIRECTED, "unknown").outcome()
    assert outcome.reason is Reason.MODEL_TRANSPORT
    assert (outcome.evidence[0].line, outcome.evidence[0].field) == (1, "err.code")
    assert outcome.evidence[0].excerpt.startswith('"code": "TooManyRedirects"')


@pytest.mark.parametrize(
    "error", [{"type": "Object", "code": "TooManyRedirects"}, {"type": "Error", "code": 500}]
)
def test_a_server_s_object_with_the_code_of_a_redirect_loop_is_unknown(
    error: dict[str, object], run: Run
) -> None:
    body = {**error, "message": REDIRECTED}
    said = run.logs("[ai-sdk] stream error", err=body)
    assert said.logs_end(REDIRECTED).fails(REDIRECTED, "unknown").outcome().reason is Reason.UNKNOWN


def test_a_later_version_may_give_the_cap_a_class_if_the_log_shows_no_server_s_error(run: Run) -> None:
    classed = run.says("cut").logs_end(CAP).fails(CAP, "output_cap")
    assert classed.outcome().reason is Reason.OUTPUT_CAP


@pytest.mark.parametrize("spoilt", [b"{half a line", b"x" * (9 << 20)])
def test_a_log_with_a_line_that_was_not_read_shows_nothing_of_the_kind(spoilt: bytes, run: Run) -> None:
    end = run.logs_end(CAP).log or ()
    log = read_log(b"\n".join((spoilt, *end)) + b"\n")
    assert run.says("cut").fails(CAP, "output_cap").but(log=log).outcome().reason is Reason.UNKNOWN


@pytest.mark.parametrize("near", [f"{CAP}.", CAP.lower(), f" {CAP}", f"Error: {CAP}"])
def test_the_cap_s_sentence_is_matched_whole(near: str, run: Run) -> None:
    assert run.fails(near).outcome().reason is Reason.UNKNOWN


@pytest.mark.parametrize(
    "near",
    [
        "Oh: The socket connection was closed unexpectedly.",
        "the operation timed out.",
        "The operation timed out",
    ],
)
def test_transport_sentences_are_matched_from_their_beginning(near: str, run: Run) -> None:
    assert run.fails(near, "unknown").outcome().reason is Reason.UNKNOWN


@pytest.mark.parametrize(("version", "reason"), [("3.0.57", "unknown"), ("3.0.61", "model_transport")])
def test_a_sentence_counts_only_in_the_versions_that_write_it(version: str, reason: str, run: Run) -> None:
    outcome = run.fails(NO_FINISH, "unknown").but(cline_version=version).outcome()
    assert outcome.reason == reason


def test_a_fault_that_was_recovered_is_not_the_cause_of_a_later_cut(run: Run) -> None:
    """A stream that breaks after content leaves no line in cline.log (FORMAT.md §6)."""
    faulty = run.logs_status(400, "Bad Request").says("compacted").logs_end(CLOSED).fails(CLOSED, "unknown")
    outcome = faulty.outcome()
    assert (outcome.reason, outcome.status_code) == (Reason.MODEL_TRANSPORT, None)


def test_a_fault_of_an_earlier_turn_is_not_the_cause_of_an_unknown_error(run: Run) -> None:
    faulty = run.logs_status(400, "Bad Request").usage().turn(2).logs_end("odd").fails("odd", "unknown")
    assert faulty.outcome().reason is Reason.UNKNOWN


def test_a_sub_agent_s_status_is_not_the_lead_s(run: Run) -> None:
    sub = run.logs_status(500, "boom").logs_end("boom", agent="agent_2")
    outcome = sub.logs_end(CLOSED).fails(CLOSED, "unknown").outcome()
    assert (outcome.reason, outcome.status_code) == (Reason.MODEL_TRANSPORT, None)


def test_a_success_status_that_is_an_error_all_the_same_is_transport(run: Run) -> None:
    outcome = run.logs_status(200, "Invalid JSON response").logs_end("Invalid JSON response")
    assert outcome.fails("Invalid JSON response", "unknown").outcome().reason is Reason.MODEL_TRANSPORT


def test_an_error_name_that_no_rule_knows_is_unknown(run: Run) -> None:
    logged = run.logs("[ai-sdk] stream error", err={"name": "AI_LoadAPIKeyError", "message": "no key"})
    assert logged.logs_end("no key").fails("no key", "unknown").outcome().reason is Reason.UNKNOWN


# --- sub-agents


def test_the_lead_s_outcome_never_comes_from_a_sub_agent(run: Run) -> None:
    inside = run.says("go").calls("spawn_agent").start("agent_2", parent="agent_1")
    failed = inside.error("too long", "context_window_exceeded").event("done", reason="aborted", text="sub")
    outcome = failed.returns("spawn_agent").says("sorry").ends().outcome()
    assert outcome.reason is Reason.FINISHED
    assert Flag.SUBAGENT_FAILED in outcome.flags


def test_a_sub_agent_s_terminal_error_is_not_the_cause_of_the_lead_s(run: Run) -> None:
    inside = run.calls("spawn_agent").start("agent_2", parent="agent_1").error("x", "context_window_exceeded")
    outcome = inside.returns("spawn_agent").ends("error", "x").outcome()
    assert outcome.reason is Reason.UNKNOWN


def test_nested_sub_agents_are_a_stack(run: Run) -> None:
    outer = run.calls("spawn_agent", "a").start("agent_2", parent="agent_1")
    inner = outer.calls("spawn_agent", "b").start("agent_3", parent="agent_2").error(CAP)
    back = inner.returns("spawn_agent", "b").error(CAP).returns("spawn_agent", "a")
    assert back.fails("odd", "unknown").outcome().reason is Reason.UNKNOWN
    assert back.fails(CAP).outcome().reason is Reason.OUTPUT_CAP
