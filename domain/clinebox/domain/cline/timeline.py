"""When what happened in a run, as offsets from the stream's first record: for screen and paper."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

from clinebox.domain.cline.transcript_model import (
    FunctionCall,
    FunctionCallOutput,
    Invocation,
    ItemStatus,
    Mark,
    Transcript,
    Turn,
)

LAST: Final = 2**63
"""Where an entry without a time is sorted: after those that have one."""


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """A model turn; the model answered until `answered_ms`, its tools ran until `end_ms`."""

    invocation_id: str
    iteration: int | None
    start_ms: int | None
    answered_ms: int | None
    end_ms: int | None


@dataclass(frozen=True, slots=True)
class ToolSpan:
    """A tool call; `failed` when it never ran (`error`) or every command of it failed."""

    invocation_id: str
    call_id: str
    name: str
    start_ms: int | None
    end_ms: int | None
    duration_ms: int | None
    status: ItemStatus
    failed: bool


@dataclass(frozen=True, slots=True)
class TimelineMark:
    """A notice, a recorded mistake or an error."""

    invocation_id: str
    kind: str
    message: str
    start_ms: int | None


TimelineEntry: TypeAlias = TurnSpan | ToolSpan | TimelineMark


def timeline(transcript: Transcript) -> tuple[TimelineEntry, ...]:
    """Every turn, tool call and mark of all agents in the order in which they began, in ms from the start.

    Times come from Cline's `ts`; one that is missing is None and sorts last. Clocks may jump: offsets may be
    negative, and nothing is corrected.
    """
    origin = transcript.first_ms
    entries = chain.from_iterable(_entries(agent, origin) for agent in transcript.invocations)
    return tuple(sorted(entries, key=lambda entry: LAST if entry.start_ms is None else entry.start_ms))


def _entries(agent: Invocation, origin: int | None) -> list[TimelineEntry]:
    turns = [_turn(agent.invocation_id, turn, origin) for turn in agent.turns]
    marks = [_mark(agent.invocation_id, mark, origin) for mark in agent.marks]
    return [*turns, *_tools(agent, origin), *marks]


def _turn(invocation_id: str, turn: Turn, origin: int | None) -> TimelineEntry:
    return TurnSpan(
        invocation_id=invocation_id,
        iteration=turn.iteration,
        start_ms=_offset(turn.started_ms, origin),
        answered_ms=_offset(turn.answered_ms, origin),
        end_ms=_offset(turn.ended_ms, origin),
    )


def _tools(agent: Invocation, origin: int | None) -> list[TimelineEntry]:
    outputs = {item.call_line: item for item in agent.items if isinstance(item, FunctionCallOutput)}
    calls = [item for item in agent.items if isinstance(item, FunctionCall)]
    return [_tool(agent.invocation_id, call, outputs.get(call.line), origin) for call in calls]


def _tool(
    invocation_id: str, call: FunctionCall, output: FunctionCallOutput | None, origin: int | None
) -> TimelineEntry:
    return ToolSpan(
        invocation_id=invocation_id,
        call_id=call.call_id,
        name=call.name,
        start_ms=_offset(call.started_ms, origin),
        end_ms=_offset(call.ended_ms, origin),
        duration_ms=_duration(call, output),
        status=call.status,
        failed=output is not None and _failed(output),
    )


def _duration(call: FunctionCall, output: FunctionCallOutput | None) -> int | None:
    if output is not None and output.duration_ms is not None:
        return output.duration_ms
    if call.started_ms is None or call.ended_ms is None:
        return None
    return call.ended_ms - call.started_ms


def _failed(output: FunctionCallOutput) -> bool:
    """A failed command is no failed tool for Cline: it stands in `output[].success` (FORMAT.md §2)."""
    if output.error is not None:
        return True
    parts = output.output if isinstance(output.output, list) else [output.output]
    told = [part.get("success") for part in parts if isinstance(part, dict)]
    return bool(told) and all(success is False for success in told)


def _mark(invocation_id: str, mark: Mark, origin: int | None) -> TimelineEntry:
    return TimelineMark(invocation_id, mark.kind, mark.message, _offset(mark.at_ms, origin))


def _offset(at_ms: int | None, origin: int | None) -> int | None:
    return None if at_ms is None or origin is None else at_ms - origin
