"""A fact with the line that proves it, kept small whatever the line's length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

EXCERPT_LIMIT_CHARS: Final = 300

Value_co = TypeVar("Value_co", covariant=True)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Cited(Generic[Value_co]):
    """What a line says, with its 1-based number, its own time stamp, and the telling part of it."""

    value: Value_co
    line: int
    ts: str | None
    excerpt: str


def cite(value: _Value, line: int, ts: str | None, raw: bytes, at: bytes = b"") -> Cited[_Value]:
    """The fact with its line, quoted from where `at` stands last, or from the line's start."""
    return Cited(value, line, ts, excerpt(raw, at))


def excerpt(raw: bytes, at: bytes = b"") -> str:
    """At most 300 characters of the line from where `at` stands last, or from its start if it is not there.

    >>> excerpt(b'{"a":1,"b":2}', b'"b":')
    '"b":2}'
    """
    start = max(raw.rfind(at), 0) if at else 0
    # Four bytes a character at most: a character that the slice itself cuts lies beyond the 300th.
    part = raw[start : start + 4 * EXCERPT_LIMIT_CHARS + 4]
    return part.decode("utf-8", "replace")[:EXCERPT_LIMIT_CHARS]
