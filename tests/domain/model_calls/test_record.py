"""The record of a call: written, read back, and never trusted beyond what it says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.json_value import JsonValue
from clinebox.domain.model_calls.codec import call_from_json, call_to_json, model_call_lines
from clinebox.domain.model_calls.faults import FaultKind, fault_of
from clinebox.domain.model_calls.phases import last_wait, phase_at
from clinebox.domain.model_calls.reader import LINE_LIMIT_BYTES, ModelCallReader, parse_model_calls
from clinebox.domain.model_calls.record import (
    CallEnd,
    CallFlag,
    CallPhase,
    CallTimes,
    CallUsage,
    ModelCall,
    ObservedResponse,
    RequestFacts,
    UpstreamError,
)

COUNTS = st.none() | st.integers(0, 10**9)
MOMENTS = st.floats(0, 2e9)
TEXTS = st.none() | st.text(min_size=1, max_size=20)
CALLS = st.builds(
    ModelCall,
    number=st.integers(1, 10_000),
    path=st.sampled_from(["/chat/completions", "/v1/responses?x=1", "/models"]),
    times=st.builds(CallTimes, MOMENTS, *[st.none() | MOMENTS] * 4),
    method=st.sampled_from(["POST", "GET"]),
    request=st.builds(RequestFacts, TEXTS, st.none() | st.booleans(), st.none() | st.booleans(), COUNTS),
    recorded_at_s=st.none() | MOMENTS,
    phase=st.sampled_from(CallPhase),
    http_status=st.none() | st.integers(100, 999),
    end=st.none() | st.sampled_from(CallEnd),
    response=st.builds(
        ObservedResponse,
        TEXTS,
        st.none() | st.builds(CallUsage, COUNTS, COUNTS, COUNTS, COUNTS),
        TEXTS,
        TEXTS,
        st.integers(0, 99),
        st.booleans(),
        st.none()
        | st.builds(
            UpstreamError,
            st.none() | st.text(max_size=9),
            st.none() | st.integers(0, 999) | st.text(min_size=1, max_size=9),
        ),
        st.booleans(),
        st.frozensets(st.sampled_from(CallFlag)),
    ),
    request_bytes=st.integers(0, 10**9),
    response_bytes=st.integers(0, 10**9),
    sampling=st.dictionaries(st.text(max_size=5), st.floats(0, 2) | st.integers(0, 9), max_size=3),
    gateway_status=st.none() | st.integers(400, 504),
    gateway_error=TEXTS,
)
CALL = ModelCall(1, "/chat/completions", CallTimes(10.0))


@given(CALLS)
def test_a_call_is_read_back_as_it_was_written(call: ModelCall) -> None:
    assert call_from_json(json.loads(json.dumps(call_to_json(call, 1)))) == call


@given(st.lists(CALLS, max_size=6), st.lists(st.integers(0, 4_000), max_size=6))
def test_a_record_reads_alike_in_any_cuts(calls: list[ModelCall], cuts: list[int]) -> None:
    data = b"".join(model_call_lines([replace(call, number=n) for n, call in enumerate(calls, 1)]))
    reader = ModelCallReader()
    edges = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    for start, end in zip(edges, edges[1:], strict=False):  # noqa: RUF007 - none for a single edge
        reader.feed(data[start:end])
    facts = reader.finish()
    assert facts == parse_model_calls(data)
    assert (facts.is_whole, facts.calls, facts.bad_lines) == (True, len(calls), 0)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    facts = parse_model_calls(data)
    assert facts.is_whole == (facts.lines == 0)


@given(
    st.dictionaries(
        st.sampled_from([*call_to_json(CALL, 1)]),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=4)
        | st.lists(st.integers(), max_size=2),
        max_size=30,
    )
)
def test_members_of_any_type_are_dropped_or_read(changed: dict[str, JsonValue]) -> None:
    members = {**call_to_json(CALL, 1), **changed}
    call = call_from_json(members)
    if call is not None:
        assert call.number >= 1
        parse_model_calls(b"".join(model_call_lines([call])))


@pytest.mark.parametrize(
    "members",
    [
        {"number": 0},
        {"number": True},
        {"number": 1.0},
        {"number": -1},
        {"path": None},
        {"received_at_s": "1"},
        {"received_at_s": -1},
        {"received_at_s": float("inf")},
        {"received_at_s": 10**400},
    ],
)
def test_without_number_path_and_arrival_it_is_no_call(members: dict[str, JsonValue]) -> None:
    assert call_from_json({**call_to_json(CALL, 1), **members}) is None


def test_an_empty_record_is_whole_and_says_that_there_was_no_call() -> None:
    facts = parse_model_calls(b"")
    assert (facts.is_whole, facts.calls, facts.last) == (True, 0, None)


def test_a_glance_at_a_live_session_is_no_whole_record() -> None:
    line = json.dumps(call_to_json(CALL, None)).encode() + b"\n"
    assert not parse_model_calls(line).is_whole


def test_a_line_over_the_bound_is_counted_and_not_read() -> None:
    facts = parse_model_calls(b"x" * (LINE_LIMIT_BYTES + 1) + b"\n" + b"".join(model_call_lines([CALL])))
    assert (facts.oversized_lines, facts.calls, facts.is_whole) == (1, 1, False)


def test_facts_of_a_long_session_are_bounded() -> None:
    calls = [replace(CALL, number=n, http_status=500, end=CallEnd.FINISHED) for n in range(1, 3_001)]
    facts = parse_model_calls(model_call_lines(calls))
    assert facts.calls == 3_000
    assert max(len(facts.faulty), len(facts.unproductive), len(facts.recovered)) == 64


@pytest.mark.parametrize(
    ("times", "phase", "wait_s"),
    [
        (CallTimes(10.0), CallPhase.CONNECTING, 10.0),
        (CallTimes(10.0, 11.0), CallPhase.WAITING, 10.0),
        (CallTimes(10.0, 11.0, 12.0, 19.0), CallPhase.STREAMING, 1.0),
        (CallTimes(10.0, 11.0, 12.0, 14.0), CallPhase.IDLE, 6.0),
        (CallTimes(30.0), CallPhase.CONNECTING, 0.0),
    ],
)
def test_the_phase_and_the_wait_at_a_moment(times: CallTimes, phase: CallPhase, wait_s: float) -> None:
    assert phase_at(times, 20.0) is phase
    wait = last_wait(replace(CALL, times=times, recorded_at_s=20.0))
    assert (wait.phase, wait.wait_s) == (phase, wait_s)
    ended = replace(times, ended_at_s=20.0)
    assert phase_at(ended, 99.0) is CallPhase.ENDED
    assert last_wait(replace(CALL, times=ended, recorded_at_s=99.0)).phase is phase


def test_without_a_moment_no_wait_is_invented() -> None:
    assert last_wait(CALL).wait_s is None


@pytest.mark.parametrize(
    ("path", "asks"),
    [
        ("/chat/completions", True),
        ("/v1/chat/completions?beta=1", True),
        ("/v1/responses/", True),
        ("/v1/messages", True),
        ("/v1/models", False),
        ("/v1/responses/resp_1", False),
        ("/", False),
    ],
)
def test_only_what_asks_a_model_is_a_completion(path: str, *, asks: bool) -> None:
    assert replace(CALL, path=path).is_completion is asks


def test_a_record_without_its_sizes_has_zero_of_them_and_no_null() -> None:
    """The counts of bytes that passed are always numbers: an older gateway's record says nothing of them."""
    said = call_to_json(ModelCall(1, "/chat/completions", CallTimes(0.0)), 1)
    assert isinstance(said, dict)
    bare = {name: value for name, value in said.items() if not name.endswith("_bytes")}
    call = call_from_json(bare)
    assert call is not None
    assert (call.request_bytes, call.response_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (CallEnd.REFUSED, FaultKind.REFUSED),
        (CallEnd.TIMEOUT, FaultKind.TIMEOUT),
        (CallEnd.UPSTREAM_CLOSED, FaultKind.CUT),
        (CallEnd.CLIENT_CLOSED, FaultKind.ABANDONED),
        (CallEnd.FINISHED, FaultKind.CUT),
        (None, FaultKind.PENDING),
    ],
)
def test_a_call_without_a_status_is_what_its_end_says(end: CallEnd | None, kind: FaultKind) -> None:
    """Also of a record that names no status of the gateway's own."""
    call = ModelCall(1, "/chat/completions", CallTimes(0.0, ended_at_s=0.2), end=end)
    fault = fault_of(call)
    assert fault is not None
    assert fault.kind is kind
