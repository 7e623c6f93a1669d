"""Checks of single values in a script; each raises ValueError with what is allowed."""

from __future__ import annotations

import json
import re
from typing import Final

from clinebox.domain.json_value import JsonValue

OWN_HEADERS: Final = frozenset({"connection", "content-length", "transfer-encoding"})
VALUE_LIMIT: Final = 60
"""Characters of a wrong value that are shown."""
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def checked_text(value: object) -> str | tuple[str, ...]:
    """A text, or its chunks, that UTF-8 can carry."""
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return tuple(_utf8(part) for part in value)
    raise ValueError(f"must be a text in quotes, or a list of texts (one a chunk), not {shown(value)}")


def _utf8(text: str) -> str:
    if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("holds half of a surrogate pair, which no UTF-8 stream can carry")
    return text


def checked_arguments(value: object) -> JsonValue:
    """A tool call's arguments: a mapping, or a text."""
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, dict):
        return checked_json(value)
    raise ValueError(f"must be a mapping, or a text that is sent as it stands, not {shown(value)}")


def checked_json(value: object) -> JsonValue:
    """A value that JSON can carry."""
    try:
        sent: JsonValue = json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False))
        json.dumps(value, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot be sent as JSON: {error}") from error
    return sent


def checked_headers(value: dict[str, str]) -> dict[str, str]:
    """Response headers that do not break the response."""
    for name, content in value.items():
        if not HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no header name")
        if name.lower() in OWN_HEADERS:
            raise ValueError(f"{name!r} is set by the server itself")
        if not (content.isascii() and content.isprintable()):
            raise ValueError(f"the value of {name!r} must be printable ASCII on one line")
    return value


def shown(value: object) -> str:
    """A wrong value as an error shows it."""
    text = repr(value)
    return text if len(text) <= VALUE_LIMIT else text[: VALUE_LIMIT - 3] + "..."
