"""Names on the wire: episodes and their capture keys, sessions, tasks, tool grants (WIRE.md "Seed")."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.domain.bounded_json import json_excerpt
from clinebox.domain.json_value import JsonValue, as_int, as_mapping, as_text

MAX_ATTEMPT: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly (RFC 8259 §6)."""

# WIRE.md: ^[A-Za-z0-9][A-Za-z0-9._-]*$, taken whole: `$` alone would let a line end through.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
# WIRE.md: "-a<N>", N without a leading zero, from 1: the mark of a later attempt.
_LATER_ATTEMPT: Final = re.compile(r"(.+)-a([1-9][0-9]*)", re.ASCII)
_NAME_RULE: Final = "must start with a letter or digit and hold only letters, digits, '.', '_' and '-'"


@dataclass(frozen=True, slots=True)
class FieldFailure:
    """A field of a request that cannot stand: its path, and a sentence with the value (422 on the wire)."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class EpisodeId:
    """One attempt of a rollout; `attempt` counts from 0."""

    rollout_id: str
    attempt: int = 0

    @property
    def capture_key(self) -> str:
        """The episode as one name: `rollout_id`, or `rollout_id-a<attempt>` from attempt 1.

        >>> EpisodeId("task-7", 2).capture_key
        'task-7-a2'
        """
        return self.rollout_id if self.attempt == 0 else f"{self.rollout_id}-a{self.attempt}"


@dataclass(frozen=True, slots=True)
class TaskId:
    """A task of a task set; neither is empty."""

    taskset: str
    task_id: str


def parse_capture_key(key: str) -> Result[EpisodeId, FieldFailure]:
    """The episode of a capture key: the other way of `EpisodeId.capture_key`.

    Failure when no episode has this key (a rollout id that is none, an attempt above 2**53 - 1).
    """
    later = _LATER_ATTEMPT.fullmatch(key)
    if later is None:
        return parse_rollout_id(key, "capture key").map(EpisodeId)
    rollout_id, digits = later.groups()
    # Python refuses to convert more than 4,300 digits: the length is judged first.
    attempt = int(digits) if len(digits) <= len(str(MAX_ATTEMPT)) else MAX_ATTEMPT + 1
    if attempt > MAX_ATTEMPT:
        return _refused("capture key", key, f"names an attempt above {MAX_ATTEMPT}")
    return parse_rollout_id(rollout_id, "capture key").map(lambda name: EpisodeId(name, attempt))


def parse_episode(value: JsonValue, field: str = "episode_id") -> Result[EpisodeId, FieldFailure]:
    """`{rollout_id, attempt}` with `attempt` 0 where absent. Failure on any other field."""
    known = _closed(value, field, ("rollout_id", "attempt"))
    if not is_successful(known):
        return Failure(known.failure())
    members = known.unwrap()
    attempt = parse_attempt(members.get("attempt", 0), f"{field}.attempt")
    name = parse_rollout_id(members.get("rollout_id"), f"{field}.rollout_id")
    return name.bind(lambda rollout_id: attempt.map(lambda number: EpisodeId(rollout_id, number)))


def parse_rollout_id(value: JsonValue, field: str = "rollout_id") -> Result[str, FieldFailure]:
    """A rollout's name. Failure when it is no name, or ends like the capture key of a later attempt."""
    return parse_name(value, field).bind(lambda name: _without_attempt(name, field))


def parse_attempt(value: JsonValue, field: str = "attempt") -> Result[int, FieldFailure]:
    """An integer from 0 to 2**53 - 1 (`true`, `1.0` and `"1"` are none)."""
    attempt = as_int(value)
    if attempt is None or not 0 <= attempt <= MAX_ATTEMPT:
        return _refused(field, value, f"must be an integer from 0 to {MAX_ATTEMPT}")
    return Success(attempt)


def parse_name(value: JsonValue, field: str = "name") -> Result[str, FieldFailure]:
    """A name as tool grants and rollouts bear it: `^[A-Za-z0-9][A-Za-z0-9._-]*$`, the whole text."""
    name = as_text(value)
    return Success(name) if name is not None and _NAME.fullmatch(name) else _refused(field, value, _NAME_RULE)


def parse_filled_text(value: JsonValue, field: str = "agent_session_id") -> Result[str, FieldFailure]:
    """A text that is not empty, as session ids are: the caller chooses them, of any characters."""
    text = as_text(value)
    return Success(text) if text else _refused(field, value, "must be a text that is not empty")


def parse_task(value: JsonValue, field: str = "task_id") -> Result[TaskId, FieldFailure]:
    """`{taskset, task_id}`, both not empty. Failure on any other field."""
    known = _closed(value, field, ("taskset", "task_id"))
    if not is_successful(known):
        return Failure(known.failure())
    members = known.unwrap()
    task = parse_filled_text(members.get("task_id"), f"{field}.task_id")
    taskset = parse_filled_text(members.get("taskset"), f"{field}.taskset")
    return taskset.bind(lambda left: task.map(lambda right: TaskId(left, right)))


def parse_tool_names(
    names: Sequence[JsonValue], field: str = "tool_accesses"
) -> Result[tuple[str, ...], FieldFailure]:
    """The names of a session's tool grants. Failure when one is no name, or stands there twice."""
    seen: dict[str, None] = {}
    for index, value in enumerate(names):
        here = f"{field}[{index}].name"
        name = parse_name(value, here)
        if not is_successful(name):
            return Failure(name.failure())
        if name.unwrap() in seen:
            return _refused(here, value, "stands in the session twice")
        seen[name.unwrap()] = None
    return Success(tuple(seen))


def _without_attempt(name: str, field: str) -> Result[str, FieldFailure]:
    if _LATER_ATTEMPT.fullmatch(name):
        return _refused(field, name, "may not end in -a<N>, which marks a later attempt")
    return Success(name)


def _closed(
    value: JsonValue, field: str, allowed: tuple[str, ...]
) -> Result[dict[str, JsonValue], FieldFailure]:
    """WIRE.md: every model "refuses unknown fields, with 422 and the field's name"."""
    if not isinstance(value, dict):
        return _refused(field, value, f"must be an object with {' and '.join(allowed)}")
    unknown = next((key for key in value if key not in allowed), None)
    if unknown is not None:
        name = json_excerpt(unknown, str, 64)
        return Failure(FieldFailure(f"{field}.{unknown[:64]}", f"{field} has no field {name}"))
    return Success(as_mapping(value))


def _refused(field: str, value: JsonValue, rule: str) -> Failure[FieldFailure]:
    return Failure(FieldFailure(field, f"{field} {rule}; given was {json_excerpt(value, str, 80)}"))
