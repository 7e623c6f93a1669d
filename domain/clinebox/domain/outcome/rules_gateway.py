"""What the gateway's record decides: it beats text (SPEC §2).

Only a whole record is asked. What it does not tell (Cline left in the middle, a connection that never came to
the gateway) is left to Cline's own log and sentences.
"""

from __future__ import annotations

from typing import Final

from clinebox.domain.model_calls.facts import ModelCallFacts, SeenCall
from clinebox.domain.model_calls.faults import OPEN, REQUEST, TRANSPORT, CallFault, FaultKind, was_left
from clinebox.domain.model_calls.phases import last_wait
from clinebox.domain.model_calls.record import CallPhase, ModelCall
from clinebox.domain.outcome.case import Case, Finding
from clinebox.domain.outcome.entries import call_entry, cited_entry
from clinebox.domain.outcome.model import EvidenceEntry, Reason
from clinebox.domain.outcome.sentences import SentenceKind

FINISH_REASONS: Final = {"length": Reason.OUTPUT_CAP, "content_filter": Reason.CONTENT_FILTER}

FAULT_WORDS: Final = {
    FaultKind.REFUSED: "the gateway could not connect to the model server",
    FaultKind.CUT: "the model server cut its answer",
    FaultKind.TIMEOUT: "the model server was silent for too long",
    FaultKind.NO_FINISH_REASON: "the model server's answer ended without a finish reason",
    FaultKind.ENGINE_ABORT: "the engine ended the answer itself",
    FaultKind.NOT_A_STREAM: "the model server sent no stream",
    FaultKind.BAD_DATA: "the model server's stream was damaged",
    FaultKind.REDIRECT: "the model server only redirected",
    FaultKind.STATUS: "the model server refused the request",
    FaultKind.ERROR_OBJECT: "the model server sent an error in its answer",
    FaultKind.GATEWAY: "the gateway itself refused the request",
    FaultKind.ABANDONED: "the answer had no end when Cline left",
    FaultKind.PENDING: "the answer had no end when the record was taken",
}


def gateway_cause(case: Case) -> Finding | None:
    """The cause of an `error`, by the last attempt of the lead's last turn."""
    result, calls = case.result, case.gateway
    if result is None or calls is None or calls.last is None or result.value.finish_reason != "error":
        return None
    fault = calls.last.fault
    if fault is None:
        return _by_finish_reason(case, calls, calls.last)
    if fault.kind in OPEN:
        return None
    return finding_of(calls.source, calls.last, fault, _beside(case))


def finding_of(
    source: str, seen: SeenCall, fault: CallFault, beside: tuple[EvidenceEntry, ...] = ()
) -> Finding:
    """What a faulty last call makes of a run. A call that Cline left has no finish reason either."""
    entries = (call_entry(source, seen, fault.field), *beside)
    if fault.kind in REQUEST:
        return Finding(Reason.MODEL_REQUEST, entries, status_code=fault.status)
    if fault.kind is FaultKind.GATEWAY:
        return Finding(Reason.UNKNOWN, entries, notes=(_own_refusal(seen.call),))
    return Finding(Reason.MODEL_TRANSPORT, entries)


def _own_refusal(call: ModelCall) -> str:
    why = call.gateway_error or f"status {call.gateway_status}"
    return f"{FAULT_WORDS[FaultKind.GATEWAY]}, not the model server: {why}"


def _by_finish_reason(case: Case, calls: ModelCallFacts, last: SeenCall) -> Finding | None:
    said = last.call.response
    reason = FINISH_REASONS.get(said.finish_reason or "")
    # FORMAT.md §5: with a tool call `length` ends nothing, the call runs (3.0.57 to 3.0.65).
    if reason is not None and not said.tool_call_count:
        return Finding(reason, (call_entry(calls.source, last, "finish_reason"), *_beside(case)))
    empty = case.sentence is not None and case.sentence.kind is SentenceKind.EMPTY_RESPONSE
    if not empty or said.produced_output or said.finish_reason != "stop":
        return None
    return _empty(case, calls)


def _empty(case: Case, calls: ModelCallFacts) -> Finding:
    """The model said nothing, each time; one attempt that broke means the transport (SPEC §2)."""
    broken = [(seen, seen.fault) for seen in calls.unproductive]
    for seen, fault in broken:
        if fault is not None and fault.kind in TRANSPORT | REQUEST:
            return Finding(
                Reason.MODEL_TRANSPORT, (call_entry(calls.source, seen, fault.field), *_beside(case))
            )
    entries = tuple(call_entry(calls.source, seen, "finish_reason") for seen in calls.unproductive[-3:])
    return Finding(Reason.EMPTY_RESPONSE, (*entries, *_beside(case)))


def _beside(case: Case) -> tuple[EvidenceEntry, ...]:
    """What Cline says of the same end, in its log and on stdout: kept, and outweighed."""
    entries: list[EvidenceEntry] = []
    if case.cause is not None and case.log is not None:
        field = "err.name" if case.cause.value.status is None else case.cause.value.status_field
        entries.append(cited_entry(case.log.source, case.cause, field))
    if case.stdout is not None and case.lead_error is not None:
        entries.append(cited_entry(case.stdout.source, case.lead_error, "event.error.message"))
    return tuple(entries)


def pending_call(calls: ModelCallFacts) -> SeenCall | None:
    """The newest call, if it had no end of its own: it goes on, or Cline's own end closed it."""
    newest = calls.newest
    fault = newest.fault if newest is not None else None
    if newest is None or fault is None:
        return None
    # A silence of 300 s is a timeout of Cline's only if nobody ended Cline.
    silent = fault.kind is FaultKind.TIMEOUT and was_left(newest.call)
    return newest if fault.kind in OPEN or silent else None


def wait_sentence(call: ModelCall) -> str:
    """What a call had been waiting for, in words.

    >>> from clinebox.domain.model_calls.record import CallTimes
    >>> wait_sentence(ModelCall(4, "/v1/responses", CallTimes(0.0, 0.1), recorded_at_s=212.0))
    'call 4 had been waiting 212 s for its first byte'
    """
    wait = last_wait(call)
    length = "for an unknown time" if wait.wait_s is None else f"{wait.wait_s:.0f} s"
    match wait.phase:
        case CallPhase.CONNECTING:
            return f"call {call.number} had been connecting {length}"
        case CallPhase.WAITING:
            return f"call {call.number} had been waiting {length} for its first byte"
        case CallPhase.IDLE:
            return f"call {call.number} had been silent {length} in the middle of its answer"
        case CallPhase.STREAMING | CallPhase.ENDED:
            return f"call {call.number} was streaming"
