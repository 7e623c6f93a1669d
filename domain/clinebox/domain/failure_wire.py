"""A failure report as JSON, as the reply header `X-NG-Failure-Report`, and as one line for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate
from typing import Final, TypeVar

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.domain.bounded_json import Mask, bounded_json, bounded_text
from clinebox.domain.failures import (
    ID_LIMIT_CHARS,
    REASON_LIMIT_CHARS,
    UNKNOWN_KIND,
    Boundary,
    FailureEvent,
    FailureReport,
    Stage,
    chain,
    event_details,
    known_kind,
    valid_event_id,
    valid_http_status,
    validate,
)
from clinebox.domain.json_value import JsonValue, as_int, as_mapping, as_text, parse_json
from clinebox.domain.one_line import CUT_MARK, excerpt, one_line

FAILURE_REPORT_HEADER: Final = "X-NG-Failure-Report"
HEADER_LIMIT_BYTES: Final = 8 * 1024
"""Of the value. Common servers and proxies refuse a header line above 8 KiB (nginx, Node, uvicorn's h11)."""
READ_LIMIT_BYTES: Final = 64 * 1024
"""A header that is longer is not read: no server of ours writes one."""
DROPPED_EVENTS: Final = "clinebox:dropped_events"
"""In the reported event's `details`: how many events the header had no room for."""
CUT_TO_FIT: Final = "clinebox:cut_to_fit"
"""In the reported event's `details`: its own details, and then its reason, had to give way."""
RENDERED_CAUSES: Final = 8

_MARKER_ROOM_BYTES: Final = 64
_MASKED: Final[Mask] = str
"""What an event holds was masked when it was built or read; here it is only bounded."""
_FIELDS: Final = frozenset(FailureEvent.__slots__)
_Member = TypeVar("_Member", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class DecodedReport:
    """What a header held: `report` is None when it was no report; `notes` say what was not usable."""

    report: FailureReport | None
    notes: tuple[str, ...] = ()


def encode_header(report: FailureReport) -> str:
    """The header's value: compact ASCII JSON of at most 8 KiB, without a control character.

    Older causes give way first (those farthest from what they caused), and `clinebox:dropped_events` in the
    reported event's details says how many. A single event that is too long loses its details, then the end
    of its reason, and says `clinebox:cut_to_fit`.
    """
    whole = _compact(report_to_json(report))
    if len(whole) <= HEADER_LIMIT_BYTES:
        return whole
    events = _newest_first(report)
    kept = _that_fit(events, HEADER_LIMIT_BYTES - len(_compact(_report_json(report.failure_id, ()))))
    shorter = (_compact(report_to_json(_only(events, count))) for count in range(kept, 0, -1))
    return next((text for text in shorter if len(text) <= HEADER_LIMIT_BYTES), None) or _single(events)


def decode_header(value: str | bytes, *, mask: Mask) -> DecodedReport:
    """Read a header's value: garbage gives no report and a note, never an exception.

    A malformed optional field is left out with a note; an event that cannot be one, a loose end or a circle
    of causes make the whole no report.
    """
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    if len(data) > READ_LIMIT_BYTES:
        return DecodedReport(
            None, (f"the failure report has {len(data)} bytes; {READ_LIMIT_BYTES} are read",)
        )
    parsed = parse_json(data)
    if not is_successful(parsed):
        reason = bounded_text(parsed.failure(), mask, 200)
        return DecodedReport(None, (f"the failure report is no JSON: {one_line(reason)}",))
    return report_from_json(parsed.unwrap(), mask=mask)


def report_to_json(report: FailureReport) -> JsonValue:
    """The report in WIRE's shape, whole."""
    return _report_json(report.failure_id, report.events.values())


def report_from_json(value: JsonValue, *, mask: Mask) -> DecodedReport:
    """Read a report in WIRE's shape from any JSON value; masked and bounded like a report of our own."""
    notes: list[str] = []
    events: dict[str, FailureEvent] = {}
    listed = as_mapping(as_mapping(value).get("events"))
    for key, body in listed.items():
        event = _event(key, as_mapping(body), mask, notes)
        if not is_successful(event):
            return DecodedReport(None, (*notes, event.failure()))
        events[key] = event.unwrap()
    failure_id = as_text(as_mapping(value).get("failure_id"))
    if failure_id is None or not events:
        return DecodedReport(None, ("the failure report is no {failure_id, events} with an event in it",))
    checked = validate(FailureReport(failure_id, events))
    if not is_successful(checked):
        return DecodedReport(None, (*notes, bounded_text(checked.failure(), mask, 200)))
    return DecodedReport(checked.unwrap(), tuple(notes))


def render_failure(report: FailureReport) -> str:
    """One line for people: `boundary: kind (HTTP 429): reason ← cause …`. Total, also over a loose report."""
    told = chain(report, report.failure_id)
    if not told:
        return f"a failure report without its event {excerpt(report.failure_id, 64)}"
    causes = [_rendered(event) for event in told[: RENDERED_CAUSES + 1]]
    if len(told) > len(causes):
        causes.append(f"… ({len(told) - len(causes)} older)")
    line = " ← ".join(causes)
    beside = len(report.events) - len(told)
    dropped = _dropped(told[0])
    line += f" (and {beside} more beside it)" if beside > 0 else ""
    return line + (f" ({dropped} did not fit)" if dropped else "")


def _rendered(event: FailureEvent) -> str:
    status = "" if event.http_status is None else f" (HTTP {event.http_status})"
    reason = one_line(event.failure_reason)
    return f"{event.boundary}: {event.failure_kind}{status}" + (f": {reason}" if reason else "")


def _compact(value: JsonValue) -> str:
    # DEL is the one control character that JSON writes as it is; RFC 9110 §5.5 keeps it out of a header.
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("\x7f", "\\u007f")


def _report_json(failure_id: str, events: Iterable[FailureEvent]) -> JsonValue:
    members: dict[str, JsonValue] = {_as_id(event.event_id): _event_json(event) for event in events}
    return {"failure_id": _as_id(failure_id), "events": members}


def _as_id(text: str) -> str:
    """A name as it is; bounded where it is none (an event that was not built by `build_report`)."""
    return bounded_text(text, _MASKED, ID_LIMIT_CHARS)


def _event_json(event: FailureEvent) -> JsonValue:
    # Bounded once more: an event that was not built by `build_report` may hold what JSON cannot say.
    return {
        "event_id": _as_id(event.event_id),
        "boundary": event.boundary.value,
        "failure_kind": _as_id(event.failure_kind),
        "failure_reason": bounded_text(event.failure_reason, _MASKED, REASON_LIMIT_CHARS),
        "stage": event.stage.value,
        "http_status": valid_http_status(event.http_status),
        "cause_id": None if event.cause_id is None else _as_id(event.cause_id),
        "details": bounded_json(dict(event.details), _MASKED),
    }


def _newest_first(report: FailureReport) -> list[FailureEvent]:
    """The reported event first, and every event before its cause: any beginning of it is closed upwards."""
    depths: dict[str, int] = {}
    for event_id in report.events:
        for depth, event in enumerate(chain(report, event_id)):
            if depths.get(event.event_id, -1) >= depth:
                break
            depths[event.event_id] = depth
    own = {event.event_id for event in chain(report, report.failure_id)}
    return sorted(
        report.events.values(),
        key=lambda event: (
            event.event_id != report.failure_id,
            depths[event.event_id],
            event.event_id not in own,
        ),
    )


def _that_fit(events: list[FailureEvent], room_bytes: int) -> int:
    """How many events of the beginning have room, with the marker that says how many had none."""
    sizes = (len(_compact({event.event_id: _event_json(event)})) - 1 for event in events)
    return sum(size <= room_bytes - _MARKER_ROOM_BYTES for size in accumulate(sizes))


def _only(events: list[FailureEvent], kept: int) -> FailureReport:
    ids = {event.event_id for event in events[:kept]}
    bound = {e.event_id: e if e.cause_id in ids else replace(e, cause_id=None) for e in events[:kept]}
    first = bound[events[0].event_id]
    told = {DROPPED_EVENTS: _dropped(first) + len(events) - kept, **_without_count(first)}
    return FailureReport(first.event_id, {**bound, first.event_id: replace(first, details=told)})


def _dropped(event: FailureEvent) -> int:
    """How many events an earlier header already had no room for."""
    return max(0, as_int(event.details.get(DROPPED_EVENTS)) or 0)


def _without_count(event: FailureEvent) -> dict[str, JsonValue]:
    return {key: value for key, value in event.details.items() if key != DROPPED_EVENTS}


def _single(events: list[FailureEvent]) -> str:
    """The reported event alone, without its details and with as much of its reason as has room."""
    marks: dict[str, JsonValue] = {CUT_TO_FIT: True, DROPPED_EVENTS: _dropped(events[0]) + len(events) - 1}
    bare = replace(events[0], failure_reason="", cause_id=None, details=marks)
    room = HEADER_LIMIT_BYTES - len(_compact(_report_json(bare.event_id, (bare,)))) - len("\\u2026")
    reason = bounded_text(events[0].failure_reason, _MASKED, REASON_LIMIT_CHARS)
    kept = sum(used <= room for used in accumulate(len(_compact(char)) - 2 for char in reason))
    shown = reason if kept == len(reason) else reason[:kept] + CUT_MARK
    return _compact(_report_json(bare.event_id, (replace(bare, failure_reason=shown),)))


def _event(
    key: str, body: Mapping[str, JsonValue], mask: Mask, notes: list[str]
) -> Result[FailureEvent, str]:
    """One event; Failure(sentence) when a field is missing or wrong that the event cannot be without."""
    boundary = _member(Boundary, body.get("boundary"))
    stage = _member(Stage, body.get("stage"))
    kind = as_text(body.get("failure_kind"))
    reason = as_text(body.get("failure_reason"))
    shown = excerpt(mask(key), 64)
    if not valid_event_id(key) or body.get("event_id") != key:
        return Failure(f"the failure report's event '{shown}' has no usable id of its own")
    if boundary is None or stage is None or kind is None or reason is None:
        return Failure(f"the failure report's event '{shown}' lacks a boundary, stage, kind or reason")
    event = FailureEvent(
        event_id=key,
        boundary=boundary,
        failure_kind=kind if known_kind(kind) else UNKNOWN_KIND,
        failure_reason=bounded_text(reason, mask, REASON_LIMIT_CHARS),
        stage=stage,
        http_status=valid_http_status(as_int(body.get("http_status"))),
        cause_id=as_text(body.get("cause_id")),
        details=event_details(as_mapping(body.get("details")), kind, mask),
    )
    notes.extend(_differences(event, body, reason, shown))
    return Success(event)


def _differences(
    event: FailureEvent, body: Mapping[str, JsonValue], reason: str, shown: str
) -> Iterable[str]:
    """What the event could not take over from the body, in sentences."""
    if event.http_status != body.get("http_status"):
        yield f"event '{shown}': http_status is no status, left out"
    if event.cause_id != body.get("cause_id"):
        yield f"event '{shown}': cause_id is no text, left out"
    if not isinstance(body.get("details"), dict | None):
        yield f"event '{shown}': details is no mapping, left out"
    if len(reason) > REASON_LIMIT_CHARS:
        yield f"event '{shown}': failure_reason had {len(reason)} characters, cut"
    unknown = sorted(set(body) - _FIELDS)
    if unknown:
        yield f"event '{shown}': unknown fields left out ({len(unknown)})"


def _member(kind: type[_Member], value: JsonValue) -> _Member | None:
    return next((member for member in kind if member.value == value), None)
