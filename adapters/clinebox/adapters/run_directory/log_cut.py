"""Cline's log without the request bodies that it repeats for every attempt (FORMAT.md §6)."""

from __future__ import annotations

import json
from typing import Final

from returns.pipeline import is_successful

from clinebox.domain.cline.stream import LINE_LIMIT_BYTES
from clinebox.domain.json_value import JsonValue, parse_json

BODY_KEY: Final = "requestBodyValues"
"""What the AI SDK puts beside each error: the whole request, prompts and file contents included."""

_BODY_MARK: Final = BODY_KEY.encode()


def cut_bodies(line: bytes) -> bytes:
    """The log line without request bodies; one line stays one line, so evidence keeps its line numbers.

    A line that holds a body and cannot be rewritten (the half last line of a killed run) is replaced by a
    stub with its length: no reader could have used it either. One over the decoder's bound becomes blank
    and stays over the bound, so that the log as it was written is judged as the log itself was.
    """
    if len(line) > LINE_LIMIT_BYTES:
        return b" " * (LINE_LIMIT_BYTES + 1)
    if _BODY_MARK not in line:
        return line
    parsed = parse_json(line)
    if not is_successful(parsed):
        return _stub(line)
    value = parsed.unwrap()
    _drop_bodies(value)
    try:
        return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    except RecursionError:
        return _stub(line)


def _drop_bodies(value: JsonValue) -> None:
    """In place, without recursion: the nesting is the writer's."""
    rest: list[JsonValue] = [value]
    while rest:
        match rest.pop():
            case dict() as members:
                members.pop(BODY_KEY, None)
                rest.extend(members.values())
            case list() as elements:
                rest.extend(elements)
            case _:
                pass


def _stub(line: bytes) -> bytes:
    note = f"a line of {len(line)} bytes with a request body, not readable as JSON, was left out"
    return json.dumps({"clinebox": note}).encode("ascii")
