"""`model_calls.jsonl`: one line a call, written when the session is over (SPEC §14)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from clinebox.domain.json_value import JsonValue
from clinebox.domain.model_calls.record import ModelCall

MODEL_CALLS_NAME: Final = "model_calls.jsonl"


def call_to_json(call: ModelCall, of: int | None) -> dict[str, JsonValue]:
    """One call for programs. `of` is how many calls the whole record has: so a cut record can be told.

    `of` None is for a glance at a session that goes on; a record with it is never taken for a whole one.
    """
    return {"number": call.number, "of": of}


def model_call_lines(calls: Sequence[ModelCall]) -> Iterator[bytes]:
    """The whole record of an ended session as JSON lines, in order of arrival."""
    for call in calls:
        yield json.dumps(call_to_json(call, len(calls)), ensure_ascii=False).encode() + b"\n"
