"""Cline's stdout folded to the facts that a judgement needs; constant memory, never an exception."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from clinebox.domain.cline.cited import Cited, cite
from clinebox.domain.cline.events import (
    AgentError,
    Done,
    Hook,
    IterationEnd,
    IterationStart,
    NotARecord,
    Notice,
    OversizedLine,
    ReasoningDelta,
    ReasoningEnd,
    Record,
    RunAborted,
    RunResult,
    RunStart,
    TeamRecord,
    TextDelta,
    TextEnd,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    TurnUsage,
    UnknownRecord,
)
from clinebox.domain.cline.nesting import AgentStack
from clinebox.domain.cline.stream import StreamDecoder
from clinebox.domain.cline.subagents import SubagentFacts, SubagentFold
from clinebox.domain.cline.tools import ToolFacts, ToolFold
from clinebox.domain.cline.usage import UsageFacts, UsageFold

STDOUT_NAME: Final = "stdout.ndjson"
OVERFLOW_CLASS: Final = "context_window_exceeded"
"""The only `errorClass` that decides; the field is an open string (FORMAT.md §2)."""

_OUTPUT: Final[frozenset[type]] = frozenset(
    {TextDelta, ReasoningDelta, TextEnd, ReasoningEnd, ToolStart, ToolEnd, TurnUsage}
)
"""Model output (SPEC §2): any content_start, content_end or usage; `iteration_start` precedes the request."""
_SILENT: Final[frozenset[type]] = frozenset({ToolUpdate, IterationEnd, Done, RunStart, UnknownRecord})
"""Records of which no fact is kept: half of an ordinary stream."""
_COMPACTION_KINDS: Final = frozenset(
    {"auto_compaction", "overflow_recovery_compaction", "max_tokens_compaction"}
)


@dataclass(frozen=True, slots=True)
class StdoutFacts:
    """What Cline's stdout says. `lead_…` is the lead agent's own; the rest is anybody's."""

    source: str
    size_bytes: int = 0
    lines: int = 0
    records: int = 0
    """Lines that are JSON objects."""
    bad_lines: int = 0
    oversized_lines: int = 0
    last_bad: Cited[str] | None = None
    """The last line that is no record: garbage, over the bound, or the half last line of a killed run."""
    lead_agent_id: str | None = None
    first: Cited[str] | None = None
    """The first record, by its event's name in `events.py`; so are the others that are a text."""
    last: Cited[str] | None = None
    run_result: Cited[RunResult] | None = None
    """The first one; Cline writes exactly one."""
    run_results: int = 0
    second_result: Cited[RunResult] | None = None
    run_aborted: Cited[RunAborted] | None = None
    """The last one after a run_result."""
    active_after_result: Cited[str] | None = None
    """A turn or a tool call that began after the run had its result."""
    lead_error: Cited[AgentError] | None = None
    """The lead's last terminal error (`recoverable: false`)."""
    lead_mistake: Cited[AgentError] | None = None
    """The lead's last recorded mistake (`recoverable: true`)."""
    lead_turns: int = 0
    lead_turn: Cited[IterationStart] | None = None
    """The lead's last turn."""
    model_output: Cited[str] | None = None
    turn_output: Cited[str] | None = None
    """The first output of any agent since the lead's last turn began."""
    turn_counted: bool = False
    """Whether the lead's last turn has its `usage`: its model call had ended."""
    compactions: int = 0
    usage: UsageFacts = field(default_factory=UsageFacts)
    tools: ToolFacts = field(default_factory=ToolFacts)
    subagents: SubagentFacts = field(default_factory=SubagentFacts)


class StdoutReader:
    """Folds stdout chunk by chunk: `feed` any cuts, then `finish` once for the facts."""

    def __init__(self, source: str = STDOUT_NAME) -> None:
        self._source = source
        self._decoder = StreamDecoder()
        self._stack = AgentStack()
        self._usage = UsageFold()
        self._tools = ToolFold()
        self._subagents = SubagentFold()
        self._counts = _Counts()
        self._ends = _Ends()
        self._lead = _Lead()

    def feed(self, chunk: bytes) -> None:
        """Read on; a chunk may end anywhere."""
        for record in self._decoder.feed(chunk):
            self.fold(record)

    def fold(self, record: Record) -> None:
        """Take one record that a decoder already made."""
        kind = type(record.event)
        if not self._counts.feed(record) or kind in _SILENT:
            return
        if kind in _OUTPUT:
            self._lead.output(record)
            if kind is TextDelta:
                return
        depth = self._stack.feed(record.event, record.line)
        self._fold_content(record, depth)
        self._fold_agent(record, depth)
        self._ends.feed(record)

    def _fold_content(self, record: Record, depth: int) -> None:
        event = record.event
        match event:
            case ToolStart():
                self._tools.start(record, event)
                self._subagents.start(event)
            case ToolEnd():
                self._tools.end(event)
                self._subagents.end(record, event)
            case TurnUsage():
                self._usage.feed(record, event, depth)
            case TeamRecord():
                self._subagents.team(record, event)
                if type(event.inner) in _OUTPUT:
                    self._lead.output(record)
            case _:
                pass

    def _fold_agent(self, record: Record, depth: int) -> None:
        event = record.event
        if depth == 0:
            self._lead.feed(record)
        elif isinstance(event, AgentError) and event.recoverable is False:
            self._subagents.error(record, event)
        if isinstance(event, Hook):
            self._subagents.hook(event)

    def finish(self) -> StdoutFacts:
        """The facts of the whole stream, a half last line included."""
        for record in self._decoder.finish():
            self.fold(record)
        counts, ends, lead = self._counts, self._ends, self._lead
        return StdoutFacts(
            source=self._source,
            size_bytes=self._decoder.size_bytes,
            lines=counts.lines,
            records=counts.records,
            bad_lines=counts.bad,
            oversized_lines=counts.oversized,
            last_bad=counts.last_bad,
            lead_agent_id=lead.agent_id,
            first=counts.first,
            last=_cited(counts.last) if counts.last is not None else None,
            run_result=ends.result,
            run_results=ends.results,
            second_result=ends.second,
            run_aborted=ends.aborted,
            active_after_result=ends.active,
            lead_error=lead.error,
            lead_mistake=lead.mistake,
            lead_turns=lead.turns,
            lead_turn=lead.turn,
            model_output=lead.first_output,
            turn_output=lead.turn_output,
            turn_counted=lead.turn_counted,
            compactions=lead.compactions,
            usage=self._usage.facts(),
            tools=self._tools.facts(),
            subagents=self._subagents.facts(),
        )


def _cited(record: Record) -> Cited[str]:
    """Only the event's name is kept: a tool's output may be megabytes."""
    return cite(type(record.event).__name__, record.line, record.ts, record.raw)


def _error_at(error: AgentError) -> bytes:
    return b'"errorClass":' if error.error_class == OVERFLOW_CLASS else b'"message":'


class _Counts:
    """How many lines there are, of which kind, and the first and last record."""

    __slots__ = ("bad", "first", "last", "last_bad", "lines", "oversized", "records")

    def __init__(self) -> None:
        self.lines = self.records = self.bad = self.oversized = 0
        self.first: Cited[str] | None = None
        self.last: Record | None = None
        self.last_bad: Cited[str] | None = None

    def feed(self, record: Record) -> bool:
        """Whether the line is a record."""
        self.lines = record.line
        if isinstance(record.event, NotARecord | OversizedLine):
            self.bad += isinstance(record.event, NotARecord)
            self.oversized += isinstance(record.event, OversizedLine)
            self.last_bad = _cited(record)
            return False
        self.records += 1
        if self.first is None:
            self.first = _cited(record)
        self.last = record
        return True


class _Ends:
    """What is written at the end of a run, and whether that was the end."""

    __slots__ = ("aborted", "active", "result", "results", "second")

    def __init__(self) -> None:
        self.result: Cited[RunResult] | None = None
        self.second: Cited[RunResult] | None = None
        self.results = 0
        self.aborted: Cited[RunAborted] | None = None
        self.active: Cited[str] | None = None

    def feed(self, record: Record) -> None:
        event = record.event
        match event:
            case RunResult():
                self.results += 1
                cited = cite(event, record.line, record.ts, record.raw, b'"finishReason":')
                self.second = cited if self.results == 2 else self.second  # noqa: PLR2004 - the second one
                self.result = self.result or cited
            case RunAborted() if self.result is not None:
                self.aborted = cite(event, record.line, record.ts, record.raw, b'"reason":')
            case IterationStart() | ToolStart() if self.result is not None and self.active is None:
                self.active = _cited(record)
            case _:
                pass


class _Lead:
    """The lead agent's own course."""

    __slots__ = (
        "agent_id",
        "compactions",
        "error",
        "first_output",
        "mistake",
        "turn",
        "turn_counted",
        "turn_output",
        "turns",
    )

    def __init__(self) -> None:
        self.agent_id: str | None = None
        self.error: Cited[AgentError] | None = None
        self.mistake: Cited[AgentError] | None = None
        self.turn: Cited[IterationStart] | None = None
        self.turns = self.compactions = 0
        self.first_output: Cited[str] | None = None
        self.turn_output: Cited[str] | None = None
        self.turn_counted = False

    def output(self, record: Record) -> None:
        if self.turn_output is None:
            self.turn_output = _cited(record)
            self.first_output = self.first_output or self.turn_output

    def feed(self, record: Record) -> None:
        event = record.event
        match event:
            case Hook():
                self._meet(event)
            case AgentError():
                self._err(cite(event, record.line, record.ts, record.raw, _error_at(event)))
            case IterationStart():
                self.turns += 1
                self.turn = cite(event, record.line, record.ts, record.raw)
                self.turn_output, self.turn_counted = None, False
            case TurnUsage():
                self.turn_counted = True
            case Notice():
                # Each compaction writes `started` and then how it went: `completed`, `skipped`, `failed`.
                self.compactions += event.kind in _COMPACTION_KINDS and event.phase == "completed"
            case _:
                pass

    def _meet(self, hook: Hook) -> None:
        # Only `agent_start` with a null parent names the lead (FORMAT.md §2); the first one stays.
        if self.agent_id is None and hook.name == "agent_start" and hook.parent_agent_id is None:
            self.agent_id = hook.agent_id

    def _err(self, error: Cited[AgentError]) -> None:
        if error.value.recoverable is False:
            self.error = error
        elif error.value.recoverable is True:
            self.mistake = error
