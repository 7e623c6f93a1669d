"""What was wrong with a call, from its record alone (SPEC §2: the gateway's record beats text)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from clinebox.domain.model_calls.phases import last_wait
from clinebox.domain.model_calls.record import (
    FIRST_ERROR_STATUS,
    CallEnd,
    CallFlag,
    CallPhase,
    ModelCall,
)

FIRST_REDIRECT_STATUS: Final = 300
CLINE_SILENCE_LIMIT_S: Final = 300.0
"""FORMAT.md §5: Cline gives up after 300 s without a byte (3.0.57 to 3.0.65)."""
SILENCE_TOLERANCE_S: Final = 10.0
UPSTREAM_STATUSES: Final = frozenset({502, 504})
"""What the gateway answers with where the upstream could not be reached, or did not answer in time."""


class FaultKind(StrEnum):
    """What went wrong."""

    REFUSED = "refused"
    CUT = "cut"
    TIMEOUT = "timeout"
    NO_FINISH_REASON = "no_finish_reason"
    ENGINE_ABORT = "engine_abort"
    """Finish reason `abort` (vLLM shutting down) or `error`."""
    NOT_A_STREAM = "not_a_stream"
    BAD_DATA = "bad_data"
    REDIRECT = "redirect"
    STATUS = "status"
    """An HTTP status of 400 to 599 by the upstream."""
    ERROR_OBJECT = "error_object"
    """An error object in a response with status 200."""
    GATEWAY = "gateway"
    """The gateway itself refused the request: never the model's answer."""
    ABANDONED = "abandoned"
    """Cline left in the middle; the record does not tell why."""
    PENDING = "pending"
    """It had not ended when the record was taken."""


TRANSPORT: Final = frozenset(
    {
        FaultKind.REFUSED,
        FaultKind.CUT,
        FaultKind.TIMEOUT,
        FaultKind.NO_FINISH_REASON,
        FaultKind.ENGINE_ABORT,
        FaultKind.NOT_A_STREAM,
        FaultKind.BAD_DATA,
        FaultKind.REDIRECT,
    }
)
"""Faults of the way to the model, or of the engine."""
REQUEST: Final = frozenset({FaultKind.STATUS, FaultKind.ERROR_OBJECT})
"""Answers that refuse the request."""
OPEN: Final = frozenset({FaultKind.ABANDONED, FaultKind.PENDING})
"""Calls without an end of their own: nobody's fault by themselves."""
BROKEN_TURN: Final = frozenset({FaultKind.CUT, FaultKind.NO_FINISH_REASON, FaultKind.ENGINE_ABORT})
"""Faults that leave half an answer, which Cline may take for a whole one."""

ENGINE_REASONS: Final = frozenset({"abort", "error"})


@dataclass(frozen=True, slots=True)
class CallFault:
    """What was wrong with a call, and the field of its record that says so."""

    kind: FaultKind
    field: str
    status: int | None = None


def fault_of(call: ModelCall) -> CallFault | None:
    """What was wrong with the call; None where a whole answer passed, whatever it says."""
    return _own_refusal(call) or _status_fault(call) or _body_fault(call)


def was_left(call: ModelCall) -> bool:
    """Whether the client left it, by its own decision or because it was ended.

    After a long silence the gateway records that as a timeout; its own timeouts carry their error.
    """
    gave_up = call.end is CallEnd.TIMEOUT and call.gateway_error is None
    return call.end is CallEnd.CLIENT_CLOSED or gave_up


def _own_refusal(call: ModelCall) -> CallFault | None:
    if call.gateway_status is None:
        return None
    if call.end is CallEnd.CLIENT_CLOSED:
        # The session ended under it: nobody was there to be told a status.
        return CallFault(FaultKind.ABANDONED, "end")
    if call.gateway_status not in UPSTREAM_STATUSES:
        return CallFault(FaultKind.GATEWAY, "gateway_status")
    if _is_redirect(call.http_status):
        # It did answer; the gateway passes no redirect on, and says 502 in its place.
        return CallFault(FaultKind.REDIRECT, "http_status")
    kind = FaultKind.TIMEOUT if call.end is CallEnd.TIMEOUT else FaultKind.REFUSED
    return CallFault(FaultKind.CUT if call.end is CallEnd.UPSTREAM_CLOSED else kind, "end")


def _status_fault(call: ModelCall) -> CallFault | None:
    status = call.http_status
    if status is None:
        return _end_fault(call) or CallFault(FaultKind.CUT, "http_status")
    if status >= FIRST_ERROR_STATUS:
        return CallFault(FaultKind.STATUS, "http_status", status)
    return CallFault(FaultKind.REDIRECT, "http_status") if _is_redirect(status) else None


def _is_redirect(status: int | None) -> bool:
    return status is not None and FIRST_REDIRECT_STATUS <= status < FIRST_ERROR_STATUS


def _body_fault(call: ModelCall) -> CallFault | None:
    """The faults of a response with status 200, the clearest word first."""
    said = call.response
    if said.error is not None:
        return CallFault(FaultKind.ERROR_OBJECT, "error", said.error.status)
    if said.finish_reason in ENGINE_REASONS:
        return CallFault(FaultKind.ENGINE_ABORT, "finish_reason")
    if CallFlag.NOT_A_STREAM in said.flags and call.end is CallEnd.FINISHED:
        return CallFault(FaultKind.NOT_A_STREAM, "flags")
    if said.finish_reason is not None:
        # A finish reason is the last thing of an answer: what is lost behind it is at most the usage.
        return None
    if CallFlag.BAD_DATA in said.flags:
        return CallFault(FaultKind.BAD_DATA, "flags")
    return _end_fault(call) or CallFault(FaultKind.NO_FINISH_REASON, "finish_reason")


def _end_fault(call: ModelCall) -> CallFault | None:
    match call.end:
        case None:
            return CallFault(FaultKind.PENDING, "end")
        case CallEnd.CLIENT_CLOSED:
            gave_up = _silence_s(call) >= CLINE_SILENCE_LIMIT_S - SILENCE_TOLERANCE_S
            return CallFault(FaultKind.TIMEOUT if gave_up else FaultKind.ABANDONED, "end")
        case CallEnd.UPSTREAM_CLOSED:
            return CallFault(FaultKind.CUT, "end")
        case CallEnd.TIMEOUT:
            return CallFault(FaultKind.TIMEOUT, "end")
        case CallEnd.REFUSED:
            return CallFault(FaultKind.REFUSED, "end")
        case CallEnd.FINISHED:
            return None


def _silence_s(call: ModelCall) -> float:
    wait = last_wait(call)
    return 0.0 if wait.phase is CallPhase.ENDED or wait.wait_s is None else wait.wait_s
