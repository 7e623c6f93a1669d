"""The transcript's types: invocations, their Responses items, turns and marks (SPEC §2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from clinebox.domain.json_value import JsonValue


class ItemStatus(StrEnum):
    """`incomplete`: its end is not in the stream, or the turn that it belongs to broke."""

    COMPLETED = "completed"
    INCOMPLETE = "incomplete"


class InvocationStatus(StrEnum):
    """How one agent ended, by its own `done` or `error` (WIRE.md, agent_invocation)."""

    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class Message:
    """Text of one model turn, never reasoning. `line` is where it began, 1-based."""

    text: str
    status: ItemStatus
    line: int


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning of one model turn, never text; `redacted` when the provider withheld any of it."""

    text: str
    redacted: bool
    status: ItemStatus
    line: int


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A tool call that was made; `incomplete` means that its effect is unknown. Times are epoch ms."""

    call_id: str
    name: str
    arguments: JsonValue
    status: ItemStatus
    line: int
    started_ms: int | None
    ended_ms: int | None
    child_invocation_id: str | None


@dataclass(frozen=True, slots=True)
class FunctionCallOutput:
    """What the tool gave back, whole; `error` only for a call that never ran.

    `call_line` is the line of its call, None when there was none: ids are the model's and may repeat.
    """

    call_id: str
    output: JsonValue
    error: str | None
    duration_ms: int | None
    line: int
    call_line: int | None


Item: TypeAlias = Message | Reasoning | FunctionCall | FunctionCallOutput


@dataclass(frozen=True, slots=True)
class Turn:
    """One model turn with its tool calls. `answered_ms`: the model was done and the tools began."""

    iteration: int | None
    started_ms: int | None
    answered_ms: int | None
    ended_ms: int | None


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment between the turns: a notice (compaction, recovery), a recorded mistake or an error."""

    kind: str
    message: str
    at_ms: int | None
    line: int


@dataclass(frozen=True, slots=True)
class Invocation:
    """One agent's part: the lead's, or a sub-agent's with the call that spawned it."""

    invocation_id: str
    parent_invocation_id: str | None
    spawned_by_call_id: str | None
    agent_id: str | None
    status: InvocationStatus
    items: tuple[Item, ...]
    turns: tuple[Turn, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Transcript:
    """Every invocation, the lead's first; times of the stream's first and last record in epoch ms."""

    invocations: tuple[Invocation, ...]
    first_ms: int | None
    last_ms: int | None
