"""Tool calls as the classifier needs them: how many, which are open, whether every command failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from clinebox.domain.cline.cited import EXCERPT_LIMIT_BYTES, Cited, cite
from clinebox.domain.json_value import JsonValue, as_list, as_mapping

COMMANDS_TOOL: Final = "run_commands"
OPEN_LIMIT: Final = 256
"""Open calls that are remembered; Cline runs them one by one, so only hostile input has more."""
NAME_LIMIT_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that was made and has no end: its effect is unknown."""

    tool_name: str
    tool_call_id: str


class ToolFacts(NamedTuple):
    """Calls of every agent, and the commands in them."""

    calls: int = 0
    open_calls: tuple[Cited[OpenCall], ...] = ()
    commands: int = 0
    commands_failed: int = 0


class _Open(NamedTuple):
    """An open call, not quoted yet: nearly every one is closed soon."""

    name: str
    call_id: str
    line: int
    ts: str | None
    head: bytes

    def cited(self) -> Cited[OpenCall]:
        return cite(OpenCall(self.name, self.call_id), self.line, self.ts, self.head)


class ToolFold:
    """Pairs the starts and ends of tool calls."""

    __slots__ = ("_calls", "_commands", "_failed", "_open")

    def __init__(self) -> None:
        self._calls = self._commands = self._failed = 0
        self._open: list[_Open] = []

    def start(self, name: str, call_id: str, line: int, ts: str | None, raw: bytes) -> None:
        """A call was made."""
        self._calls += 1
        if len(self._open) < OPEN_LIMIT:
            at = raw.rfind(b'"toolName":')
            head = raw[at : at + EXCERPT_LIMIT_BYTES] if at >= 0 else raw[:EXCERPT_LIMIT_BYTES]
            self._open.append(_Open(name[:NAME_LIMIT_CHARS], call_id[:NAME_LIMIT_CHARS], line, ts, head))

    def end(self, call_id: str) -> None:
        """A call ended; ids are the model's and may repeat, so the latest open one with it is meant."""
        wanted = call_id[:NAME_LIMIT_CHARS]
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index].call_id == wanted:
                del self._open[index]
                break

    def commands(self, output: JsonValue) -> None:
        """The output of `run_commands`: a failed command is no failed tool (FORMAT.md §2).

        Only `success` of its own entry tells.
        """
        for entry in as_list(output):
            success = as_mapping(entry).get("success")
            if isinstance(success, bool):
                self.command(success=success)

    def command(self, *, success: bool) -> None:
        """One command ended."""
        self._commands += 1
        self._failed += not success

    def facts(self) -> ToolFacts:
        """What was called so far."""
        calls = tuple(call.cited() for call in self._open)
        return ToolFacts(self._calls, calls, self._commands, self._failed)
