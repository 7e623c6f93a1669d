"""Failure events, reports, merging and validation (SPEC §3, WIRE.md "Failures on the wire")."""

from __future__ import annotations

import doctest
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.domain.failures import (
    REASON_LIMIT_CHARS,
    REGISTERED_KINDS,
    REPORTED_ID,
    REPORTED_KIND,
    Boundary,
    Cause,
    FailureEvent,
    FailureReport,
    Stage,
    build_report,
    chain,
    known_kind,
    merge,
    validate,
)
from clinebox.domain.json_value import JsonValue

SECRET = "sk-live-0123456789"  # noqa: S105 - no credential, only its shape


def no_mask(text: str) -> str:
    return text


def mask(text: str) -> str:
    return text.replace(SECRET, "***")


TEXT = st.text(st.characters(), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
KINDS = st.sampled_from(sorted(REGISTERED_KINDS)) | st.just("clinebox:no_run_result") | TEXT
IDS = st.none() | st.sampled_from(["a", "b", "c"]) | TEXT
CAUSES = st.builds(
    Cause,
    boundary=st.sampled_from(Boundary),
    kind=KINDS,
    reason=TEXT,
    stage=st.sampled_from(Stage),
    http_status=st.none() | st.integers(-1, 1_000),
    details=st.dictionaries(TEXT, JSON, max_size=3),
    event_id=IDS,
)
CHAINS = st.lists(CAUSES, min_size=1, max_size=5)


def report_of(causes: list[Cause], occurrence: str = "s-1") -> FailureReport:
    return build_report(causes[0], *causes[1:], occurrence=occurrence, mask=no_mask)


REPORTS = st.builds(report_of, CHAINS, TEXT)


def cause(reason: str = "boom", kind: str = "agent_run_error", **more: str) -> Cause:
    return Cause(Boundary.HARNESS, kind, reason, Stage.AGENT, **more)  # type: ignore[arg-type]


@given(CHAINS, TEXT)
def test_a_report_of_any_chain_is_valid_and_holds_every_cause_in_order(
    causes: list[Cause], occurrence: str
) -> None:
    """WIRE.md: "events keyed by id, every cause_id resolving inside it, no cycles"."""
    report = report_of(causes, occurrence)
    assert is_successful(validate(report))
    told = chain(report, report.failure_id)
    assert [event.boundary for event in told] == [one.boundary for one in causes]
    assert len(report.events) == len(causes)


@given(CHAINS)
def test_ids_are_a_function_of_content_and_occurrence(causes: list[Cause]) -> None:
    """Randomness stays outside: the same chain of the same occurrence is the same report."""
    unnamed = [replace(one, event_id=None) for one in causes]
    assert report_of(unnamed) == report_of(unnamed)
    assert not set(report_of(unnamed).events) & set(report_of(unnamed, "s-2").events)


@given(CHAINS)
def test_what_was_built_can_be_written_as_strict_json(causes: list[Cause]) -> None:
    """No NaN, no lone surrogate, no number that Python refuses to write, whatever the details held."""
    for event in report_of(causes).events.values():
        text = json.dumps(dict(event.details), allow_nan=False, ensure_ascii=False)
        assert json.loads(text.encode("utf-8")) == event.details


@given(REPORTS, REPORTS, REPORTS)
def test_merging_is_associative(first: FailureReport, second: FailureReport, third: FailureReport) -> None:
    """Issue: "Reports: merge is associative and idempotent"."""
    left = merge(merge(first, second), third)
    right = merge(first, merge(second, third))
    assert left == right
    assert list(left.events) == list(right.events)


@given(REPORTS, REPORTS)
def test_merging_is_idempotent_and_loses_no_event(first: FailureReport, second: FailureReport) -> None:
    """Issue: "Reports: merge is associative and idempotent"."""
    both = merge(first, second)
    assert merge(first, first) == first
    assert merge(both, second) == both
    assert merge(both, first) == both
    assert set(both.events) == set(first.events) | set(second.events)
    assert both.failure_id == first.failure_id


@given(REPORTS, REPORTS)
def test_a_merge_of_valid_reports_is_valid_also_where_ids_collide(
    first: FailureReport, second: FailureReport
) -> None:
    """WIRE.md: "every cause_id resolving inside it, no cycles" (the ids a, b, c are drawn by both)."""
    assert is_successful(validate(merge(first, second)))


def test_two_reports_that_contradict_each_other_make_no_circle() -> None:
    a_by_b = report_of([cause("a", event_id="a"), cause("b", event_id="b")])
    b_by_a = report_of([cause("b", event_id="b"), cause("a", event_id="a")])
    assert is_successful(validate(merge(a_by_b, b_by_a)))
    assert chain(merge(a_by_b, b_by_a), "a") == chain(a_by_b, "a")


@given(CHAINS, st.text(st.sampled_from("ab:"), max_size=5))
def test_no_secret_survives_in_any_field_of_a_report(causes: list[Cause], around: str) -> None:
    """SPEC §3: "Reasons are bounded at 2,000 characters and masked"; §6: "masked before anything leaves"."""
    dirty = around + SECRET + around
    details: dict[str, JsonValue] = {dirty: dirty, "in": [{"deep": dirty, dirty: 1}]}
    leaky = [
        replace(one, reason=dirty, kind=dirty, event_id=SECRET, details={**one.details, **details})
        for one in causes
    ]
    report = build_report(leaky[0], *leaky[1:], occurrence=SECRET, mask=mask)
    assert SECRET not in repr(report)
    assert is_successful(validate(report))


def test_a_secret_at_the_cut_is_masked_before_it_is_cut() -> None:
    long = "x" * (REASON_LIMIT_CHARS - 5) + SECRET
    event = build_report(cause(long), occurrence="", mask=mask)
    reason = next(iter(event.events.values())).failure_reason
    assert len(reason) == REASON_LIMIT_CHARS - 2
    assert reason.endswith("xx***")


@pytest.mark.parametrize("length", [0, 1, 1_999, 2_000, 2_001, 1_000_000])
def test_a_reason_has_two_thousand_characters_at_most(length: int) -> None:
    reason = next(iter(report_of([cause("é" * length)]).events.values())).failure_reason
    assert len(reason) == min(length, REASON_LIMIT_CHARS)
    assert reason.endswith("…") == (length > REASON_LIMIT_CHARS)


@pytest.mark.parametrize(
    "kind", [*sorted(REGISTERED_KINDS), "clinebox:no_run_result", "clinebox:sandbox", "harbor:agent_setup"]
)
def test_a_registered_or_namespaced_kind_stands_by_its_name(kind: str) -> None:
    event = next(iter(report_of([cause(kind=kind)]).events.values()))
    assert event.failure_kind == kind
    assert event.details == {}


@pytest.mark.parametrize(
    "kind",
    [
        *(
            "",
            "AgentTimeout",
            "agent_timeout ",
            "agent_timeout\n",
            "clinebox:",
            ":x",
            "clinebox:no run",
            "a:b:c",
        ),
        *("clinebox:x\n", "ünknown", "clinebox:ä", "Clinebox:x", "clinebox:" + "x" * 65, "\x00", "\ud800"),
    ],
)
def test_any_other_kind_is_unknown_and_stays_to_be_read(kind: str) -> None:
    assert not known_kind(kind)
    event = next(iter(report_of([cause(kind=kind)]).events.values()))
    assert event.failure_kind == "unknown"
    assert event.details[REPORTED_KIND] == ("?" if kind == "\ud800" else kind)


def test_the_original_ids_of_causes_are_kept() -> None:
    report = report_of([cause("late"), cause("provider", event_id="0f3c-provider")])
    assert "0f3c-provider" in report.events
    assert report.events[report.failure_id].cause_id == "0f3c-provider"


@pytest.mark.parametrize("bad_id", ["", "two words", "x\ny", "x" * 129, "é", "\x00"])
def test_an_id_that_can_be_none_is_replaced_and_told(bad_id: str) -> None:
    event = next(iter(report_of([cause(event_id=bad_id)]).events.values()))
    assert event.event_id != bad_id
    told = event.details[REPORTED_ID]
    assert isinstance(told, str)
    assert told.startswith(bad_id[:127])


def test_an_id_given_twice_names_the_deepest_cause_only() -> None:
    report = report_of([cause("outer", event_id="x"), cause("root", event_id="x")])
    assert [event.failure_reason for event in chain(report, report.failure_id)] == ["outer", "root"]
    assert report.events["x"].failure_reason == "root"


def test_two_equal_causes_in_one_chain_are_two_events() -> None:
    assert len(report_of([cause(), cause(), cause()]).events) == 3


def test_an_id_that_foresees_a_hash_takes_nobody_s_place() -> None:
    plain = report_of([cause("outer"), cause("root", event_id="r")])
    twin = report_of([cause("outer"), cause("root", event_id="r"), cause("x", event_id=plain.failure_id)])
    assert is_successful(validate(twin))
    assert len(twin.events) == 3


@pytest.mark.parametrize(
    ("given_status", "kept"), [(None, None), (99, None), (100, 100), (599, 599), (600, None)]
)
def test_an_http_status_is_one_or_nothing(given_status: int | None, kept: int | None) -> None:
    event = next(iter(report_of([replace(cause(), http_status=given_status)]).events.values()))
    assert event.http_status == kept


def hand_made(*events: tuple[str, str | None]) -> FailureReport:
    made = {
        name: FailureEvent(name, Boundary.AGENT, "unknown", "x", Stage.AGENT, cause_id=cause_id)
        for name, cause_id in events
    }
    return FailureReport(events[0][0] if events else "none", made)


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (hand_made(), "failure_id 'none' names no event of the report"),
        (hand_made(("a", "b")), "cause_id 'b' names no event of the report"),
        (hand_made(("a", "a")), "the causes of 'a' run in a circle"),
        (hand_made(("a", "b"), ("b", "c"), ("c", "b")), "the causes of 'b' run in a circle"),
        (hand_made(("a", None), ("b", "c"), ("c", "b")), "the causes of 'b' run in a circle"),
        (hand_made(("a b", None)), "the event under 'a b' calls itself 'a b'"),
        (
            FailureReport("x", {"x": hand_made(("a", None)).events["a"]}),
            "the event under 'x' calls itself 'a'",
        ),
    ],
)
def test_a_loose_or_circular_report_is_refused(report: FailureReport, sentence: str) -> None:
    assert validate(report).failure() == sentence


def test_a_long_chain_and_a_shared_cause_are_fine() -> None:
    long = hand_made(*((str(n), str(n + 1)) for n in range(5_000)), ("5000", None))
    assert is_successful(validate(long))
    assert len(chain(long, "0")) == 5_001
    assert is_successful(validate(hand_made(("a", "c"), ("b", "c"), ("c", None))))


def test_the_documentation_s_examples_are_true() -> None:
    document = Path(__file__).parents[2] / "docs" / "failures.md"
    result = doctest.testfile(str(document), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
