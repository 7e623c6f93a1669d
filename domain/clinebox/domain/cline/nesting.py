"""Whose event is it: sub-agents told from the lead by brackets, because nothing marks them (FORMAT.md §2).

Everything between `content_start tool spawn_agent` and its `content_end` belongs to the sub-agent; calls
run one by one, and sub-agents have `spawn_agent` too, so the brackets are a stack (Cline 3.0.57 to 3.0.65).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from clinebox.domain.cline.events import Event, ToolEnd, ToolStart

SPAWN_TOOL: Final = "spawn_agent"
DEPTH_LIMIT: Final = 256
"""Brackets that are kept by id; deeper ones are only counted, so hostile input cannot fill the memory."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """An open `spawn_agent` call: the sub-agent that runs in it, by its call id and line."""

    tool_call_id: str
    line: int


class AgentStack:
    """The open `spawn_agent` calls at this point of the stream; depth 0 is the lead."""

    __slots__ = ("_beyond", "_open")

    def __init__(self) -> None:
        self._open: list[Bracket] = []
        self._beyond = 0

    @property
    def depth(self) -> int:
        """How deep the next event stands: 0 is the lead's own."""
        return len(self._open) + self._beyond

    @property
    def open_brackets(self) -> tuple[Bracket, ...]:
        """The calls in which the current agent runs, outermost first."""
        return tuple(self._open)

    def feed(self, event: Event, line: int) -> int:
        """The depth of the agent that the event belongs to.

        A `spawn_agent` call itself, its start and its end, belongs to the agent that made it.
        """
        if isinstance(event, ToolStart) and event.tool_name == SPAWN_TOOL:
            depth = self.depth
            self._push(event.tool_call_id, line)
            return depth
        if isinstance(event, ToolEnd) and event.tool_name == SPAWN_TOOL:
            self._pop(event.tool_call_id)
        return self.depth

    def _push(self, tool_call_id: str, line: int) -> None:
        if len(self._open) < DEPTH_LIMIT:
            self._open.append(Bracket(tool_call_id, line))
        else:
            self._beyond += 1

    def _pop(self, tool_call_id: str) -> None:
        # Ids are the model's and may repeat, so the innermost one with this id ends, and what it holds with
        # it. An end without its start is another agent's forgery or a lost line: it closes nothing.
        if self._beyond:
            self._beyond -= 1
            return
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index].tool_call_id == tool_call_id:
                del self._open[index:]
                return
