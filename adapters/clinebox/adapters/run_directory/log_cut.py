"""Cline's log without the request bodies that it repeats for every attempt (FORMAT.md §6)."""

from __future__ import annotations

import json
import re
from typing import Final

from clinebox.adapters.run_directory.json_text import json_bytes
from clinebox.domain.cline.stream import LINE_LIMIT_BYTES

BODY_KEY: Final = "requestBodyValues"
"""What the AI SDK puts beside each error: the whole request, prompts and file contents included."""

_BODY_MARK: Final = BODY_KEY.encode()
_MEMBER: Final = re.compile(rf'"{BODY_KEY}"\s*:\s*')
"""Inside a JSON string every quote is escaped, so this can only be a member's name."""
_COMMA: Final = re.compile(r"\s*,\s*")


def cut_bodies(line: bytes) -> bytes:
    """The log line without request bodies, every other byte as it was; one line stays one line.

    So evidence keeps its line numbers and its words. A line that holds a body and is no JSON (the half last
    line of a killed run) is replaced by a stub with its length: no reader could have used it either. One over
    the decoder's bound becomes blank and stays over the bound, so that the log as it was written is judged
    as the log itself was.
    """
    if len(line) > LINE_LIMIT_BYTES:
        return b" " * (LINE_LIMIT_BYTES + 1)
    if _BODY_MARK not in line:
        return line
    try:
        text = line.decode("utf-8", "surrogateescape")
        json.loads(text)
        return _without_bodies(text).encode("utf-8", "surrogateescape")
    except (ValueError, RecursionError):
        return _stub(line)


def _without_bodies(text: str) -> str:
    """The valid JSON text less each body member and one comma beside it."""
    kept: list[str] = []
    at = 0
    while (member := _MEMBER.search(text, at)) is not None:
        _, end = _DECODER.raw_decode(text, member.end())
        kept.append(text[at : member.start()])
        comma = _COMMA.match(text, end)
        if comma is None:
            _drop_last_comma(kept)
        at = end if comma is None else comma.end()
    return "".join((*kept, text[at:]))


def _drop_last_comma(kept: list[str]) -> None:
    """The last member of an object goes with the comma before it, if there is one."""
    while kept and not kept[-1].strip():
        kept.pop()
    if kept and kept[-1].rstrip().endswith(","):
        kept[-1] = kept[-1].rstrip()[:-1]


_DECODER: Final = json.JSONDecoder()


def _stub(line: bytes) -> bytes:
    note = f"a line of {len(line)} bytes with a request body, not readable as JSON, was left out"
    return json_bytes({"clinebox": note})
