"""Cline's own log: the typed cause that stdout hides (FORMAT.md §6, Cline 3.0.57 to 3.0.65).

NDJSON by pino, level 40 warn and 50 error. A failed model request repeats its whole body here, so lines are
read one at a time and only what decides is kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from clinebox.domain.cline.cited import Cited, cite
from clinebox.domain.cline.events import NotARecord
from clinebox.domain.cline.log_lines import (
    LogLine,
    LoopError,
    Mistake,
    Retry,
    StreamError,
    read_log_line,
)
from clinebox.domain.cline.masked_names import names_are_masked
from clinebox.domain.cline.stream import LineSplitter, parse_line
from clinebox.domain.json_value import as_text

LOG_NAME: Final = "cline.log"
AGENTS_LIMIT: Final = 256
FAULTS_LIMIT: Final = 50
URLS_LIMIT: Final = 16
RETRIES_LIMIT: Final = 64

_QUIET: Final = re.compile(rb'\{"level": ?[123]0,')
"""Trace, debug and info lines: most of the bytes, and nothing that decides."""


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """How one agent's loop ended, with what stands directly before it in the log."""

    error: Cited[LoopError]
    retries: tuple[Cited[Retry], ...] = ()
    stream_error: Cited[StreamError] | None = None


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What cline.log says of this run; line numbers count from the file's beginning."""

    source: str
    size_bytes: int = 0
    records: int = 0
    bad_lines: int = 0
    oversized_lines: int = 0
    starts_beyond_end: bool = False
    """The run's own offset lies past the end: the log was replaced, and nothing of it is this run's."""
    masked_names: Cited[str] | None = None
    """The first record with a name that a masker covered: what it said is lost."""
    agent_ends: tuple[AgentEnd, ...] = ()
    """The last end of each agent, in order."""
    pending: Cited[StreamError] | None = None
    """A stream error after which no agent ended: it was recovered, or the log is cut."""
    faults: tuple[Cited[StreamError | Retry], ...] = ()
    """Faults that ended no agent, first ones first."""
    faults_count: int = 0
    mistake: Cited[Mistake] | None = None
    urls: tuple[Cited[str], ...] = ()
    """The addresses of failed model calls, each once."""

    def end_of(self, agent_id: str | None) -> AgentEnd | None:
        """How that agent's loop ended, if the log holds it."""
        if agent_id is None:
            return None
        return next((end for end in self.agent_ends if end.error.value.agent_id == agent_id), None)


class LogReader:
    """Folds cline.log chunk by chunk, from the run's own offset: the file is appended to by each run."""

    def __init__(self, source: str = LOG_NAME, *, offset_bytes: int = 0) -> None:
        self._source = source
        self._skip = max(offset_bytes, 0)
        self._splitter = LineSplitter()
        self._next = 1
        self._fold = LogFold()

    def feed(self, chunk: bytes) -> None:
        """Read on from the file's beginning; what lies before the offset is only counted."""
        if self._skip:
            before, chunk = chunk[: self._skip], chunk[self._skip :]
            self._skip -= len(before)
            self._next += before.count(b"\n")
        if chunk:
            self._take(self._splitter.feed(chunk))

    def finish(self) -> LogFacts:
        """The facts of the whole log."""
        self._take(self._splitter.finish())
        return self._fold.facts(self._source, self._splitter.size_bytes, beyond=self._skip > 0)

    def _take(self, lines: list[bytes | int]) -> None:
        for number, line in enumerate(lines, self._next):
            self._fold.line(number, line)
        self._next += len(lines)


class LogFold:
    """Folds lines: keeps retries and stream errors until an agent ends, or something comes between."""

    def __init__(self) -> None:
        self._records = self._bad = self._oversized = self._faults_count = 0
        self._retries: list[Cited[Retry]] = []
        self._stream_error: Cited[StreamError] | None = None
        self._ends: dict[str, AgentEnd] = {}
        self._faults: list[Cited[StreamError | Retry]] = []
        self._mistake: Cited[Mistake] | None = None
        self._masked: Cited[str] | None = None
        self._urls: dict[str, Cited[str]] = {}

    def line(self, number: int, line: bytes | int) -> None:
        """Take one line by its 1-based number; an `int` stands for one over the bound."""
        if isinstance(line, int):
            self._oversized += 1
            return
        if not line or _QUIET.match(line):
            self._records += bool(line)
            return
        value = parse_line(line)
        if isinstance(value, NotARecord) or not isinstance(value, dict):
            self._bad += 1
            return
        self._records += 1
        said, time = read_log_line(value), as_text(value.get("time"))
        decides = said is not None or "msg" not in value
        if self._masked is None and decides and names_are_masked(value, line):
            self._masked = cite("record", number, time, line)
        if said is not None:
            self._say(said, number, time, line)

    def _say(self, said: LogLine, number: int, time: str | None, raw: bytes) -> None:
        match said:
            case Retry():
                self._drop_stream_error()
                self._retries.append(cite(said, number, time, raw, b'"finishReason":'))
                del self._retries[:-RETRIES_LIMIT]
            case StreamError():
                self._drop_retries()
                self._drop_stream_error()
                self._stream_error = cite(said, number, time, raw, _fault_at(said))
                self._see_url(self._stream_error)
            case LoopError():
                self._end(cite(said, number, time, raw, b'"errorMessage":'))
            case Mistake():
                self._mistake = cite(said, number, time, raw, b'"details":')

    def _end(self, error: Cited[LoopError]) -> None:
        agent = error.value.agent_id
        self._ends.pop(agent, None)
        self._ends[agent] = AgentEnd(error, tuple(self._retries), self._stream_error)
        if len(self._ends) > AGENTS_LIMIT:
            del self._ends[next(iter(self._ends))]
        self._retries, self._stream_error = [], None

    def _see_url(self, error: Cited[StreamError]) -> None:
        url = error.value.url
        if url and url not in self._urls and len(self._urls) < URLS_LIMIT:
            self._urls[url] = Cited(url, error.line, error.ts, error.excerpt)

    def _drop_stream_error(self) -> None:
        if self._stream_error is not None:
            self._recovered(self._stream_error)
            self._stream_error = None

    def _drop_retries(self) -> None:
        for retry in self._retries:
            self._recovered(retry)
        self._retries = []

    def _recovered(self, fault: Cited[StreamError | Retry]) -> None:
        self._faults_count += 1
        if len(self._faults) < FAULTS_LIMIT:
            self._faults.append(fault)

    def facts(self, source: str, size_bytes: int, *, beyond: bool = False) -> LogFacts:
        """What the lines say, as of the file they are in."""
        pending = self._stream_error
        self._drop_retries()
        self._drop_stream_error()
        return LogFacts(
            source=source,
            size_bytes=size_bytes,
            records=self._records,
            bad_lines=self._bad,
            oversized_lines=self._oversized,
            starts_beyond_end=beyond,
            masked_names=self._masked,
            agent_ends=tuple(self._ends.values()),
            pending=pending,
            faults=tuple(self._faults),
            faults_count=self._faults_count,
            mistake=self._mistake,
            urls=tuple(self._urls.values()),
        )


def _fault_at(error: StreamError) -> bytes:
    # The request's body stands before the status and may be megabytes, so the excerpt starts at what tells.
    if error.status is not None:
        return b'"statusCode":'
    if error.name is None and error.code is not None:
        return b'"code":'
    return b'"name":' if error.name is None else b'"%b"' % error.name.encode("utf-8", "replace")
