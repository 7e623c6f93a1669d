"""The failure report in the reply header and on one line (SPEC §3, WIRE.md "Failures on the wire")."""

from __future__ import annotations

import json
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from clinebox.domain.failure_wire import (
    CUT_TO_FIT,
    DROPPED_EVENTS,
    HEADER_LIMIT_BYTES,
    DecodedReport,
    decode_header,
    encode_header,
    render_failure,
    report_from_json,
    report_to_json,
)
from clinebox.domain.failures import (
    Boundary,
    Cause,
    FailureEvent,
    FailureReport,
    Stage,
    build_report,
    chain,
    merge,
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
CAUSES = st.builds(
    Cause,
    boundary=st.sampled_from(Boundary),
    kind=st.sampled_from(["agent_timeout", "clinebox:sandbox", "Strange Kind"]) | TEXT,
    reason=TEXT,
    stage=st.sampled_from(Stage),
    http_status=st.none() | st.integers(100, 599),
    details=st.dictionaries(TEXT, JSON, max_size=3),
    event_id=st.none() | st.sampled_from(["a", "b", "\\u007f"]),
)


def report_of(causes: list[Cause], occurrence: str = "s-1") -> FailureReport:
    return build_report(causes[0], *causes[1:], occurrence=occurrence, mask=no_mask)


REPORTS = st.builds(report_of, st.lists(CAUSES, min_size=1, max_size=4), TEXT)
LONG_CAUSES = st.builds(
    Cause,
    boundary=st.sampled_from(Boundary),
    kind=st.just("agent_run_error"),
    reason=st.sampled_from(["x", "é", "😀", '"', "\x7f"]).flatmap(
        lambda char: st.integers(0, 2_500).map(lambda count: char * count)
    ),
    stage=st.sampled_from(Stage),
    details=st.sampled_from([{}, {"log": "y" * 1_900}, {str(n): n for n in range(64)}]),
)
LONG_REPORTS = st.builds(report_of, st.lists(LONG_CAUSES, min_size=1, max_size=12), TEXT)


@given(REPORTS | st.builds(merge, REPORTS, REPORTS))
def test_decoding_what_was_encoded_gives_the_same_report(report: FailureReport) -> None:
    """Issue: "decode∘encode is identity within the bound"."""
    header = encode_header(report)
    assert len(header) <= HEADER_LIMIT_BYTES
    whole = json.dumps(report_to_json(report), separators=(",", ":")).replace("\x7f", "\\u007f")
    if len(whole) <= HEADER_LIMIT_BYTES:
        assert decode_header(header, mask=no_mask) == DecodedReport(report)
        assert decode_header(header.encode(), mask=no_mask) == DecodedReport(report)


@given(REPORTS)
def test_json_and_back_is_the_same_report(report: FailureReport) -> None:
    assert report_from_json(report_to_json(report), mask=no_mask) == DecodedReport(report)


@given(LONG_REPORTS | st.builds(merge, LONG_REPORTS, LONG_REPORTS))
def test_a_header_is_printable_ascii_of_at_most_eight_kibibytes(report: FailureReport) -> None:
    """Issue: "header encode/decode with a bound of 8 KiB (older causes dropped first, and that is said)"."""
    header = encode_header(report)
    assert len(header) <= HEADER_LIMIT_BYTES
    assert set(header) <= set(string.printable) - set("\t\n\r\x0b\x0c")
    decoded = decode_header(header, mask=no_mask)
    assert decoded.notes == ()
    assert decoded.report is not None
    kept, whole = decoded.report.events, report.events
    assert set(kept) <= set(whole)
    told = kept[decoded.report.failure_id]
    assert decoded.report.failure_id == report.failure_id
    if len(kept) < len(whole):
        assert told.details[DROPPED_EVENTS] == len(whole) - len(kept)
    elif CUT_TO_FIT not in told.details:
        assert decoded.report == report
    effects_kept = [whole[key].cause_id in kept for key in kept if whole[key].cause_id]
    linked = [kept[key].cause_id is not None for key in kept if whole[key].cause_id]
    assert effects_kept == linked


def test_the_bound_is_eight_kibibytes_and_is_used_up() -> None:
    """Issue: "header encode/decode with a bound of 8 KiB"."""
    room = 8_192 - len(encode_header(report_of([Cause(Boundary.AGENT, "unknown", "", Stage.AGENT)])))
    details: dict[str, JsonValue] = {"log": ["y" * 1_900] * 4}
    padding = room - len(json.dumps(details, separators=(",", ":"))) + len("{}")
    fits = report_of([Cause(Boundary.AGENT, "unknown", "x" * padding, Stage.AGENT, details=details)])
    over = report_of([Cause(Boundary.AGENT, "unknown", "x" * (padding + 1), Stage.AGENT, details=details)])
    assert len(encode_header(fits)) == 8_192
    assert decode_header(encode_header(fits), mask=no_mask) == DecodedReport(fits)
    assert CUT_TO_FIT in encode_header(over)


@given(LONG_REPORTS)
def test_older_causes_are_dropped_first(report: FailureReport) -> None:
    """What stays of a chain is its beginning: the failure, then its nearest causes."""
    decoded = decode_header(encode_header(report), mask=no_mask).report
    assert decoded is not None
    whole = [event.event_id for event in chain(report, report.failure_id)]
    kept = [event.event_id for event in chain(decoded, decoded.failure_id)]
    assert kept == whole[: len(kept)]
    assert len(kept) == len(decoded.events)


@given(LONG_REPORTS)
def test_another_hop_changes_nothing_more(report: FailureReport) -> None:
    """A proxy that decodes and encodes again sends the very same header."""
    once = encode_header(report)
    decoded = decode_header(once, mask=no_mask).report
    assert decoded is not None
    assert encode_header(decoded) == once


def test_events_dropped_by_two_hops_are_counted_together() -> None:
    causes = [Cause(Boundary.AGENT, "agent_run_error", "x" * 2_000, Stage.AGENT)] * 8
    once = decode_header(encode_header(report_of(causes)), mask=no_mask).report
    assert once is not None
    first_drop = once.events[once.failure_id].details[DROPPED_EVENTS]
    twice = decode_header(encode_header(merge(once, report_of(causes, "s-2"))), mask=no_mask).report
    assert twice is not None
    assert isinstance(first_drop, int)
    assert twice.events[twice.failure_id].details[DROPPED_EVENTS] == first_drop + len(once.events) + 8 - len(
        twice.events
    )


@pytest.mark.parametrize("char", ["x", "é", "😀", '"', "\x7f", "\n"])
def test_one_event_that_is_too_long_keeps_its_place_and_says_what_it_lost(char: str) -> None:
    details: dict[str, JsonValue] = {"log": [char * 2_000] * 8}
    failure = Cause(Boundary.MODEL, "model_request_error", char * 2_000, Stage.AGENT, 429, details)
    report = report_of([failure])
    header = encode_header(report)
    assert HEADER_LIMIT_BYTES - 32 <= len(header) <= HEADER_LIMIT_BYTES or char in 'x"\x7f\n'
    decoded = decode_header(header, mask=no_mask).report
    assert decoded is not None
    event = decoded.events[report.failure_id]
    assert event.details == {CUT_TO_FIT: True, DROPPED_EVENTS: 0}
    assert (event.http_status, event.failure_kind) == (429, "model_request_error")
    assert event.failure_reason.rstrip("…").strip(char) == ""


def loose(**changes: str | None) -> FailureEvent:
    event = FailureEvent("e1", Boundary.AGENT, "unknown", "why", Stage.AGENT)
    return replace(event, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "report",
    [
        FailureReport("none", {}),
        FailureReport("n" * 9_000, {}),
        FailureReport("none", {"e1": loose()}),
        FailureReport("e1", {"e1": loose(cause_id="e1")}),
        FailureReport("e1", {"e1": loose(cause_id="e2"), "e2": loose(event_id="e2", cause_id="e1")}),
        FailureReport(
            "e1", {"e1": loose(event_id="😀" * 9_000, failure_kind="😀" * 9_000, failure_reason="😀" * 9_000)}
        ),
        FailureReport("e1", {"e1": loose(failure_reason="x" * 9_000, cause_id="é" * 9_000)}),
    ],
)
def test_a_report_that_validation_refuses_still_has_a_bounded_header_and_a_line(
    report: FailureReport,
) -> None:
    header = encode_header(report)
    assert len(header) <= HEADER_LIMIT_BYTES
    assert header.isascii()
    assert header.isprintable()
    assert decode_header(header, mask=no_mask).report in (None, report)
    assert render_failure(report).isprintable()


def told(boundary: Boundary, kind: str, reason: str, status: int | None = None) -> Cause:
    return Cause(boundary, kind, reason, Stage.AGENT, status)


RATE_LIMITED = [
    told(Boundary.HARNESS, "agent_run_error", "Cline ended with an error"),
    told(Boundary.MODEL, "model_request_error", "Too Many Requests\nretry later", 429),
]

BULKY = [
    replace(told(Boundary.AGENT, "unknown", f"cause {n}"), details={"log": ["y" * 1_900] * 3})
    for n in range(3)
]


def test_the_reported_event_keeps_its_details_where_only_its_causes_have_no_room() -> None:
    report = report_of(BULKY)
    decoded = decode_header(encode_header(report), mask=no_mask).report
    assert decoded is not None
    event, whole = decoded.events[report.failure_id], report.events[report.failure_id]
    assert event == replace(whole, cause_id=None, details={DROPPED_EVENTS: 2, **whole.details})


def test_a_failure_is_one_line_for_people(snapshot: SnapshotAssertion) -> None:
    """SPEC §3: "boundary: kind (HTTP 429): reason ← cause …"."""
    lines = {
        "alone": render_failure(
            report_of([told(Boundary.MODEL, "model_request_error", "Too Many Requests", 429)])
        ),
        "with its cause": render_failure(report_of(RATE_LIMITED)),
        "without a reason": render_failure(report_of([told(Boundary.COLLECTION, "cancelled", "")])),
        "a long chain": render_failure(
            report_of([told(Boundary.AGENT, "unknown", f"cause {n}") for n in range(12)])
        ),
        "a recovered failure beside it": render_failure(
            merge(
                report_of(RATE_LIMITED),
                report_of([told(Boundary.ENVIRONMENT, "clinebox:sandbox", "slow stop")]),
            )
        ),
        "what had no room": render_failure(
            decode_header(
                encode_header(report_of(BULKY)),
                mask=no_mask,
            ).report
            or report_of(RATE_LIMITED)
        ),
        "hostile text": render_failure(
            report_of([told(Boundary.AGENT, "unknown", "a\r\n\x1b[2Jb\u2028c\u202ed\x00")])
        ),
    }
    assert lines == snapshot


@given(REPORTS | LONG_REPORTS)
def test_a_rendered_failure_is_one_printable_line(report: FailureReport) -> None:
    """SPEC §3: "rendering one line for people"."""
    line = render_failure(report)
    assert line.isprintable()
    assert line.startswith(report.events[report.failure_id].boundary.value + ": ")
