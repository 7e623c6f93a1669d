r"""Cline's stdout, bytes in and records out: incremental, bounded, and total on hostile bytes (SPEC §2).

Lines end at `\n` only: U+2028 and its like are written raw inside strings (FORMAT.md §1, Cline 3.0.57).
"""

from __future__ import annotations

import json
from typing import Final

from clinebox.domain.cline.build import build_event
from clinebox.domain.cline.events import NotARecord, OversizedLine, Record, TextDelta
from clinebox.domain.cline.glance import TS_END, TS_HEAD, time_stamp
from clinebox.domain.json_value import REASON_LIMIT, JsonValue

LINE_LIMIT_BYTES: Final = 8 * 1024 * 1024
"""A longer line is counted and flagged, never held (SPEC §2)."""

_DELTA: Final = b'","type":"agent_event","event":{"type":"content_start","contentType":"text","text":"'
_DELTA_TEXT: Final = TS_END + len(_DELTA)
_ACCUMULATED: Final = b'","accumulated":"'
_END: Final = b'"}}'


def is_text_delta(raw: bytes) -> bool:
    """Whether the line is a text chunk exactly as Cline writes it, told in time of the *chunk's* length.

    Cline repeats the whole text in `accumulated`: 8,000 chunks are 129 MB. So the middle of `accumulated` is
    not looked at, only that the line ends with the chunk. A line of any other shape goes to the full parser.
    """
    if not (raw.startswith(_DELTA, TS_END) and raw.startswith(TS_HEAD) and raw.endswith(_END)):
        return False
    # An unescaped `","` cannot stand inside a JSON string, so the first one ends the chunk.
    chunk_end = raw.find(_ACCUMULATED, _DELTA_TEXT)
    if chunk_end < 0:
        return False
    chunk = raw[_DELTA_TEXT:chunk_end]
    return raw.endswith(chunk + _END, chunk_end + len(_ACCUMULATED))


def parse_line(raw: bytes) -> JsonValue | NotARecord:
    """One line as JSON, or why it is none; texts never hold a lone surrogate, so they can be encoded.

    Stricter than `json.loads`: `NaN` and `Infinity` are no JSON (RFC 8259 §6), and Cline writes neither.
    """
    try:
        text = raw.decode("utf-8", "replace")
        value = _value_of(text)
        if b"\\u" in raw and (b"\\ud" in raw or b"\\uD" in raw):
            return _without_lone_surrogates(value)
    except RecursionError:
        return NotARecord("nested too deeply")
    except ValueError as error:
        return NotARecord(str(error)[:REASON_LIMIT])
    return value


def _value_of(text: str) -> JsonValue:
    # Cline's lines are bare objects: `raw_decode` spares the two searches for white space around each.
    value: JsonValue
    if text.startswith("{"):
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return value
    value = _DECODER.decode(text)
    return value


def _refuse_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def _without_lone_surrogates(value: JsonValue) -> JsonValue:
    # "\ud800" alone is legal JSON (RFC 8259 §8.2) and no Unicode text: encoding it to UTF-8 would raise.
    text = json.dumps(value, ensure_ascii=False)
    clean: JsonValue = _DECODER.decode(
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )
    return clean


def decode_line(number: int, raw: bytes | int) -> Record:
    """The record of one line by its 1-based number, without its line end; an `int` is one over the bound."""
    if isinstance(raw, int):
        return Record(number, None, OversizedLine(raw), b"")
    if is_text_delta(raw):
        return Record(number, time_stamp(raw), TextDelta(raw), raw)
    return parse_record(number, raw)


def parse_record(number: int, raw: bytes) -> Record:
    """The record of one line by the parser alone."""
    value = parse_line(raw)
    if isinstance(value, NotARecord):
        return Record(number, None, value, raw)
    if not isinstance(value, dict):
        return Record(number, None, NotARecord("no JSON object"), raw)
    ts = value.get("ts")
    return Record(number, ts if isinstance(ts, str) else None, build_event(value, raw), raw)


def delta_text(raw: bytes) -> str:
    """The chunk of a `TextDelta`'s line; `""` for a line that holds none."""
    return _event_text(raw, "text")


def accumulated(raw: bytes) -> str:
    """The whole text so far of a `TextDelta`'s line; `""` for a line that holds none."""
    return _event_text(raw, "accumulated")


def _event_text(raw: bytes, key: str) -> str:
    value = parse_line(raw)
    event = value.get("event") if isinstance(value, dict) else None
    text = event.get(key) if isinstance(event, dict) else None
    return text if isinstance(text, str) else ""


class LineSplitter:
    r"""Cuts a byte stream into lines at `\n`; holds at most one line of at most the bound."""

    __slots__ = ("_held", "_held_bytes", "lines", "size_bytes")

    def __init__(self) -> None:
        self.lines = 0
        """Lines given out so far, a half last one included."""
        self.size_bytes = 0
        self._held: list[bytes] = []
        self._held_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes | int]:
        """The lines that this chunk ends; an `int` stands for a line over the bound, of that many bytes."""
        # `find` of one byte is memchr; `split` looks at each byte by itself and is ten times slower.
        self.size_bytes += len(chunk)
        done: list[bytes | int] = []
        find, start = chunk.find, 0
        if self._held_bytes and (end := find(b"\n")) >= 0:
            self._hold(chunk[:end])
            done.append(self._take())
            start = end + 1
        while (end := find(b"\n", start)) >= 0:
            size = end - start
            done.append(chunk[start:end] if size <= LINE_LIMIT_BYTES else size)
            start = end + 1
        self._hold(chunk[start:])
        self.lines += len(done)
        return done

    def finish(self) -> list[bytes | int]:
        """The half last line, if there is one: a process that is killed may leave it."""
        if not self._held_bytes:
            return []
        self.lines += 1
        return [self._take()]

    def _hold(self, part: bytes) -> None:
        if not part:
            return
        self._held_bytes += len(part)
        if self._held_bytes > LINE_LIMIT_BYTES:
            self._held.clear()
        else:
            self._held.append(part)

    def _take(self) -> bytes | int:
        size = self._held_bytes
        line: bytes | int = size if size > LINE_LIMIT_BYTES else b"".join(self._held)
        self._held.clear()
        self._held_bytes = 0
        return line


class StreamDecoder:
    """Cline's stdout as records, whatever the cuts between chunks; never raises, holds one line at most."""

    __slots__ = ("_next", "_splitter")

    def __init__(self) -> None:
        self._splitter = LineSplitter()
        self._next = 1

    @property
    def size_bytes(self) -> int:
        """Bytes fed so far."""
        return self._splitter.size_bytes

    def feed(self, chunk: bytes) -> list[Record]:
        """The records whose lines end in this chunk, in order."""
        return self._decode(self._splitter.feed(chunk))

    def finish(self) -> list[Record]:
        """The record of a half last line, if the stream does not end with a line end."""
        return self._decode(self._splitter.finish())

    def _decode(self, lines: list[bytes | int]) -> list[Record]:
        first = self._next
        self._next += len(lines)
        return [decode_line(number, line) for number, line in enumerate(lines, first)]
