"""What comes in the failure report's header is hostile: garbage, half reports, any depth (WIRE.md)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.failure_wire import (
    decode_header,
    report_from_json,
)
from clinebox.domain.failures import (
    validate,
)
from clinebox.domain.json_value import JsonValue

SECRET = "sk-live-0123456789"  # noqa: S105 - no credential, only its shape


def no_mask(text: str) -> str:
    return text


def mask(text: str) -> str:
    return text.replace(SECRET, "***")


TEXT = st.text(st.characters(), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)


def good_event(**changes: JsonValue) -> dict[str, JsonValue]:
    event: dict[str, JsonValue] = {
        "event_id": "e1",
        "boundary": "model",
        "failure_kind": "model_request_error",
        "failure_reason": "Too Many Requests",
        "stage": "agent",
        "http_status": 429,
        "cause_id": None,
        "details": {},
    }
    return {**event, **changes}


def header_of(event: JsonValue, failure_id: JsonValue = "e1") -> str:
    return json.dumps({"failure_id": failure_id, "events": {"e1": event}})


def report_of(event_id: str) -> str:
    """A report of one event that agrees with itself about its id."""
    return json.dumps({"failure_id": event_id, "events": {event_id: good_event(event_id=event_id)}})


@pytest.mark.parametrize(
    "garbage",
    [
        *("", " ", "null", "true", "1", '"text"', "[]", "{}", "{", "}", "{}{}", "\x00", "ÿ", "\ud800", "NaN"),
        *("<html><body>502 Bad Gateway</body></html>", '{"failure_id": "a"}', '{"events": {}}', "1" * 10_000),
        *(
            '{"failure_id": "a", "events": {}}',
            '{"failure_id": "a", "events": []}',
            "[" * 60_000,
            '{"a":' * 12_000,
        ),
        *('{"failure_id": 1, "events": {"e1": 1}}', "x" * 70_000),
        header_of(good_event(), failure_id="e2"),
        header_of(good_event(), failure_id=None),
        header_of(None),
        header_of([]),
        header_of("e1"),
        header_of(good_event(event_id="e2")),
        header_of(good_event(event_id=None)),
        *(report_of(event_id) for event_id in ("", " ", "a b", "\u00e9", "x" * 129)),
        header_of(good_event(boundary="moon")),
        header_of(good_event(boundary=["model"])),
        header_of(good_event(stage="later")),
        header_of(good_event(failure_kind=None)),
        header_of(good_event(failure_reason=7)),
        header_of(good_event(cause_id="e9")),
        header_of(good_event(cause_id="e1")),
    ],
)
def test_garbage_decodes_to_nothing_with_a_note(garbage: str) -> None:
    """Issue: "garbage headers decode to nothing with a note"."""
    decoded = decode_header(garbage, mask=no_mask)
    assert decoded.report is None
    assert decoded.notes
    assert all(0 < len(note) <= 300 and note.isprintable() for note in decoded.notes)


@given(st.binary(max_size=200))
def test_any_bytes_decode_to_a_report_or_to_nothing_with_a_note(header: bytes) -> None:
    """Issue: "garbage headers decode to nothing with a note"; nothing raises."""
    decoded = decode_header(header, mask=no_mask)
    assert (decoded.report is None) == bool(decoded.notes)


@given(JSON, st.sampled_from(list(good_event())))
def test_any_json_in_any_field_gives_a_valid_report_or_a_note(value: JsonValue, field: str) -> None:
    """Any JSON value gives a value or a note, never an exception; what is given back is valid."""
    decoded = report_from_json(
        {"failure_id": "e1", "events": {"e1": good_event(**{field: value})}}, mask=no_mask
    )
    assert decoded.report is not None or decoded.notes
    if decoded.report is not None:
        assert validate(decoded.report).unwrap() == decoded.report


@pytest.mark.parametrize("field", list(good_event()))
def test_any_depth_in_any_field_is_no_exception(field: str) -> None:
    deep: JsonValue = "core"
    for _ in range(50_000):
        deep = [deep]
    decoded = report_from_json(
        {"failure_id": "e1", "events": {"e1": good_event(**{field: deep})}}, mask=no_mask
    )
    assert decoded.notes


@pytest.mark.parametrize(
    ("changes", "kept", "note"),
    [
        ({"http_status": "429"}, {"http_status": None}, "event 'e1': http_status is no status, left out"),
        ({"http_status": True}, {"http_status": None}, "event 'e1': http_status is no status, left out"),
        ({"http_status": 7}, {"http_status": None}, "event 'e1': http_status is no status, left out"),
        ({"cause_id": 5}, {"cause_id": None}, "event 'e1': cause_id is no text, left out"),
        ({"details": [1]}, {"details": {}}, "event 'e1': details is no mapping, left out"),
        ({"colour": "red"}, {}, "event 'e1': unknown fields left out (1)"),
        (
            {"failure_reason": "x" * 2_001},
            {"failure_reason": "x" * 1_999 + "…"},
            "event 'e1': failure_reason had 2001 characters, cut",
        ),
    ],
)
def test_a_malformed_optional_field_is_left_out_with_a_note(
    changes: dict[str, JsonValue], kept: dict[str, JsonValue], note: str
) -> None:
    decoded = decode_header(header_of(good_event(**changes)), mask=no_mask)
    assert decoded.notes == (note,)
    clean = decode_header(header_of(good_event(**{**changes, **kept, "colour": None})), mask=no_mask)
    assert decoded.report == clean.report


def test_absent_optional_fields_need_no_note() -> None:
    event = {
        key: value for key, value in good_event().items() if key not in {"http_status", "cause_id", "details"}
    }
    assert decode_header(header_of(event), mask=no_mask).notes == ()


def test_what_comes_from_the_wire_is_masked_like_our_own() -> None:
    body = good_event(failure_reason=SECRET, failure_kind=SECRET, details={SECRET: [SECRET]})
    decoded = decode_header(header_of(body), mask=mask)
    assert decoded.report is not None
    assert SECRET not in repr(decoded)


def test_a_note_about_a_foreign_id_is_masked() -> None:
    assert SECRET not in repr(
        decode_header(json.dumps({"failure_id": "x", "events": {SECRET: 1}}), mask=mask)
    )


def test_a_header_is_read_up_to_64_kibibytes() -> None:
    longest = header_of(good_event()) + " " * (65_536 - len(header_of(good_event())))
    assert decode_header(longest, mask=no_mask).report is not None
    assert decode_header(longest + " ", mask=no_mask).notes == (
        "the failure report has 65537 bytes; 65536 are read",
    )
