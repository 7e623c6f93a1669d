"""Server-sent events, bytes in and data out (WHATWG HTML §9.2.6): any cuts, bounded, never an exception.

Lines end with CRLF, LF or CR; a byte order mark may lead; a comment begins with a colon; one space behind
`data:` is no data; several `data` fields of an event are joined by LF.
"""

from __future__ import annotations

import re
from typing import Final

DATA_LIMIT_BYTES: Final = 1024 * 1024
"""A longer line or event is skipped and counted: no engine sends a chunk of that size."""
BOM: Final = b"\xef\xbb\xbf"

_LINE_ENDS: Final = re.compile(rb"\r\n|\n|\r")


class LineCutter:
    """Cuts bytes at CRLF, LF or CR; holds at most one line of at most the bound."""

    __slots__ = ("_after_cr", "_held", "_held_bytes", "skipped")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._after_cr = False
        self.skipped = 0
        """Lines over the bound."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk; one over the bound is left out."""
        if self._after_cr and chunk:
            # The CR ended its line already: the LF of a CRLF that was cut in two ends no second one.
            self._after_cr = False
            chunk = chunk[1:] if chunk.startswith(b"\n") else chunk
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            lines = _LINE_ENDS.split(chunk)
        else:
            lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._held_bytes:
            self._hold(lines[0])
            lines[:1] = self._take()
        self._hold(rest)
        return lines if len(chunk) <= DATA_LIMIT_BYTES else self._within(lines)

    @property
    def is_empty(self) -> bool:
        """Whether nothing of a line is held."""
        return not self._held_bytes and not self._after_cr

    def finish(self) -> list[bytes]:
        """The half last line, if there is one."""
        return self._take() if self._held_bytes else []

    def _within(self, lines: list[bytes]) -> list[bytes]:
        short = [line for line in lines if len(line) <= DATA_LIMIT_BYTES]
        self.skipped += len(lines) - len(short)
        return short

    def _hold(self, part: bytes) -> None:
        if not part:
            return
        self._held_bytes += len(part)
        if self._held_bytes > DATA_LIMIT_BYTES:
            self._held.clear()
        else:
            self._held.append(part)

    def _take(self) -> list[bytes]:
        over = self._held_bytes > DATA_LIMIT_BYTES
        line = b"".join(self._held)
        self._held.clear()
        self._held_bytes = 0
        self.skipped += over
        return [] if over else [line]


class SseReader:
    """The data of each event, in order."""

    __slots__ = ("_data", "_data_bytes", "_lines", "_started", "_too_long")

    def __init__(self) -> None:
        self._lines = LineCutter()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._started = False
        self._too_long = 0

    @property
    def skipped(self) -> int:
        """Lines and events over the bound."""
        return self._lines.skipped + self._too_long

    @property
    def is_between_events(self) -> bool:
        """Whether nothing of an event is held."""
        return not self._data and self._lines.is_empty

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that end in this chunk."""
        return self._events(self._lines.feed(chunk))

    def finish(self) -> list[bytes]:
        """The data of an event whose end never came: some servers leave out the last blank line."""
        return [*self._events(self._lines.finish()), *self._dispatch()]

    def _events(self, lines: list[bytes]) -> list[bytes]:
        done: list[bytes] = []
        for line in lines:
            if not line:
                if self._data:
                    done += self._dispatch()
            elif line.startswith(b"data:"):
                self._add(line[6:] if line.startswith(b"data: ") else line[5:])
            elif line == b"data" or not self._started:
                self._odd(line)
            self._started = True
        return done

    def _odd(self, line: bytes) -> None:
        """A `data` field without a value, or the stream's first line, which may carry the byte order mark."""
        self._started = True
        if line == b"data":
            self._add(b"")
        elif line.startswith(BOM):
            self._events([line.removeprefix(BOM)])

    def _add(self, value: bytes) -> None:
        self._data_bytes += len(value) + 1
        if self._data_bytes > DATA_LIMIT_BYTES:
            self._data = [b""]
        else:
            self._data.append(value)

    def _dispatch(self) -> list[bytes]:
        over = self._data_bytes > DATA_LIMIT_BYTES
        event = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data = []
        self._data_bytes = 0
        self._too_long += over
        return [] if over or not event else [event]
