"""JSON from hostile bytes: parsed without ever raising, and narrowed without `Any`."""

from __future__ import annotations

import json
from typing import Final, TypeAlias

from returns.result import Failure, Result, Success

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

REASON_LIMIT: Final = 200
"""Characters of a parser's own message that are kept; it may quote the input."""


def parse_json(data: bytes) -> Result[JsonValue, str]:
    """Parse one JSON text; bytes that are not UTF-8 are read with U+FFFD in their place.

    Failure(reason) when the text is not JSON, nests deeper than the parser's stack, or holds a number
    that Python refuses to convert (more than 4,300 digits).
    """
    try:
        return Success(json.loads(data.decode("utf-8", "replace")))
    except RecursionError:
        return Failure("nested too deeply")
    except ValueError as error:
        return Failure(str(error)[:REASON_LIMIT])


def as_mapping(value: JsonValue) -> dict[str, JsonValue]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """The value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: JsonValue) -> str | None:
    """The value if it is a string, else None."""
    return value if isinstance(value, str) else None


def as_int(value: JsonValue) -> int | None:
    """The value if it is an integer (`true` and `1.0` are none), else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_bool(value: JsonValue) -> bool | None:
    """The value if it is `true` or `false`, else None."""
    return value if isinstance(value, bool) else None
