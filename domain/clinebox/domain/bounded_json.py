"""JSON of any depth and size cut to what a message may carry; masked on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import Final, TypeAlias

from clinebox.domain.json_value import JsonValue
from clinebox.domain.one_line import CUT_MARK, cut

Mask: TypeAlias = Callable[[str], str]
"""Takes every secret out of a text; applied before any cut, so that no half of one survives."""

EXACT_INT_BITS: Final = 63
TOO_DEEP: Final = "(nested too deeply)"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is kept of a JSON value: levels, members of each container, characters of each text."""

    depth: int = 6
    items: int = 64
    text_chars: int = 2_000
    key_chars: int = 128


DEFAULT_BOUNDS: Final = Bounds()


def bounded_json(value: JsonValue, mask: Mask, bounds: Bounds = DEFAULT_BOUNDS) -> JsonValue:
    """A masked copy within the bounds, which any JSON writer accepts and any reader returns unchanged.

    Idempotent where `mask` is. NaN, infinities and integers beyond 63 bits become text (RFC 8259 §6 has no
    place for the first, and Python refuses to write the last past 4,300 digits); lone surrogates become `?`.
    """
    return _bounded(value, mask, bounds, bounds.depth)


def bounded_text(text: str, mask: Mask, limit_chars: int) -> str:
    """A masked text of at most `limit_chars` characters that UTF-8 can carry."""
    return cut(mask(text.encode("utf-8", "replace").decode("utf-8")), limit_chars)


def json_excerpt(value: JsonValue, mask: Mask, limit_chars: int) -> str:
    """Compact JSON of the value for a message: never an exception, whatever the depth."""
    return cut(json.dumps(bounded_json(value, mask), ensure_ascii=False, separators=(",", ":")), limit_chars)


def _bounded(value: JsonValue, mask: Mask, bounds: Bounds, levels: int) -> JsonValue:
    match value:
        case str():
            return bounded_text(value, mask, bounds.text_chars)
        case list() if levels > 0:
            return _items(value, mask, bounds, levels - 1)
        case dict() if levels > 0:
            return _members(value, mask, bounds, levels - 1)
        case list() | dict():
            return TOO_DEEP
        case _:
            return _number(value)


def _number(value: JsonValue) -> JsonValue:
    """A number, truth value or null that JSON can say, else its text."""
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, int) and value.bit_length() > EXACT_INT_BITS:
        return f"(an integer of {value.bit_length()} bits)"
    return value


def _items(value: list[JsonValue], mask: Mask, bounds: Bounds, levels: int) -> list[JsonValue]:
    kept, left_out = _room(len(value), bounds.items)
    items = [_bounded(item, mask, bounds, levels) for item in value[:kept]]
    return [*items, _more(left_out)] if left_out else items


def _members(value: Mapping[str, JsonValue], mask: Mask, bounds: Bounds, levels: int) -> dict[str, JsonValue]:
    kept, left_out = _room(len(value), bounds.items)
    members: dict[str, JsonValue] = {CUT_MARK: _more(left_out)} if left_out else {}
    for key, member in islice(value.items(), kept):
        name = _free_name(bounded_text(key, mask, bounds.key_chars), members.keys(), bounds.key_chars)
        members[name] = _bounded(member, mask, bounds, levels)
    return members


def _room(count: int, limit: int) -> tuple[int, int]:
    """How many of `count` are kept and how many left out; the note about those takes a place too."""
    return (count, 0) if count <= limit else (limit - 1, count - limit + 1)


def _more(left_out: int) -> str:
    return f"({left_out} more left out)"


def _free_name(name: str, taken: Collection[str], limit_chars: int) -> str:
    """The name itself, or a numbered one: two keys that masking or cutting made equal both stay."""
    if name not in taken:
        return name
    numbers = (f" ({n})" for n in range(2, len(taken) + 3))
    return next(new for end in numbers if (new := name[: limit_chars - len(end)] + end) not in taken)
