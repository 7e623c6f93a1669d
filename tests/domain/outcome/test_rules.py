"""The rules of SPEC §2 that the recorded runs do not show, or show only from one side."""

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
