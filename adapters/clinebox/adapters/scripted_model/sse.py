"""Server-sent events as bytes (WHATWG HTML, "Server-sent events")."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from clinebox.domain.json_value import JsonValue


@dataclass(frozen=True, slots=True)
class SseStyle:
    """What servers do differently and every parser must take."""

    crlf: bool = False
    data_space: bool = True


def json_bytes(value: JsonValue) -> bytes:
    """Compact JSON in UTF-8, with non-ASCII characters as they are, so that a cut can hit them."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def data_event(payload: bytes, style: SseStyle) -> bytes:
    """One event of one `data` line; the payload holds no line break."""
    line_end = b"\r\n" if style.crlf else b"\n"
    return b"data:" + (b" " if style.data_space else b"") + payload + line_end * 2


def comment(style: SseStyle) -> bytes:
    """A line that every client must ignore."""
    return b": keep-alive" + (b"\r\n" if style.crlf else b"\n") * 2


def pieces(data: bytes, size: int | None) -> Iterator[bytes]:
    """The data in pieces of `size` bytes, or whole."""
    step = size or max(len(data), 1)
    return (data[start : start + step] for start in range(0, len(data), step))
