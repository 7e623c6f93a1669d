"""Cline's stdout folded to the facts that a judgement needs; constant memory, never an exception."""

from __future__ import annotations

from typing import Final, NamedTuple

from clinebox.domain.cline.cited import Cited
from clinebox.domain.cline.course import Line, quoted
from clinebox.domain.cline.events import AgentError, IterationStart, RunAborted, RunResult
from clinebox.domain.cline.fold import TAKES, StdoutFold
from clinebox.domain.cline.glance import glance
from clinebox.domain.cline.stream import LineSplitter
from clinebox.domain.cline.subagents import SubagentFacts
from clinebox.domain.cline.tools import ToolFacts
from clinebox.domain.cline.usage import UsageFacts

STDOUT_NAME: Final = "stdout.ndjson"


class StdoutFacts(NamedTuple):
    """What Cline's stdout says. `lead_…` is the lead agent's own; the rest is anybody's.

    A NamedTuple, as its parts are: a frozen dataclass of this size takes longer to make than a line to read.
    """

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
    last: Cited[str] | None = None
    """The last record, by its event's name in `events.py`; so are the others that are a text."""
    masked_names: Cited[str] | None = None
    """The first record with a name that a masker covered: what it said is lost."""
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
    usage: UsageFacts = UsageFacts()
    tools: ToolFacts = ToolFacts()
    subagents: SubagentFacts = SubagentFacts()


class StdoutReader:
    """Folds stdout chunk by chunk: `feed` any cuts, then `finish` once for the facts."""

    __slots__ = ("_fold", "_source", "_splitter")

    def __init__(self, source: str = STDOUT_NAME) -> None:
        self._source = source
        self._splitter = LineSplitter()
        self._fold = StdoutFold()

    def feed(self, chunk: bytes) -> None:
        """Read on; a chunk may end anywhere."""
        number, fold = self._splitter.lines, self._fold
        counts = fold.counts
        for line in self._splitter.feed(chunk):
            number += 1
            known = None if isinstance(line, int) else glance(line)
            if known is None:
                fold.parse(number, line)
                continue
            counts.last = glimpse = (known, number)
            take = TAKES.get(known.lastgroup)
            if take is not None:
                take(fold, glimpse)

    def finish(self) -> StdoutFacts:
        """The facts of the whole stream; a half last line is parsed, for its head is no proof of its end."""
        for line in self._splitter.finish():
            self._fold.parse(self._splitter.lines, line)
        fold, lines = self._fold, self._splitter.lines
        counts, ends, lead = fold.counts, fold.ends, fold.lead
        return StdoutFacts(
            source=self._source,
            size_bytes=self._splitter.size_bytes,
            lines=lines,
            records=lines - counts.bad - counts.oversized,
            bad_lines=counts.bad,
            oversized_lines=counts.oversized,
            last_bad=_quoted(counts.last_bad),
            lead_agent_id=lead.agent_id,
            last=_quoted(counts.last),
            masked_names=_quoted(counts.masked),
            run_result=ends.result,
            run_results=ends.results,
            second_result=ends.second,
            run_aborted=ends.aborted,
            active_after_result=ends.active,
            lead_error=lead.error,
            lead_mistake=lead.mistake,
            lead_turns=lead.turns,
            lead_turn=lead.turn,
            model_output=_quoted(lead.first_output),
            turn_output=_quoted(lead.turn_output),
            turn_counted=lead.turn_counted,
            compactions=lead.compactions,
            usage=fold.usage.facts(),
            tools=fold.tools.facts(),
            subagents=fold.subagents.facts(),
        )


def _quoted(line: Line | None) -> Cited[str] | None:
    return None if line is None else quoted(line)
