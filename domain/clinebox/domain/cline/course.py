"""The course of a run, line by line: how many lines, what ended it, and what the lead agent did."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from clinebox.domain.cline.cited import EXCERPT_LIMIT_BYTES, Cited, cite
from clinebox.domain.cline.events import (
    AgentError,
    IterationStart,
    NotARecord,
    Notice,
    Record,
    RunAborted,
    RunResult,
)
from clinebox.domain.cline.glance import Glance, record_name, time_stamp

OVERFLOW_CLASS: Final = "context_window_exceeded"
"""The only `errorClass` that decides; the field is an open string (FORMAT.md §2)."""

_COMPACTION_KINDS: Final = frozenset(
    {"auto_compaction", "overflow_recovery_compaction", "max_tokens_compaction"}
)


class Seen(NamedTuple):
    """A parsed line by its event's name, not quoted yet: most are forgotten at the next line."""

    name: str
    line: int
    ts: str | None
    head: bytes
    """As much as is ever quoted: a tool's output may be megabytes."""


def seen(record: Record) -> Seen:
    """A parsed line by its event's name."""
    return Seen(type(record.event).__name__, record.line, record.ts, record.raw[:EXCERPT_LIMIT_BYTES])


Glimpse: TypeAlias = tuple[Glance, int]
"""A line that was not parsed, and its 1-based number."""
Line: TypeAlias = Seen | Glimpse


def quoted(line: Line) -> Cited[str]:
    """The event's name with its line."""
    if isinstance(line, Seen):
        return cite(line.name, line.line, line.ts, line.head)
    glance, number = line
    raw = glance.string
    return cite(record_name(glance), number, time_stamp(raw), raw)


class Counts:
    """The lines that are no records, those that a masker made unreadable, and the last record."""

    __slots__ = ("bad", "last", "last_bad", "masked", "oversized")

    def __init__(self) -> None:
        self.bad = self.oversized = 0
        self.last: Line | None = None
        self.last_bad: Seen | None = None
        self.masked: Line | None = None

    def no_record(self, record: Record) -> None:
        """A line that is no JSON object, or that is over the bound."""
        bad = isinstance(record.event, NotARecord)
        self.bad += bad
        self.oversized += not bad
        self.last_bad = seen(record)


class Ends:
    """What is written at the end of a run, and whether that was the end."""

    __slots__ = ("aborted", "active", "result", "results", "second")

    def __init__(self) -> None:
        self.result: Cited[RunResult] | None = None
        self.second: Cited[RunResult] | None = None
        self.results = 0
        self.aborted: Cited[RunAborted] | None = None
        self.active: Cited[str] | None = None

    def finished(self, record: Record, result: RunResult) -> None:
        """A run_result; Cline writes exactly one."""
        self.results += 1
        cited = cite(result, record.line, record.ts, record.raw, b'"finishReason":')
        self.second = cited if self.results == 2 else self.second  # noqa: PLR2004 - the second one
        self.result = self.result or cited

    def abort(self, record: Record, aborted: RunAborted) -> None:
        """A run_aborted; it counts beside a result."""
        if self.result is not None:
            self.aborted = cite(aborted, record.line, record.ts, record.raw, b'"reason":')

    def activity(self, line: Line) -> None:
        """A turn or a tool call began."""
        if self.result is not None and self.active is None:
            self.active = quoted(line)


class Lead:
    """The lead agent's own course."""

    __slots__ = (
        "_turn",
        "agent_id",
        "compactions",
        "error",
        "first_output",
        "mistake",
        "turn_counted",
        "turn_output",
        "turns",
    )

    def __init__(self) -> None:
        self.agent_id: str | None = None
        self.error: Cited[AgentError] | None = None
        self.mistake: Cited[AgentError] | None = None
        self.turns = self.compactions = 0
        self.first_output: Line | None = None
        self.turn_output: Line | None = None
        self.turn_counted = False
        self._turn: tuple[Line, int | None] | None = None

    @property
    def turn(self) -> Cited[IterationStart] | None:
        """The last turn."""
        if self._turn is None:
            return None
        line, iteration = self._turn
        _name, number, ts, quote = quoted(line)
        return Cited(IterationStart(iteration), number, ts, quote)

    def output(self, line: Line) -> None:
        """Model output of any agent."""
        if self.turn_output is None:
            self.turn_output = line
            self.first_output = self.first_output or line

    def begin_turn(self, line: Line, iteration: int | None) -> None:
        """The lead's next turn."""
        self.turns += 1
        self._turn = (line, iteration)
        self.turn_output, self.turn_counted = None, False

    def counted(self, depth: int) -> None:
        """A `usage`; the lead's own at depth 0."""
        if not depth:
            self.turn_counted = True

    def meet(self, agent_id: str | None) -> None:
        """Only `agent_start` with a null parent names the lead (FORMAT.md §2); the first one stays."""
        if self.agent_id is None:
            self.agent_id = agent_id

    def err(self, record: Record, error: AgentError) -> None:
        """An error of the lead's own: a terminal one, or a recorded mistake."""
        if error.recoverable is None:
            return
        cited = cite(error, record.line, record.ts, record.raw, _error_at(error))
        if error.recoverable:
            self.mistake = cited
        else:
            self.error = cited

    def notice(self, notice: Notice) -> None:
        """Each compaction writes `started` and then how it went: `completed`, `skipped`, `failed`."""
        self.compactions += notice.kind in _COMPACTION_KINDS and notice.phase == "completed"


def _error_at(error: AgentError) -> bytes:
    return b'"errorClass":' if error.error_class == OVERFLOW_CLASS else b'"message":'
