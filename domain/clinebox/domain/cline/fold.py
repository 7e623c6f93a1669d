"""What each line of Cline's stdout adds to the facts: the common ones by a glance, the others parsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from clinebox.domain.cline.course import Counts, Ends, Glimpse, Lead, Line, seen
from clinebox.domain.cline.events import (
    AgentError,
    Event,
    Hook,
    IterationStart,
    NotARecord,
    Notice,
    OversizedLine,
    ReasoningDelta,
    ReasoningEnd,
    Record,
    RunAborted,
    RunResult,
    TeamRecord,
    TextDelta,
    TextEnd,
    ToolEnd,
    ToolStart,
    TurnUsage,
)
from clinebox.domain.cline.glance import ANOTHER_COMMAND, time_stamp
from clinebox.domain.cline.masked_names import is_unreadable
from clinebox.domain.cline.nesting import AgentStack
from clinebox.domain.cline.stream import decode_line, parse_record
from clinebox.domain.cline.subagents import SubagentFold
from clinebox.domain.cline.tools import COMMANDS_TOOL, ToolFold
from clinebox.domain.cline.usage import UsageFold
from clinebox.domain.secrets.record_writer import MASK as MASK_BYTES

_OUTPUT: Final[frozenset[type[Event]]] = frozenset(
    {TextDelta, ReasoningDelta, TextEnd, ReasoningEnd, ToolStart, ToolEnd, TurnUsage}
)
"""Model output (SPEC §2): any content_start, content_end or usage; `iteration_start` precedes the request."""


class StdoutFold:
    """The folds of a stream, and how each kind of line reaches them."""

    __slots__ = ("_stack", "counts", "ends", "lead", "subagents", "tools", "usage")

    def __init__(self) -> None:
        self._stack = AgentStack()
        self.usage = UsageFold()
        self.tools = ToolFold()
        self.subagents = SubagentFold()
        self.counts = Counts()
        self.ends = Ends()
        self.lead = Lead()

    def output(self, glimpse: Glimpse) -> None:
        """A line of model output, of which nothing more is kept."""
        self.lead.output(glimpse)

    def turn(self, glimpse: Glimpse) -> None:
        """An `iteration_start`."""
        self._begin_turn(glimpse, int(glimpse[0]["iteration"]), self._stack.depth)

    def turn_usage(self, glimpse: Glimpse) -> None:
        """A `usage` that is not zero."""
        self.lead.output(glimpse)
        tokens_in, tokens_out, cached = glimpse[0].group("input", "output", "cached")
        self.usage.count(int(tokens_in), int(tokens_out), int(cached or 0), self._stack.depth)
        self.lead.counted(self._stack.depth)

    def tool_start(self, glimpse: Glimpse) -> None:
        """A call of any tool but `spawn_agent`."""
        line, number = glimpse
        self.lead.output(glimpse)
        self.ends.activity(glimpse)
        self.tools.start(
            _text(line["tool"]), _text(line["call"]), number, time_stamp(line.string), line.string
        )

    def tool_end(self, glimpse: Glimpse) -> None:
        """The end of a call of any tool but `spawn_agent` and `run_commands`."""
        self.lead.output(glimpse)
        self.tools.end(_text(glimpse[0]["ended"]))

    def commands(self, glimpse: Glimpse) -> None:
        """The end of a `run_commands`."""
        line, number = glimpse
        if ANOTHER_COMMAND in line.string:
            self.parse(number, line.string)
            return
        self.lead.output(glimpse)
        self.tools.end(_text(line["ran"]))
        self.tools.command(success=line["success"] == b"true")

    def agent_start(self, glimpse: Glimpse) -> None:
        """The `agent_start` of an agent without a parent."""
        if not self._stack.depth:
            self.lead.meet(_text(glimpse[0]["agent"]))

    def parse(self, number: int, line: bytes | int) -> None:
        """Any line, by the parser; an `int` stands for one over the bound."""
        record = decode_line(number, line) if isinstance(line, int) else parse_record(number, line)
        event = record.event
        if isinstance(event, NotARecord | OversizedLine):
            self.counts.no_record(record)
            return
        self.counts.last = seen(record)
        if MASK_BYTES in record.raw and self.counts.masked is None and is_unreadable(record):
            self.counts.masked = self.counts.last
        if type(event) in _OUTPUT:
            self.lead.output(self.counts.last)
        self._fold(record, self._stack.feed(event, record.line))

    def _fold(self, record: Record, depth: int) -> None:
        event = record.event
        match event:
            case RunResult():
                self.ends.finished(record, event)
            case AgentError() if depth:
                self.subagents.error(record, event)
            case AgentError():
                self.lead.err(record, event)
            case RunAborted():
                self.ends.abort(record, event)
            case Notice() if not depth:
                self.lead.notice(event)
            case Hook():
                self._hook(event, depth)
            case TeamRecord():
                self._fold_team(record, event)
            case _:
                self._fold_turn(record, depth)

    def _fold_turn(self, record: Record, depth: int) -> None:
        event = record.event
        match event:
            case IterationStart():
                self._begin_turn(seen(record), event.iteration, depth)
            case TurnUsage():
                self.usage.feed(record, event, depth)
                self.lead.counted(depth)
            case ToolStart():
                self.ends.activity(seen(record))
                self.tools.start(event.tool_name, event.tool_call_id, record.line, record.ts, record.raw)
                self.subagents.start(event)
            case ToolEnd():
                self._tool_ended(record, event)
            case _:
                pass

    def _begin_turn(self, line: Line, iteration: int | None, depth: int) -> None:
        self.ends.activity(line)
        if not depth:
            self.lead.begin_turn(line, iteration)

    def _hook(self, hook: Hook, depth: int) -> None:
        self.subagents.hook(hook)
        if not depth and hook.name == "agent_start" and hook.parent_agent_id is None:
            self.lead.meet(hook.agent_id)

    def _tool_ended(self, record: Record, event: ToolEnd) -> None:
        self.tools.end(event.tool_call_id)
        if event.tool_name == COMMANDS_TOOL:
            self.tools.commands(event.output)
        self.subagents.end(record, event)

    def _fold_team(self, record: Record, event: TeamRecord) -> None:
        self.subagents.team(record, event)
        if type(event.inner) in _OUTPUT:
            self.lead.output(seen(record))


def _text(field: bytes) -> str:
    return field.decode("utf-8", "replace")


Take: TypeAlias = Callable[[StdoutFold, Glimpse], None]

TAKES: Final[Mapping[str | None, Take]] = MappingProxyType(
    {
        "TextDelta": StdoutFold.output,
        "ReasoningDelta": StdoutFold.output,
        "TextEnd": StdoutFold.output,
        "ReasoningEnd": StdoutFold.output,
        "IterationStart": StdoutFold.turn,
        "TurnUsage": StdoutFold.turn_usage,
        "ToolStart": StdoutFold.tool_start,
        "ToolEnd": StdoutFold.tool_end,
        "Commands": StdoutFold.commands,
        "AgentStart": StdoutFold.agent_start,
    }
)
"""What is kept of a line that was not parsed, by its form; of the others nothing is."""
