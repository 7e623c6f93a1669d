"""Whether two requests are equal, as one short text: bodies are compared, and not kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from clinebox.domain.json_value import JsonValue


def fingerprint(value: JsonValue) -> str:
    """The SHA-256 of a JSON value, 64 hexadecimal digits: equal for equal values only. Total at any depth.

    The order of an object's members does not count; `1`, `1.0`, `true` and `"1"` are four values.
    """
    digest = hashlib.sha256()
    for token in _tokens(value):
        digest.update(token)
    return digest.hexdigest()


def _tokens(value: JsonValue) -> Iterator[bytes]:
    """The value in a form of one spelling. Own stack: the interpreter's ends at 1,000 levels."""
    waiting: list[JsonValue | bytes] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, bytes):
            yield part
        elif isinstance(part, list):
            yield b"[%d:" % len(part)
            waiting.extend(reversed(part))
        elif isinstance(part, dict):
            yield b"{%d:" % len(part)
            for key in sorted(part, reverse=True):
                waiting.extend((part[key], _text(key)))
        else:
            yield _scalar(part)


def _scalar(value: bool | int | float | str | None) -> bytes:  # noqa: FBT001, PYI041 - JSON's scalars, each by name
    match value:
        case str():
            return _text(value)
        case None | bool():
            return b"n" if value is None else b"t" if value else b"f"
        case int():
            # Hexadecimal: decimal digits past 4,300 are refused by Python.
            return b"i%x;" % value
        case _:
            return b"d%s;" % value.hex().encode()


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return b"s%d:%s" % (len(data), data)
