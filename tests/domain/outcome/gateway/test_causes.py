"""Each fault of a model server, once and for good, as Cline and the gateway tell it: what the run is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import pytest

from clinebox.domain.model_calls.record import CallEnd, ModelCall
from clinebox.domain.outcome.model import Flag, Reason, Status, StoppedBy

if TYPE_CHECKING:
    from conftest import Calls, Run

CAP = "Model reached the maximum output token limit before completing the turn"
EMPTY = "Model returned empty response"
CLOSED = "The socket connection was closed unexpectedly. For more information, …"
NO_FINISH = "Response stream ended without a finish reason."
TIMED_OUT = "The operation timed out."

Told: TypeAlias = "Callable[[Run], Run]"
Seen: TypeAlias = "Callable[[Calls], list[ModelCall]]"


@dataclass(frozen=True)
class Row:
    told: Told
    seen: Seen
    reason: Reason
    status_code: int | None = None
    flags: frozenset[Flag] = frozenset()
    """Of those that the gateway tells."""


def done(run: Run) -> Run:
    return run.says("Hello").ends()


def fails(text: str, error_class: str | None = None) -> Told:
    return lambda run: run.fails(text, error_class)


def logged(status: int) -> Told:
    return lambda run: run.logs_status(status, "no").logs_end("no").fails("no", "unknown")


def old(told: Told) -> Told:
    """The same by Cline 3.0.57, where a stream that just ends is an answer."""
    return lambda run: told(replace(run, version="3.0.57"))


def no_call(_calls: Calls) -> list[ModelCall]:
    return []


def expired(run: Run) -> Run:
    return run.with_receipt(timed_out=True, stopped_by="deadline", return_code=None)


def mistaken(run: Run) -> Run:
    failed = run.says("x").error("1 tool call(s) failed: x", recoverable=True)
    return failed.ends("aborted").aborted("external_abort")


def looped(run: Run) -> Run:
    failed = run.says("x").error("Detected 5 consecutive identical calls", recoverable=True)
    return failed.ends("aborted").aborted("external_abort")


RECOVERED = frozenset({Flag.RECOVERED_FAULTS})
BROKEN = frozenset({Flag.FAULTY_TURN})
PENDING = frozenset({Flag.MODEL_CALL_PENDING})
CONFLICT = frozenset({Flag.CONFLICTING_EVIDENCE})
OF_THE_GATEWAY = RECOVERED | BROKEN | PENDING | CONFLICT

ROWS: dict[str, Row] = {
    # whole runs
    "an ordinary run": Row(done, lambda c: [c.tool(), c.ok()], Reason.FINISHED),
    "an answer with an unknown finish reason": Row(done, lambda c: [c.ok("weird")], Reason.FINISHED),
    "no [DONE] behind the finish reason": Row(
        done, lambda c: [c.ok(end=CallEnd.UPSTREAM_CLOSED)], Reason.FINISHED
    ),
    "Cline leaves behind the finish reason": Row(
        done, lambda c: [c.ok(end=CallEnd.CLIENT_CLOSED)], Reason.FINISHED
    ),
    "a server without usage": Row(done, lambda c: [c.ok(usage=None)], Reason.FINISHED),
    "a failed compaction before a good answer": Row(
        done,
        lambda c: [c.tool(), c.call(tools=False, http_status=500), c.ok()],
        Reason.FINISHED,
        None,
        RECOVERED,
    ),
    "a compaction that was cut, after the last turn": Row(
        done, lambda c: [c.ok(), c.ok(None, tools=False)], Reason.FINISHED
    ),
    "every tool taken away": Row(done, lambda c: [c.ok(tools=False)], Reason.FINISHED),
    # completed, says Cline
    "completed over a 3.0.57 stream that just ended": Row(
        old(done), lambda c: [c.ended()], Reason.MODEL_TRANSPORT
    ),
    "completed over a cut": Row(old(done), lambda c: [c.tool(), c.cut()], Reason.MODEL_TRANSPORT),
    "completed over an engine's abort": Row(done, lambda c: [c.ok("abort")], Reason.MODEL_TRANSPORT),
    "completed over an engine's error": Row(done, lambda c: [c.ok("error")], Reason.MODEL_TRANSPORT),
    "completed over a filter": Row(done, lambda c: [c.ok("content_filter")], Reason.CONTENT_FILTER),
    "completed over a cap": Row(done, lambda c: [c.ok("length")], Reason.OUTPUT_CAP),
    "completed over an error object": Row(
        done, lambda c: [c.error_object(503, output=True)], Reason.MODEL_REQUEST, 503
    ),
    "completed over a call that Cline left": Row(
        done, lambda c: [c.ok(None, end=CallEnd.CLIENT_CLOSED)], Reason.MODEL_TRANSPORT
    ),
    "completed over a status": Row(done, lambda c: [c.tool(), c.status(500)], Reason.UNKNOWN, None, CONFLICT),
    "completed over a refused connection": Row(done, lambda c: [c.refused()], Reason.UNKNOWN, None, CONFLICT),
    "completed without a call": Row(done, no_call, Reason.HARNESS_SETUP),
    "completed with nothing but a list of models": Row(
        done, lambda c: [c.call(path="/models", method="GET")], Reason.HARNESS_SETUP
    ),
    # once, and recovered
    "500 once": Row(done, lambda c: [c.status(500), c.ok()], Reason.FINISHED, None, RECOVERED),
    "429 once": Row(done, lambda c: [c.status(429), c.ok()], Reason.FINISHED, None, RECOVERED),
    "refused once": Row(done, lambda c: [c.refused(), c.ok()], Reason.FINISHED, None, RECOVERED),
    "reset before the headers once": Row(
        done, lambda c: [c.reset_before_headers(), c.ok()], Reason.FINISHED, None, RECOVERED
    ),
    "an empty stream once": Row(
        done, lambda c: [c.ended(output=False), c.ok()], Reason.FINISHED, None, RECOVERED
    ),
    "an empty answer once": Row(done, lambda c: [c.empty(), c.ok()], Reason.FINISHED, None, RECOVERED),
    "a page once": Row(done, lambda c: [c.html(), c.ok()], Reason.FINISHED, None, RECOVERED),
    "an aborted turn once": Row(done, lambda c: [c.ok("abort"), c.ok()], Reason.FINISHED, None, BROKEN),
    "a cut turn once": Row(done, lambda c: [c.cut(), c.ok()], Reason.FINISHED, None, BROKEN),
    "a turn without finish reason once": Row(
        done, lambda c: [c.ended(), c.tool(), c.ok()], Reason.FINISHED, None, BROKEN
    ),
    "both kinds once": Row(
        done, lambda c: [c.status(503), c.ok("abort"), c.ok()], Reason.FINISHED, None, BROKEN | RECOVERED
    ),
    # for good
    "401 for good": Row(logged(401), lambda c: [c.status(401)], Reason.MODEL_REQUEST, 401),
    "400 after a tool": Row(logged(400), lambda c: [c.tool(), c.status(400)], Reason.MODEL_REQUEST, 400),
    "429 for good": Row(logged(429), lambda c: [c.status(429)] * 6, Reason.MODEL_REQUEST, 429),
    "500 for good, and no log": Row(
        fails("no", "unknown"), lambda c: [c.status(500)] * 6, Reason.MODEL_REQUEST, 500
    ),
    "another status at the last attempt": Row(
        fails("no", "unknown"), lambda c: [c.status(500), c.status(503)], Reason.MODEL_REQUEST, 503
    ),
    "a status in Cline's sentence": Row(
        fails(CAP, "unknown"), lambda c: [c.status(500)], Reason.MODEL_REQUEST, 500
    ),
    "refused for good": Row(
        fails("Cannot connect to API: x"), lambda c: [c.refused()] * 3, Reason.MODEL_TRANSPORT
    ),
    "502 by the gateway, in Cline's log": Row(
        logged(502), lambda c: [c.refused()] * 6, Reason.MODEL_TRANSPORT
    ),
    "connect timeout": Row(fails("no", "unknown"), lambda c: [c.connect_timeout()], Reason.MODEL_TRANSPORT),
    "reset before the headers": Row(
        fails("Cannot connect to API: x"), lambda c: [c.reset_before_headers()] * 3, Reason.MODEL_TRANSPORT
    ),
    "cut in mid-answer": Row(fails(CLOSED), lambda c: [c.tool(), c.cut()], Reason.MODEL_TRANSPORT),
    "no finish reason": Row(fails(NO_FINISH), lambda c: [c.ended()], Reason.MODEL_TRANSPORT),
    "300 s without a byte": Row(
        fails(TIMED_OUT), lambda c: [c.silent(300.5, end=CallEnd.CLIENT_CLOSED)], Reason.MODEL_TRANSPORT
    ),
    "300 s of silence in mid-answer": Row(
        fails("no", "unknown"),
        lambda c: [c.stalled(300.5, end=CallEnd.CLIENT_CLOSED)],
        Reason.MODEL_TRANSPORT,
    ),
    "the gateway's own timeout": Row(
        fails("no", "unknown"), lambda c: [c.silent(330, end=CallEnd.TIMEOUT)], Reason.MODEL_TRANSPORT
    ),
    "a page for good": Row(fails(EMPTY), lambda c: [c.html()] * 3, Reason.MODEL_TRANSPORT),
    "a stream of nothing for good": Row(
        fails(EMPTY), lambda c: [c.ended(output=False)] * 3, Reason.MODEL_TRANSPORT
    ),
    "malformed data": Row(
        fails("JSON parsing failed: Text: {."), lambda c: [c.malformed()], Reason.MODEL_TRANSPORT
    ),
    "malformed data in mid-answer, in words unknown": Row(
        fails("odd", "unknown"), lambda c: [c.malformed(output=True)], Reason.MODEL_TRANSPORT
    ),
    "a redirect loop": Row(
        fails("The response redirected too many times. x"),
        lambda c: [c.status(307)] * 20,
        Reason.MODEL_TRANSPORT,
    ),
    "a redirect that the gateway passes not on": Row(
        logged(502), lambda c: [c.redirected()] * 6, Reason.MODEL_TRANSPORT
    ),
    "a redirect once": Row(done, lambda c: [c.redirected(), c.ok()], Reason.FINISHED, None, RECOVERED),
    "an engine that aborts nothing": Row(
        fails(EMPTY), lambda c: [c.empty("abort")] * 3, Reason.MODEL_TRANSPORT
    ),
    "an error object with a status": Row(
        fails("boom", "unknown"), lambda c: [c.error_object(503)], Reason.MODEL_REQUEST, 503
    ),
    "an error object with words": Row(
        fails("boom", "unknown"), lambda c: [c.error_object("overloaded")], Reason.MODEL_REQUEST
    ),
    "an error object with an odd code": Row(
        fails("boom", "unknown"), lambda c: [c.error_object(200)], Reason.MODEL_REQUEST
    ),
    "an error object in mid-answer": Row(
        fails("boom", "unknown"), lambda c: [c.error_object(500, output=True)], Reason.MODEL_REQUEST, 500
    ),
    "the gateway's own 413": Row(logged(413), lambda c: [c.refused_by_us(413)], Reason.UNKNOWN),
    "the gateway's own 401": Row(fails("no", "auth"), lambda c: [c.refused_by_us(401)], Reason.UNKNOWN),
    # the model's own end, told apart
    "capped with text": Row(fails(CAP), lambda c: [c.ok("length")], Reason.OUTPUT_CAP),
    "capped before any text": Row(fails(EMPTY), lambda c: [c.empty("length")], Reason.OUTPUT_CAP),
    "filtered before any text": Row(
        fails(EMPTY), lambda c: [c.empty("content_filter")], Reason.CONTENT_FILTER
    ),
    "nothing said, each time": Row(
        fails(EMPTY), lambda c: [c.tool(), *[c.empty()] * 3], Reason.EMPTY_RESPONSE
    ),
    "nothing said, and one attempt broke": Row(
        fails(EMPTY), lambda c: [c.empty("abort"), c.empty(), c.empty()], Reason.MODEL_TRANSPORT
    ),
    "an overflow": Row(
        fails("too long", "context_window_exceeded"), lambda c: [c.status(400)], Reason.CONTEXT_OVERFLOW
    ),
    "too many mistakes": Row(mistaken, lambda c: [c.tool()] * 3, Reason.MISTAKE_LIMIT),
    "mistakes of a server that cut the arguments": Row(
        mistaken, lambda c: [c.tool(), c.ok(None, tool_calls=1)], Reason.MODEL_TRANSPORT
    ),
    "a loop": Row(looped, lambda c: [c.tool()] * 5, Reason.LOOP_DETECTED),
    # Cline's words over an answer that was whole
    "a cap in words alone": Row(fails(CAP), lambda c: [c.ok()], Reason.UNKNOWN, None, CONFLICT),
    "a cap without a call": Row(fails(CAP), no_call, Reason.UNKNOWN),
    "a status in the log alone": Row(logged(403), lambda c: [c.ok()], Reason.UNKNOWN, None, CONFLICT),
    "a status in the log, and no call at the gateway": Row(logged(403), no_call, Reason.MODEL_REQUEST, 403),
    "another status in the log": Row(
        logged(400), lambda c: [c.status(500)], Reason.MODEL_REQUEST, 500, CONFLICT
    ),
    "a connection that never came to the gateway": Row(
        fails("Cannot connect to API: x"), lambda c: [c.tool()], Reason.MODEL_TRANSPORT
    ),
    # the deadline
    "a deadline in the first answer": Row(
        lambda run: expired(run.says("x").turn(2)),
        lambda c: [c.tool(), c.silent(212, end=CallEnd.CLIENT_CLOSED)],
        Reason.DEADLINE,
        None,
        PENDING,
    ),
    "a deadline with output that the gateway alone saw": Row(
        expired, lambda c: [c.ok(None, end=None)], Reason.DEADLINE, None, PENDING
    ),
    "a deadline in a tool": Row(
        lambda run: expired(run.says("x").calls()), lambda c: [c.tool()], Reason.DEADLINE
    ),
    "a deadline over calls that never answered": Row(
        expired,
        lambda c: [c.status(500), c.silent(200, end=CallEnd.CLIENT_CLOSED)],
        Reason.MODEL_TRANSPORT,
        None,
        PENDING,
    ),
    "a deadline in a silent retry": Row(expired, lambda c: [c.status(500)] * 3, Reason.MODEL_TRANSPORT),
    "a deadline over a call that gave nothing": Row(expired, lambda c: [c.empty()], Reason.MODEL_TRANSPORT),
    "a deadline without a call": Row(expired, no_call, Reason.DEADLINE_BEFORE_OUTPUT),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_gateway_s_record_decides(name: str, run: Run, calls: Calls) -> None:
    row = ROWS[name]
    outcome = row.told(run).but(model_calls=calls(*row.seen(calls))).outcome()
    assert (outcome.reason, outcome.status_code) == (row.reason, row.status_code)
    assert set(outcome.flags) & OF_THE_GATEWAY == row.flags
    if outcome.stopped_by is not None:
        assert (outcome.stopped_by, outcome.timed_out) == (StoppedBy.DEADLINE, True)


def test_there_are_more_than_forty_rows() -> None:
    assert len(ROWS) > 40


@pytest.mark.parametrize("name", ROWS)
def test_the_judgement_names_a_line_that_is_there(name: str, run: Run, calls: Calls) -> None:
    row = ROWS[name]
    seen = row.seen(calls)
    outcome = row.told(run).but(model_calls=calls(*seen)).outcome()
    assert outcome.evidence
    lines = calls.as_bytes(seen).decode().split("\n")
    for entry in outcome.evidence:
        if entry.source == "model_calls.jsonl" and entry.line is not None:
            assert entry.excerpt in lines[entry.line - 1]
            assert entry.excerpt.startswith(f'"{entry.field}":')


# --- what is said in words


def test_two_facts_are_kept_where_cline_s_log_and_the_gateway_disagree(run: Run, calls: Calls) -> None:
    outcome = logged(400)(run).but(model_calls=calls(calls.status(500))).outcome()
    assert [(entry.source, entry.field) for entry in outcome.evidence] == [
        ("model_calls.jsonl", "http_status"),
        ("cline.log", "err.statusCode"),
        ("stdout.ndjson", "event.error.message"),
    ]
    assert outcome.notes == ("conflicting evidence: cline.log says status 400, the gateway saw status 500",)


def test_a_redirect_is_not_taken_for_a_refused_connection(run: Run, calls: Calls) -> None:
    """The record has both: the upstream's redirect, and the gateway's 502 in its place."""
    outcome = logged(502)(run).but(model_calls=calls(*[calls.redirected()] * 6)).outcome()
    assert outcome.evidence[0].field == "http_status"
    assert outcome.evidence[0].excerpt.startswith('"http_status":307')


def test_the_gateway_s_own_refusal_is_never_the_model_s(run: Run, calls: Calls) -> None:
    outcome = logged(413)(run).but(model_calls=calls(calls.refused_by_us(413))).outcome()
    assert (outcome.status, outcome.failure_kind, outcome.status_code) == (Status.FAILED, "unknown", None)
    assert "the gateway itself refused the request, not the model server" in outcome.notes[0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda c: c.silent(212, end=None), "call 4 had been waiting 212 s for its first byte"),
        (lambda c: c.silent(9, end=CallEnd.CLIENT_CLOSED, connected=False), "call 4 had been connecting 9 s"),
        (lambda c: c.silent(295, end=CallEnd.TIMEOUT), "call 4 had been waiting 295 s for its first byte"),
    ],
)
def test_a_deadline_before_any_output_says_which_wait_it_was(
    make: Callable[[Calls], ModelCall], words: str, run: Run, calls: Calls
) -> None:
    seen = calls(*[calls.status(503)] * 3, make(calls))
    outcome = expired(run).but(model_calls=seen).outcome()
    assert (outcome.reason, outcome.timed_out) == (Reason.MODEL_TRANSPORT, True)
    assert outcome.text == f"The deadline came before any model output (model calls: 4): {words}."


@pytest.mark.parametrize(
    ("finish", "contradicted"), [("stop", True), ("length", False), ("content_filter", False)]
)
def test_an_empty_answer_over_a_productive_call_is_a_contradiction_unless_it_was_cut(
    finish: str, *, contradicted: bool, run: Run, calls: Calls
) -> None:
    outcome = fails(EMPTY)(run).but(model_calls=calls(calls.ok(finish))).outcome()
    assert (Flag.CONFLICTING_EVIDENCE in outcome.flags) is contradicted
