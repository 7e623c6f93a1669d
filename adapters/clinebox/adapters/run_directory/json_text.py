"""JSON as UTF-8 that any reader takes, whatever the strings hold."""

from __future__ import annotations

import json
import re
from typing import Final

from clinebox.domain.json_value import JsonValue

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def json_bytes(value: JsonValue, *, indent: int | None = None) -> bytes:
    r"""UTF-8 JSON, compact without `indent`; a lone surrogate is written as its `\udXXX` escape.

    Raises RecursionError for a value that nests deeper than the writer's stack.

    >>> json_bytes({"a": ["é", "\ud800"]}).decode()
    '{"a":["é","\\ud800"]}'
    """
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", text).encode("utf-8")
