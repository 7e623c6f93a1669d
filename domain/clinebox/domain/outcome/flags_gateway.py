"""Details of flags that the gateway's record tells (SPEC §2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from clinebox.domain.cline.cited import Cited
from clinebox.domain.cline.subagents import SubagentFailure
from clinebox.domain.cline.transcript import epoch_ms
from clinebox.domain.json_value import JsonValue
from clinebox.domain.model_calls.facts import ModelCallFacts, SeenCall
from clinebox.domain.model_calls.faults import BROKEN_TURN, OPEN
from clinebox.domain.model_calls.phases import last_wait
from clinebox.domain.outcome.case import Case
from clinebox.domain.outcome.rules_gateway import pending_call, wait_sentence

Details: TypeAlias = dict[str, JsonValue]

SHOWN_LIMIT: Final = 20
"""Entries of a list in a flag's details."""
JOIN_WINDOW_S: Final = 5.0
"""How far before a sub-agent's end its last call may have ended, by two clocks and Cline's own work."""
CLOCK_TOLERANCE_S: Final = 1.0


def pending_details(calls: ModelCallFacts) -> Details | None:
    """The call that was open when the run was ended: which one, what it waited for, and for how long."""
    seen = pending_call(calls)
    if seen is None:
        return None
    wait = last_wait(seen.call)
    return {
        "source": calls.source,
        "line": seen.line,
        "call": seen.call.number,
        "phase": wait.phase.value,
        "since_s": seen.call.times.received_at_s,
        "wait_s": None if wait.wait_s is None else round(wait.wait_s, 3),
        "sentence": wait_sentence(seen.call),
    }


def faulty_turns(calls: ModelCallFacts) -> Details | None:
    """Answers that were cut or aborted, and that a later turn made good."""
    return _listed(calls, [seen for seen in calls.recovered if _is_broken_turn(seen)])


def recovered_calls(calls: ModelCallFacts) -> Details | None:
    """Calls that gave nothing, and that a retry made good."""
    return _listed(calls, [seen for seen in calls.recovered if not _is_broken_turn(seen)])


def _is_broken_turn(seen: SeenCall) -> bool:
    """Half an answer, which Cline may have taken for a whole one; without a word it was retried."""
    fault = seen.fault
    return fault is not None and fault.kind in BROKEN_TURN and seen.call.response.produced_output


def _listed(calls: ModelCallFacts, found: Sequence[SeenCall]) -> Details | None:
    if not found:
        return None
    faults: list[JsonValue] = [_told(seen) for seen in found[:SHOWN_LIMIT]]
    return {"source": calls.source, "count": len(found), "faults": faults}


def _told(seen: SeenCall) -> Details:
    fault = seen.fault
    return {
        "line": seen.line,
        "call": seen.call.number,
        "kind": "empty_response" if fault is None else fault.kind.value,
        "detail": seen.call.response.finish_reason,
        "status": None if fault is None else fault.status,
    }


def call_behind(case: Case, failure: Cited[SubagentFailure]) -> Details:
    """The faulty call that ended just before a sub-agent failed, joined by time alone; empty for none."""
    calls, failed_ms = case.gateway, epoch_ms(failure.ts)
    if calls is None or failed_ms is None:
        return {}
    at_s = failed_ms / 1000
    near = [seen for seen in calls.faulty if _ended_just_before(seen, at_s)]
    if not near:
        return {}
    return {"model_call": {"source": calls.source, **_told(near[-1]), "joined_by": "time"}}


def _ended_just_before(seen: SeenCall, at_s: float) -> bool:
    ended_s, fault = seen.call.times.ended_at_s, seen.fault
    if ended_s is None or fault is None or fault.kind in OPEN:
        return False
    return at_s - JOIN_WINDOW_S <= ended_s <= at_s + CLOCK_TOLERANCE_S
