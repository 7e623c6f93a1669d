"""What the agent said and did, as Responses items in order, sub-agents nested by invocation (SPEC §2).

Folded from the records of `cline --json` (FORMAT.md §2); whose event it is, nesting.py tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from clinebox.domain.cline.events import Record, ToolEnd, ToolStart
from clinebox.domain.cline.nesting import SPAWN_TOOL, AgentStack
from clinebox.domain.cline.transcript_frame import AgentFrame
from clinebox.domain.cline.transcript_model import Transcript

LEAD: Final = "agent-0"
"""The lead's invocation id; sub-agents are numbered in the order in which they were spawned."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def fold_transcript(records: Iterable[Record]) -> Transcript:
    """The transcript of a recorded stream; total on any records in any order."""
    folder = TranscriptFolder()
    for record in records:
        folder.add(record)
    return folder.finish()


def epoch_ms(ts: str | None) -> int | None:
    """Cline's ISO time as milliseconds since 1970, UTC; None when it is no such time.

    >>> epoch_ms("2026-11-30T16:54:43.215Z"), epoch_ms("yesterday")
    (1796057683215, None)
    """
    if ts is None:
        return None
    try:
        moment = datetime.fromisoformat(ts)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round((aware - _EPOCH).total_seconds() * 1000)
    except (ValueError, OverflowError):
        return None


class TranscriptFolder:
    """Takes the records one by one, as they come; `finish` may be asked at any time, also in between."""

    def __init__(self) -> None:
        self._frames = [AgentFrame(LEAD)]
        self._stack = [self._frames[0]]
        self._nesting = AgentStack()
        self._first_ms: int | None = None
        self._last_ms: int | None = None

    def add(self, record: Record) -> None:
        """Take the next record; one that says nothing to a transcript only moves the clock."""
        at_ms = epoch_ms(record.ts)
        if at_ms is not None:
            self._first_ms = at_ms if self._first_ms is None else self._first_ms
            self._last_ms = at_ms
        depth = self._nesting.feed(record.event, record.line)
        del self._stack[depth + 1 :]
        self._give(self._stack[depth], record, at_ms)

    def finish(self) -> Transcript:
        """The transcript so far; what is still open is `incomplete`."""
        lead, *others = self._frames
        kept = [lead, *(frame for frame in others if frame.began)]
        return Transcript(tuple(frame.freeze() for frame in kept), self._first_ms, self._last_ms)

    def _give(self, frame: AgentFrame, record: Record, at_ms: int | None) -> None:
        match record.event:
            case ToolStart() as start if start.tool_name == SPAWN_TOOL:
                child = self._spawn(frame, start)
                frame.tool_start(start, record.line, at_ms, child.invocation_id)
            case ToolStart() as start:
                frame.tool_start(start, record.line, at_ms, None)
            case ToolEnd() as end:
                frame.tool_end(end, record.line, at_ms)
            case _:
                frame.add(record, at_ms)

    def _spawn(self, parent: AgentFrame, start: ToolStart) -> AgentFrame:
        child = AgentFrame(f"agent-{len(self._frames)}", parent.invocation_id, start.tool_call_id)
        self._frames.append(child)
        self._stack.append(child)
        return child
