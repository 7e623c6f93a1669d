"""Tool calls as the classifier needs them: how many, which are open, whether every command failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from clinebox.domain.cline.cited import Cited, cite
from clinebox.domain.cline.events import Record, ToolEnd, ToolStart
from clinebox.domain.json_value import as_list, as_mapping

COMMANDS_TOOL: Final = "run_commands"
OPEN_LIMIT: Final = 256
"""Open calls that are remembered; Cline runs them one by one, so only hostile input has more."""
NAME_LIMIT_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that was made and has no end: its effect is unknown."""

    tool_name: str
    tool_call_id: str


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """Calls of every agent, and the commands in them."""

    calls: int = 0
    open_calls: tuple[Cited[OpenCall], ...] = ()
    commands: int = 0
    commands_failed: int = 0


class ToolFold:
    """Pairs the starts and ends of tool calls."""

    __slots__ = ("_calls", "_commands", "_failed", "_open")

    def __init__(self) -> None:
        self._calls = self._commands = self._failed = 0
        self._open: list[Cited[OpenCall]] = []

    def start(self, record: Record, call: ToolStart) -> None:
        """A call was made."""
        self._calls += 1
        if len(self._open) < OPEN_LIMIT:
            name, call_id = call.tool_name[:NAME_LIMIT_CHARS], call.tool_call_id[:NAME_LIMIT_CHARS]
            self._open.append(
                cite(OpenCall(name, call_id), record.line, record.ts, record.raw, b'"toolName":')
            )

    def end(self, call: ToolEnd) -> None:
        """A call ended; ids are the model's and may repeat, so the latest open one with it is meant."""
        call_id = call.tool_call_id[:NAME_LIMIT_CHARS]
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index].value.tool_call_id == call_id:
                del self._open[index]
                break
        if call.tool_name == COMMANDS_TOOL:
            self._count_commands(call)

    def _count_commands(self, call: ToolEnd) -> None:
        # FORMAT.md §2: a failed command is no failed tool; only `success` of its own entry tells.
        for entry in as_list(call.output):
            success = as_mapping(entry).get("success")
            self._commands += isinstance(success, bool)
            self._failed += success is False

    def facts(self) -> ToolFacts:
        """What was called so far."""
        return ToolFacts(self._calls, tuple(self._open), self._commands, self._failed)
