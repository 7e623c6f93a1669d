"""What was observed of a session, as WIRE.md's bundle: typed records, and a gap for each fact not known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from clinebox.domain.cline.transcript_model import (
    FunctionCall,
    FunctionCallOutput,
    Invocation,
    InvocationStatus,
    ItemStatus,
    Transcript,
)
from clinebox.domain.json_value import JsonValue
from clinebox.domain.model_calls.record import ModelCall
from clinebox.domain.model_calls.turns import JoinedCall
from clinebox.domain.outcome.model import Outcome, Status, StoppedBy
from clinebox.domain.ports import SandboxDescription
from clinebox.domain.receipt import CleanupReceipt
from clinebox.domain.session_grants import SkippedGrant

SOURCE: Final = "clinebox"
HARNESS_TIMING: Final = "harness"
"""Cline's own event times, not an executor's."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything an observation is made of; a part that is None is a gap."""

    outcome: Outcome
    transcript: Transcript | None
    receipt: CleanupReceipt | None
    sandbox: SandboxDescription | None
    model_calls: tuple[JoinedCall, ...] | None = None
    """What the gateway saw; None where none was used."""
    skipped_grants: tuple[SkippedGrant, ...] = ()


def observation_bundle(observed: Observed) -> JsonValue:
    """The `AgentObservationBundle` of one activation (WIRE.md, Observations).

    Times are epoch seconds from Cline's own `ts`; what was not measured is a gap, never a zero.
    """
    records = [*_invocations(observed), *_sandbox(observed)]
    return {"source": SOURCE, "records": [*records], "gaps": [*_gaps(observed)]}


def _invocations(observed: Observed) -> Iterator[JsonValue]:
    if observed.transcript is None:
        return
    for agent in observed.transcript.invocations:
        yield _invocation(agent, observed)
        yield from _tool_calls(agent, observed.sandbox)


def _invocation(agent: Invocation, observed: Observed) -> JsonValue:
    outcome = observed.outcome
    lead = agent.parent_invocation_id is None
    status = _lead_status(outcome) if lead else agent.status
    return {
        "kind": "agent_invocation",
        "invocation_id": agent.invocation_id,
        "parent_invocation_id": agent.parent_invocation_id,
        "spawned_by_tool_call_id": agent.spawned_by_call_id,
        "status": status.value,
        "duration_ms": _duration_ms(agent),
        "error_type": outcome.failure_kind if lead else None,
        "model_calls": [
            _model_call(each.call)
            for each in observed.model_calls or ()
            if each.turn is not None and each.turn.invocation_id == agent.invocation_id
        ],
        "conversation": None,
    }


def _model_call(call: ModelCall) -> JsonValue:
    """`model_call_id` is its number in `model_calls.jsonl`, where all of it stands."""
    return {
        "model_call_id": str(call.number),
        "model_ref": call.response.upstream_model or call.request.model,
        "response_id": call.response.response_id,
    }


def _lead_status(outcome: Outcome) -> InvocationStatus:
    match outcome.status:
        case Status.COMPLETED:
            return InvocationStatus.COMPLETED
        case Status.INCOMPLETE:
            return InvocationStatus.INCOMPLETE
        case Status.FAILED:
            return InvocationStatus.FAILED


def _duration_ms(agent: Invocation) -> int | None:
    starts = [turn.started_ms for turn in agent.turns if turn.started_ms is not None]
    ends = [turn.ended_ms for turn in agent.turns if turn.ended_ms is not None]
    return max(ends) - min(starts) if starts and ends and max(ends) >= min(starts) else None


def _tool_calls(agent: Invocation, sandbox: SandboxDescription | None) -> Iterator[JsonValue]:
    outputs = {item.call_line: item for item in agent.items if isinstance(item, FunctionCallOutput)}
    for item in agent.items:
        if isinstance(item, FunctionCall):
            yield _tool_call(agent.invocation_id, item, outputs.get(item.line), sandbox)


def _tool_call(
    invocation_id: str,
    call: FunctionCall,
    output: FunctionCallOutput | None,
    sandbox: SandboxDescription | None,
) -> JsonValue:
    rejected = output is not None and output.error is not None
    ended = _not_before(call.ended_ms, call.started_ms)
    return {
        "kind": "tool_call",
        "invocation_id": invocation_id,
        "tool_call_id": call.call_id,
        "sandbox_id": None if sandbox is None else sandbox.sandbox_id,
        "tool_name": call.name,
        "started_at": _seconds(call.started_ms),
        "completed_at": _seconds(ended),
        "duration_ms": None if output is None else output.duration_ms,
        "timing_source": HARNESS_TIMING,
        "status": _tool_status(call, rejected=rejected),
        "error_type": "rejected" if rejected else None,
    }


def _tool_status(call: FunctionCall, *, rejected: bool) -> str:
    if call.status is ItemStatus.INCOMPLETE:
        return "incomplete"
    return "failed" if rejected else "completed"


def _not_before(ended_ms: int | None, started_ms: int | None) -> int | None:
    """WIRE.md: never before `started_at`; a clock that was set back gives no end at all."""
    if ended_ms is None or started_ms is None or ended_ms < started_ms:
        return None
    return ended_ms


def _seconds(at_ms: int | None) -> float | None:
    return None if at_ms is None else at_ms / 1000


def _sandbox(observed: Observed) -> Iterator[JsonValue]:
    sandbox, receipt = observed.sandbox, observed.receipt
    if sandbox is None:
        return
    yield {
        "kind": "sandbox",
        "role": "agent",
        "provider": sandbox.provider,
        "sandbox_id": sandbox.sandbox_id,
        "outcome": _sandbox_outcome(observed.outcome, receipt),
        "exit_code": None if receipt is None else receipt.return_code,
        "wall_time_s": _wall_time_s(receipt),
        "cpu_time_s": None,
        "peak_memory_mib": None,
        "resource_usage_source": None,
        "error_type": None,
    }


def _sandbox_outcome(outcome: Outcome, receipt: CleanupReceipt | None) -> str:
    if receipt is None:
        return "unknown"
    if receipt.timed_out:
        return "timeout"
    if outcome.stopped_by in {StoppedBy.CALLER, StoppedBy.OPERATOR}:
        return "cancelled"
    return "completed" if receipt.return_code == 0 else "failed"


def _wall_time_s(receipt: CleanupReceipt | None) -> float | None:
    if receipt is None or receipt.started_at is None or receipt.ended_at is None:
        return None
    return round(max(receipt.ended_at - receipt.started_at, 0.0), 3)


def _gaps(observed: Observed) -> Iterator[JsonValue]:
    yield from _call_gaps(observed.model_calls)
    if observed.sandbox is not None:
        yield _gap("resource_usage_not_measured", "the sandbox reports neither CPU time nor peak memory")
    if observed.transcript is None:
        yield _gap("no_transcript", "Cline's stream was not there")
    if observed.receipt is None:
        yield _gap("no_receipt", "no cleanup receipt was read")
    if observed.outcome.usage is None:
        yield _gap("usage_unknown", "nothing was counted")
    for grant in observed.skipped_grants:
        yield _gap("tool_grant_skipped", grant.detail)


def _call_gaps(calls: tuple[JoinedCall, ...] | None) -> Iterator[JsonValue]:
    if calls is None:
        yield _gap("model_calls_not_captured", "no gateway stood between Cline and the model server")
        return
    for each in calls:
        if each.turn is None and each.call.is_completion:
            yield _gap("model_call_not_joined", f"it cannot be told which turn made call {each.call.number}")


def _gap(code: str, detail: str) -> JsonValue:
    return {"code": code, "invocation_id": None, "detail": detail}
