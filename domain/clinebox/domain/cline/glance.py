"""The commonest lines of Cline's stdout, read by their first and last bytes and not parsed (SPEC §16).

They are most of a run's lines and nearly all of its bytes: each text chunk repeats the whole text, each
update and end of a tool its output. What lies between head and tail is not validated: a line counts as a
record whatever stands there. The same record in any other form goes to the parser, with the same result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

Glance: TypeAlias = re.Match[bytes]
"""A line and its fields; `lastgroup` is its form: its record's name in `events.py`, or a special case."""

TS_HEAD: Final = b'{"ts":"'
TS_END: Final = len(TS_HEAD) + 24
"""`2026-11-30T16:54:25.091Z` is 24 bytes; Cline has written no other form (3.0.57 to 3.0.65)."""

_TEXT: Final = r'[^"\\\x00-\x1f]{0,200}'
"""A short string without escapes; a name or id of another kind goes to the parser."""
_COUNT: Final = r"\d{1,15}"

_EVENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "TextDelta": r'content_start","contentType":"text".*',
        "ReasoningDelta": r'content_start","contentType":"reasoning".*',
        "TextEnd": r'content_end","contentType":"text".*',
        "ReasoningEnd": r'content_end","contentType":"reasoning".*',
        "ToolUpdate": r'content_update","contentType":"tool".*',
        # Of notices, only a compaction decides.
        "Notice": r'notice"(?!.*_compaction).*',
        "IterationEnd": r'iteration_end".*',
        "Done": r'done".*',
        "IterationStart": rf'iteration_start","iteration":(?P<iteration>{_COUNT})',
        # A turn of zeros is rare, and more is told of it: for the parser.
        "TurnUsage": rf'usage","inputTokens":(?P<input>[1-9]\d{{0,14}}),"outputTokens":(?P<output>{_COUNT})'
        rf'(?:,"cacheReadTokens":(?P<cached>{_COUNT}))?(?:,"cacheWriteTokens":{_COUNT})?'
        r'(?:,"total[A-Za-z]+":[0-9.]+)*',
        # `spawn_agent` opens a bracket (nesting.py).
        "ToolStart": r'content_start","contentType":"tool","toolName":"(?!spawn_agent")'
        rf'(?P<tool>{_TEXT})","toolCallId":"(?P<call>{_TEXT})".*',
        "ToolEnd": r'content_end","contentType":"tool","toolName":"(?!spawn_agent"|run_commands")'
        rf'{_TEXT}","toolCallId":"(?P<ended>{_TEXT})".*',
        "Commands": r'content_end","contentType":"tool","toolName":"run_commands"'
        rf',"toolCallId":"(?P<ran>{_TEXT})","output":\[\{{"query":".*","success":(?P<success>true|false)\}}\]'
        rf',"durationMs":{_COUNT}',
    }
)
"""How the `event` of an `agent_event` goes on behind its `"type":"`, to its closing bracket."""

ANOTHER_COMMAND: Final = b'},{"query":'
"""Stands in a `Commands` line with more than one in it; each has its own `success`, and all are parsed."""

_HOOKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AgentStart": rf'agent_start","agentId":"(?P<agent>{_TEXT})","taskId":"{_TEXT}","parentAgentId":null',
        "Hook": r'(?:tool_call|tool_result|agent_end|prompt_submit)".*|agent_error".*"parentAgentId":null',
    }
)
"""How a `hook_event` goes on behind its `"hookEventName":"`; those named `Hook` tell nothing."""

_RECORDS: Final[Mapping[str, str]] = MappingProxyType({"Commands": "ToolEnd", "AgentStart": "Hook"})
"""Special cases by their record's own name."""


def _forms(forms: Mapping[str, str]) -> str:
    return "|".join(f"(?P<{name}>{form})" for name, form in forms.items())


def _pattern() -> re.Pattern[bytes]:
    # `.*` before a tail costs nothing: the engine jumps to the line's end and steps back over the tail.
    kinds = rf'agent_event","event":\{{"type":"(?:{_forms(_EVENTS)})\}}'
    hooks = rf'hook_event","hookEventName":"(?:{_forms(_HOOKS)})'
    line = rf'\{{"ts":"[ !#-\[\]-~]{{24}}","type":"(?:{kinds}|{hooks})\}}'
    return re.compile(line.encode(), re.DOTALL)


glance: Final = _pattern().fullmatch
"""A whole line of one of the common forms; None for every other line, which is to be parsed.

>>> line = b'{"ts":"2026-11-30T16:54:25.091Z","type":"agent_event","event":{"type":"done","text":"x"}}'
>>> glance(line).lastgroup
'Done'
>>> glance(b'{"type":"run_result"}') is None
True
"""


def record_name(line: Glance) -> str:
    """The name in `events.py` of the record that the line is."""
    form = line.lastgroup or ""
    return _RECORDS.get(form, form)


def time_stamp(raw: bytes) -> str:
    """The time of a line that begins as Cline's lines do."""
    return raw[len(TS_HEAD) : TS_END].decode("ascii", "replace")
