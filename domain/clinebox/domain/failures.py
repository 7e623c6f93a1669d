"""Failure events and reports: what failed at which boundary, and what caused it (SPEC §3, WIRE.md).

An event says what happened and nothing else; whether to retry and what to score is policy's.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from returns.result import Failure, Result, Success

from clinebox.domain.bounded_json import Mask, bounded_json, bounded_text
from clinebox.domain.json_value import JsonValue, as_mapping
from clinebox.domain.one_line import excerpt

REASON_LIMIT_CHARS: Final = 2_000
ID_LIMIT_CHARS: Final = 128
UNKNOWN_KIND: Final = "unknown"
REPORTED_KIND: Final = "clinebox:reported_kind"
"""In `details`: the kind as it was given, where it is no registered and no namespaced one."""
REPORTED_ID: Final = "clinebox:reported_id"
"""In `details`: the id as it was given, where it could not be an event's id."""

REGISTERED_KINDS: Final = frozenset(
    {
        *("transport_unreachable", "transport_peer_drop", "transport_timeout", "transport_local_resource"),
        *("agent_run_error", "agent_request_failed", "agent_timeout", "agent_command_not_allowed"),
        *("agent_invalid_output", "model_request_error", "model_transport_error"),
        *("environment_server_failed", "protocol_violation", "verifier_error"),
        *("provider_unavailable", "provider_quota_exhausted", "provider_oom_killed"),
        *("session_lost", "session_expired", "session_release_failed"),
        *("cancelled", "kill_shaped", "shutdown", "persistence_failed", UNKNOWN_KIND),
    }
)
"""WIRE.md's list, to be kept by name."""

# WIRE.md: "A kind of our own is namespaced: clinebox:<kind>". Another component's namespace is as good: its
# kinds pass through, for they are read by whoever registered them.
_NAMESPACED: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}:[a-z][a-z0-9_]{0,63}", re.ASCII)
# Ids stand in a header, in logs and as JSON keys: printable ASCII without spaces.
_EVENT_ID: Final = re.compile(rf"[!-~]{{1,{ID_LIMIT_CHARS}}}", re.ASCII)


class Boundary(StrEnum):
    """Whose boundary was crossed when it failed."""

    MODEL = "model"
    HARNESS = "harness"
    AGENT = "agent"
    RESOURCES_SERVER = "resources_server"
    ENVIRONMENT = "environment"
    COLLECTION = "collection"


class Stage(StrEnum):
    """When in an episode it failed."""

    ADMISSION = "admission"
    SEED = "seed"
    AGENT = "agent"
    VERIFICATION = "verification"
    CLEANUP = "cleanup"


@dataclass(frozen=True, slots=True)
class FailureEvent:
    """One failure. `http_status` is 100 to 599 or None; `cause_id` names another event of the report."""

    event_id: str
    boundary: Boundary
    failure_kind: str
    failure_reason: str
    stage: Stage
    http_status: int | None = None
    cause_id: str | None = None
    details: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailureReport:
    """Events by id; `failure_id` names the one that is reported, all others caused or accompanied it."""

    failure_id: str
    events: Mapping[str, FailureEvent]


@dataclass(frozen=True, slots=True)
class Cause:
    """What an adapter knows of one explicit cause (`raise … from …`); `event_id` where it came with one."""

    boundary: Boundary
    kind: str
    reason: str
    stage: Stage
    http_status: int | None = None
    details: Mapping[str, JsonValue] = field(default_factory=dict)
    event_id: str | None = None


def build_report(failure: Cause, *causes: Cause, occurrence: str, mask: Mask) -> FailureReport:
    """A valid report of a failure and its explicit causes, the nearest cause first. Total.

    `occurrence` tells two equal failures apart (the session and a counter, say): an id is a hash of it and of
    the event's content with its causes. An id that was given is kept; one that cannot be an id, or was given
    twice, goes to `details`. Texts are masked, then bounded. A kind that is neither registered nor namespaced
    is `unknown`, with the given one in `details`.
    """
    events: dict[str, FailureEvent] = {}
    cause_id: str | None = None
    for cause in reversed((failure, *causes)):
        event = _event(cause, cause_id, occurrence, mask, events)
        events[event.event_id] = event
        cause_id = event.event_id
    return FailureReport(next(reversed(events)), dict(reversed(events.items())))


def known_kind(kind: str) -> bool:
    """Whether a kind may stand on the wire: registered in WIRE.md, or `<namespace>:<kind>`."""
    return kind in REGISTERED_KINDS or _NAMESPACED.fullmatch(kind) is not None


def valid_event_id(event_id: str) -> bool:
    """Whether a text can be an event's id: 1 to 128 printable ASCII characters without a space."""
    return _EVENT_ID.fullmatch(event_id) is not None


def valid_http_status(status: int | None) -> int | None:
    """The status if it is one (RFC 9110 §15: three digits, first 1 to 5), else None."""
    return status if status is not None and 100 <= status <= 599 else None  # noqa: PLR2004 - the RFC's range


def merge(first: FailureReport, second: FailureReport) -> FailureReport:
    """Both reports in one; associative, idempotent, valid where both are.

    The first one's `failure_id` stands. Where both hold one id with other content the first one's event
    stays: the first report is closed under its causes, so no cycle and no loose end can come of it.
    """
    return FailureReport(first.failure_id, {**second.events, **first.events})


def validate(report: FailureReport) -> Result[FailureReport, str]:
    """The report itself. Failure(sentence) when an id does not resolve, or causes run in a circle."""
    if report.failure_id not in report.events:
        return Failure(f"failure_id {_shown(report.failure_id)} names no event of the report")
    for key, event in report.events.items():
        if key != event.event_id or not valid_event_id(key):
            return Failure(f"the event under {_shown(key)} calls itself {_shown(event.event_id)}")
        if event.cause_id is not None and event.cause_id not in report.events:
            return Failure(f"cause_id {_shown(event.cause_id)} names no event of the report")
    looping = _looping(report)
    return Success(report) if looping is None else Failure(f"the causes of {_shown(looping)} run in a circle")


def chain(report: FailureReport, event_id: str) -> tuple[FailureEvent, ...]:
    """An event and its causes, nearest first; ends at a loose end and before a repetition. Total."""
    found: dict[str, FailureEvent] = {}
    event = report.events.get(event_id)
    while event is not None and event.event_id not in found:
        found[event.event_id] = event
        event = None if event.cause_id is None else report.events.get(event.cause_id)
    return tuple(found.values())


def _looping(report: FailureReport) -> str | None:
    """The first event whose causes never end; each event is walked once."""
    ends: set[str] = set()
    for event_id in report.events:
        path: dict[str, None] = {}
        here: str | None = event_id
        while here is not None and here not in ends:
            if here in path:
                return here
            path[here] = None
            here = report.events[here].cause_id
        ends.update(path)
    return None


def _event(
    cause: Cause, cause_id: str | None, occurrence: str, mask: Mask, taken: Mapping[str, FailureEvent]
) -> FailureEvent:
    given = _usable_id(cause.event_id, mask, taken)
    marks: dict[str, JsonValue] = {}
    if cause.event_id != given:
        marks[REPORTED_ID] = cause.event_id
    event = FailureEvent(
        event_id=given or "",
        boundary=cause.boundary,
        failure_kind=cause.kind if known_kind(cause.kind) else UNKNOWN_KIND,
        failure_reason=bounded_text(cause.reason, mask, REASON_LIMIT_CHARS),
        stage=cause.stage,
        http_status=valid_http_status(cause.http_status),
        cause_id=cause_id,
        details=event_details({**marks, **cause.details}, cause.kind, mask),
    )
    return event if given else replace(event, event_id=_free_id(event, occurrence, taken))


def event_details(details: Mapping[str, JsonValue], kind: str, mask: Mask) -> dict[str, JsonValue]:
    """Details as an event may carry them: masked, bounded, with the kind as given where that is unknown."""
    marks: dict[str, JsonValue] = {} if known_kind(kind) else {REPORTED_KIND: kind}
    return as_mapping(bounded_json({**marks, **details}, mask))


def _usable_id(given: str | None, mask: Mask, taken: Mapping[str, FailureEvent]) -> str | None:
    """The id that was given, if it can be this event's: well formed, no secret in it, not used before."""
    usable = given is not None and valid_event_id(given) and mask(given) == given and given not in taken
    return given if usable else None


def _free_id(event: FailureEvent, occurrence: str, taken: Mapping[str, FailureEvent]) -> str:
    """A hash of the content and the occurrence; counted on where a caller gave just that id to a cause."""
    return next(
        candidate
        for n in range(len(taken) + 1)
        if (candidate := _content_id(event, f"{occurrence}#{n}")) not in taken
    )


def _content_id(event: FailureEvent, salt: str) -> str:
    content: Sequence[JsonValue] = (
        salt,
        event.boundary.value,
        event.failure_kind,
        event.failure_reason,
        event.stage.value,
        event.http_status,
        event.cause_id,
        dict(event.details),
    )
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def _shown(text: str) -> str:
    return f"'{excerpt(text, 64)}'"
