"""Whether a masker covered the *names* of a record's members: then nobody can tell what the record said.

Cline writes fixed names (FORMAT.md §2 and §6, 3.0.57 to 3.0.65). A secret that overlaps them can only be one
that holds JSON's quotes and text of Cline's own; it is masked all the same, and the record tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from clinebox.domain.cline.events import (
    Done,
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

MASK: Final = "***"
"""What `secrets.masker` writes."""
_MASK_BYTES: Final = MASK.encode()
QUIET_HOOKS: Final = frozenset({"tool_call", "tool_result", "agent_end", "prompt_submit"})
"""Hooks that decide nothing (glance.py)."""


def names_are_masked(record: dict[str, JsonValue], raw: bytes) -> bool:
    """Whether a name that decides is covered: the record's own, its event's, or its error's.

    What a tool was given or a server answered lies deeper, has names of its own, and decides nothing.

    >>> names_are_masked({"finishRea***": "completed"}, b'{"finishRea***":"completed"}')
    True
    >>> names_are_masked({"input": {"***": 1}}, b'{"input":{"***":1}}')
    False
    """
    return _MASK_BYTES in raw and any(MASK in name for body in _deciding(record) for name in body)


def is_unreadable(record: Record) -> bool:
    """Whether a record of stdout may have said more than can be read, because names in it are masked.

    One that is still seen to be text, a turn's end or a call with its name and id lost nothing that decides.
    """
    if _MASK_BYTES not in record.raw:
        return False
    match record.event:
        case (
            TextDelta()
            | TextEnd()
            | ReasoningDelta()
            | ReasoningEnd()
            | ToolUpdate()
            | IterationEnd()
            | Done()
        ):
            return False
        case TurnUsage():
            return False
        case ToolStart(tool_name=name, tool_call_id=call) | ToolEnd(tool_name=name, tool_call_id=call) if (
            name and call
        ):
            return False
        case Hook(name=name) if name in QUIET_HOOKS:
            return False
        case _:
            value = parse_line(record.raw)
            return isinstance(value, dict) and names_are_masked(value, record.raw)


def _deciding(record: dict[str, JsonValue]) -> Iterator[dict[str, JsonValue]]:
    yield record
    yield as_mapping(record.get("event"))
    error = as_mapping(record.get("err"))
    for body in (error, *map(as_mapping, as_list(error.get("errors")))):
        yield body
        yield as_mapping(body.get("cause"))
