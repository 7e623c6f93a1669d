r"""Cline's stderr: its error lines, among SDK warnings that mean nothing (FORMAT.md §1, Cline 3.0.57).

Not pure NDJSON: every run that reached the model prints `Warning:` lines, and usage errors found before
JSON mode is on are plain text with colour. So only Cline's own error lines are read, and only to say why a
run never started.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from clinebox.domain.cline.cited import Cited, cite
from clinebox.domain.cline.events import NotARecord
from clinebox.domain.cline.log import LogFacts, LogFold
from clinebox.domain.cline.stream import LineSplitter, parse_line

STDERR_NAME: Final = "stderr.txt"
SENTENCE_LIMIT_CHARS: Final = 2_000

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_JSON_ERROR: Final = b'"type":"error"'
_PLAIN_ERROR: Final = "error:"
_LOG_LINE: Final = b'{"level":'


@dataclass(frozen=True, slots=True)
class StderrFacts:
    """What stderr says: its size, and the sentence of the first error line of Cline's own."""

    source: str
    size_bytes: int = 0
    error: Cited[str] | None = None
    """A `{"type":"error"}` line's message, or what follows `error:`."""
    first_text: Cited[str] | None = None
    """The first line that is not blank: what a runtime that died before Cline spoke has left."""
    log: LogFacts | None = None
    """Records of Cline's own log: they come here when cline.log cannot be written (SURPRISES.md C14)."""


class StderrReader:
    """Folds stderr chunk by chunk."""

    __slots__ = ("_error", "_first", "_log", "_next", "_source", "_splitter")

    def __init__(self, source: str = STDERR_NAME) -> None:
        self._source = source
        self._splitter = LineSplitter()
        self._next = 1
        self._log: LogFold | None = None
        self._error: Cited[str] | None = None
        self._first: Cited[str] | None = None

    def feed(self, chunk: bytes) -> None:
        """Read on; a chunk may end anywhere."""
        self._fold(self._splitter.feed(chunk))

    def finish(self) -> StderrFacts:
        """The facts of the whole stream."""
        self._fold(self._splitter.finish())
        size_bytes = self._splitter.size_bytes
        log = self._log.facts(self._source, size_bytes) if self._log is not None else None
        return StderrFacts(self._source, size_bytes, self._error, self._first, log)

    def _fold(self, lines: list[bytes | int]) -> None:
        for number, line in enumerate(lines, self._next):
            if isinstance(line, int):
                continue
            if line.startswith(_LOG_LINE):
                self._log = self._log or LogFold()
                self._log.line(number, line)
            elif self._error is None:
                self._look(number, line)
        self._next += len(lines)

    def _look(self, number: int, line: bytes) -> None:
        if _JSON_ERROR in line:
            message = _json_error(line)
            if message is not None:
                self._error = cite(message[:SENTENCE_LIMIT_CHARS], number, None, line)
                return
        head = line[: 4 * SENTENCE_LIMIT_CHARS].decode("utf-8", "replace")
        text = _COLOUR.sub("", head).strip()
        if text.startswith(_PLAIN_ERROR):
            sentence = _bare(text)
            self._error = cite(sentence[:SENTENCE_LIMIT_CHARS], number, None, line)
        elif text and self._first is None:
            self._first = cite(text[:SENTENCE_LIMIT_CHARS], number, None, line)


def _json_error(line: bytes) -> str | None:
    value = parse_line(line)
    if isinstance(value, NotARecord) or not isinstance(value, dict) or value.get("type") != "error":
        return None
    message = value.get("message")
    return message if isinstance(message, str) else None


def _bare(text: str) -> str:
    # Seen on 3.0.57: `error: error: unknown option '--no-such-flag'`.
    while text.startswith(_PLAIN_ERROR):
        text = text.removeprefix(_PLAIN_ERROR).strip()
    return text
