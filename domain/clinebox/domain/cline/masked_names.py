"""Whether a masker covered the *names* of a record's members: then nobody can tell what the record said.

Cline writes fixed names (FORMAT.md §2 and §6, 3.0.57 to 3.0.65). A secret that overlaps them can only be one
that holds JSON's quotes and text of Cline's own; it is masked all the same, and the record tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from clinebox.domain.cline.events import (
    Done,
    Event,
    Hook,
    IterationEnd,
    ReasoningDelta,
    ReasoningEnd,
    Record,
    TextDelta,
    TextEnd,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    TurnUsage,
)
from clinebox.domain.cline.stream import parse_line
from clinebox.domain.json_value import JsonValue, as_list, as_mapping
from clinebox.domain.secrets.record_writer import MASK as MASK_BYTES

MASK: Final = MASK_BYTES.decode("ascii")
QUIET_HOOKS: Final = frozenset({"tool_call", "tool_result", "agent_end", "prompt_submit"})
"""Hooks that decide nothing (glance.py)."""
_TOLD: Final[frozenset[type[Event]]] = frozenset(
    {TextDelta, TextEnd, ReasoningDelta, ReasoningEnd, ToolUpdate, TurnUsage, IterationEnd, Done}
)
"""What such a record says lies in its kind alone."""


def names_are_masked(record: dict[str, JsonValue], raw: bytes) -> bool:
    """Whether a name that decides is covered: the record's own, its event's, or its error's.

    What a tool was given or a server answered lies deeper, has names of its own, and decides nothing.

    >>> names_are_masked({"finishRea***": "completed"}, b'{"finishRea***":"completed"}')
    True
    >>> names_are_masked({"input": {"***": 1}}, b'{"input":{"***":1}}')
    False
    """
    return MASK_BYTES in raw and any(MASK in name for body in _deciding(record) for name in body)


def is_unreadable(record: Record) -> bool:
    """Whether a record of stdout that holds a mask may have said more than can be read.

    One that is still seen to be text, a turn's end, or a call with its name and id lost nothing that decides.
    """
    match record.event:
        case ToolStart(tool_name=name, tool_call_id=call) | ToolEnd(tool_name=name, tool_call_id=call):
            told = bool(name and call)
        case Hook(name=name):
            told = name in QUIET_HOOKS
        case event:
            told = type(event) in _TOLD
    value = None if told else parse_line(record.raw)
    return isinstance(value, dict) and names_are_masked(value, record.raw)


def _deciding(record: dict[str, JsonValue]) -> Iterator[dict[str, JsonValue]]:
    yield record
    yield as_mapping(record.get("event"))
    error = as_mapping(record.get("err"))
    for body in (error, *map(as_mapping, as_list(error.get("errors")))):
        yield body
        yield as_mapping(body.get("cause"))
