r"""The records of `cline --json`, as a closed union (FORMAT.md §2, Cline 3.0.57 to 3.0.65).

A field is None when the record does not carry it in the documented type: a decoder drops what it cannot
read and keeps the record. `line` is 1-based and counts `\\n` only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from clinebox.domain.json_value import JsonValue


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token counts as Cline writes them: `cache_read` is *inside* `input`, never added to it."""

    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None


@dataclass(frozen=True, slots=True)
class Hook:
    """`hook_event`, the only record with an agent id; `parent_agent_id` None is the lead."""

    name: str
    agent_id: str | None
    parent_agent_id: str | None


@dataclass(frozen=True, slots=True)
class IterationStart:
    """Written *before* the model request, so it is no evidence of model output."""

    iteration: int | None


@dataclass(frozen=True, slots=True)
class IterationEnd:
    """End of a model turn; absent for a turn that failed."""

    iteration: int | None
    had_tool_calls: bool | None
    tool_call_count: int | None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """`content_start` text: one a chunk. Its texts are decoded only when asked for: `stream.delta_text(raw)`.

    Every chunk repeats the whole text so far (`accumulated`), so a long answer is quadratic on disk.
    """

    raw: bytes


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """`content_start` reasoning: one a chunk, without `accumulated`."""

    text: str
    redacted: bool


@dataclass(frozen=True, slots=True)
class TextEnd:
    """`content_end` text: the whole text of the turn, also the partial one of a broken stream."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningEnd:
    """`content_end` reasoning; comes *after* the text's end."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStart:
    """`content_start` tool: the call was made. Ids are the model's, so they may repeat."""

    tool_name: str
    tool_call_id: str
    arguments: JsonValue


@dataclass(frozen=True, slots=True)
class ToolUpdate:
    """`content_update` tool: live output of a running command."""

    tool_name: str
    tool_call_id: str
    stream: str | None
    chunk: str | None


@dataclass(frozen=True, slots=True)
class ToolEnd:
    """`content_end` tool; `error` only for calls that never ran. A failed command is in `output`."""

    tool_name: str
    tool_call_id: str
    output: JsonValue
    error: str | None
    duration_ms: int | None


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """`usage`: this turn's tokens; zeros when the server sent none."""

    turn: TokenCounts


@dataclass(frozen=True, slots=True)
class Notice:
    """`notice`: compaction and recovery, by `metadata.kind`."""

    kind: str | None
    phase: str | None
    message: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class AgentError:
    """`error`: recoverable = one recorded mistake; else terminal for the agent that it belongs to."""

    name: str | None
    message: str | None
    error_class: str | None
    recoverable: bool | None
    iteration: int | None


@dataclass(frozen=True, slots=True)
class Done:
    """`done`: one an agent, sub-agents included; not written when the agent ends in error."""

    reason: str | None
    text: str | None
    iterations: int | None


@dataclass(frozen=True, slots=True)
class TeamRecord:
    """`team_event`; a teammate's own agent events come nested (`inner`), but its usage comes bare."""

    kind: str | None
    agent_id: str | None
    message: str | None
    inner: Event | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """`run_result`: once, last or next to last, of the lead."""

    finish_reason: str | None
    iterations: int | None
    usage: TokenCounts
    duration_ms: int | None
    text: str | None
    model_id: str | None
    provider: str | None


@dataclass(frozen=True, slots=True)
class RunAborted:
    """`run_aborted`: `external_abort` = mistake or loop limit; `local_abort` = a signal was received."""

    reason: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class RunStart:
    """`run_start`, only with `-v`."""

    provider_id: str | None
    model_id: str | None


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A JSON object whose type no rule knows; kept by name, decides nothing."""

    kind: str


@dataclass(frozen=True, slots=True)
class NotARecord:
    """A line that is no JSON object: garbage, or the half last line of a killed run."""

    why: str


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """A line over the bound: counted, not parsed."""

    length_bytes: int


Event: TypeAlias = (
    Hook
    | IterationStart
    | IterationEnd
    | TextDelta
    | ReasoningDelta
    | TextEnd
    | ReasoningEnd
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | TurnUsage
    | Notice
    | AgentError
    | Done
    | TeamRecord
    | RunResult
    | RunAborted
    | RunStart
    | UnknownRecord
    | NotARecord
    | OversizedLine
)


class Record(NamedTuple):
    """One line of Cline's stdout: where it stands, when it was written, and what it says.

    A NamedTuple, because one is made for every line: a frozen dataclass takes four times as long to make.
    """

    line: int
    ts: str | None
    event: Event
    raw: bytes
    """The line itself without its `\\n`, for the excerpt (bounded there)."""
