"""A fact with the line that proves it, kept small whatever the line's length."""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

EXCERPT_LIMIT_CHARS: Final = 300
EXCERPT_LIMIT_BYTES: Final = 4 * EXCERPT_LIMIT_CHARS + 4
"""Four bytes a character at most: a character that the cut itself halves lies beyond the 300th."""

Value_co = TypeVar("Value_co", covariant=True)
_Value = TypeVar("_Value")


class Cited(NamedTuple, Generic[Value_co]):
    """What a line says, with its 1-based number, its own time stamp, and the telling part of it.

    A NamedTuple, because many are made: a frozen dataclass takes four times as long to make.
    """

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
    part = raw[start : start + EXCERPT_LIMIT_BYTES]
    return part.decode("utf-8", "replace")[:EXCERPT_LIMIT_CHARS]
