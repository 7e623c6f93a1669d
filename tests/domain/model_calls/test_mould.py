"""A stream's text events known by their common form say what they say when each is parsed."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.model_calls.faults import FaultKind, fault_of
from clinebox.domain.model_calls.mould import Mould, learnt
from clinebox.domain.model_calls.observer import ResponseObserver
from clinebox.domain.model_calls.record import CallEnd, CallTimes, ModelCall, ObservedResponse

HEAD, TAIL = (
    b'data: {"id":"c","model":"m","choices":[{"delta":{"content":"',
    b'"},"finish_reason":null}]}\n\n',
)
MOULD = Mould(HEAD, TAIL)


def event(text: str, finish: str | None = None, **extra: object) -> bytes:
    choice = {"delta": {"content": text}, "finish_reason": finish}
    body = {"id": "c", "model": "m", "choices": [choice], **extra}
    return b"data: " + json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


def observe(*chunks: bytes) -> ObservedResponse:
    observer = ResponseObserver()
    for chunk in chunks:
        observer.feed(chunk)
    observer.finish()
    return observer.facts()


OTHERS = (
    event("x", "stop"),
    event("", "length"),
    event("x", usage={"prompt_tokens": 3, "completion_tokens": 4}),
    event("x", error={"message": "out of memory", "code": 500}),
    b'data: {"error":{"message":"gone","code":503}}\n\n',
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0}]},"finish_reason":null}]}\n\n',
    b'data: {"id":"other","model":"m","choices":[{"delta":{"content":"a"},"finish_reason":null}]}\n\n',
    b": a comment\n\n",
    b"data: [DONE]\n\n",
    b"data: no JSON\n\n",
    b'event: error\ndata: {"type":"error","message":"late"}\n\n',
)
TEXTS = st.text(max_size=12) | st.sampled_from(
    ["", '"', "\\", "\\n", '\\"', "\n", '","finish_reason":"stop', "{}"]
)


@given(
    st.lists(TEXTS.map(event) | st.sampled_from(OTHERS), max_size=25),
    st.lists(st.integers(1, 2_000), max_size=8),
)
def test_a_stream_says_the_same_in_big_chunks_as_byte_by_byte(events: list[bytes], cuts: list[int]) -> None:
    """SPEC §11: the gateway "reads what passes without changing it", in any chunking of SSE."""
    whole = event("one") + event("two") + b"".join(events)
    places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    chunks = [whole[start:end] for start, end in pairwise(places)]
    slowly = observe(*(whole[at : at + 1] for at in range(len(whole))))
    assert observe(*chunks) == slowly
    assert observe(event("one"), event("two"), whole) == slowly


@given(st.lists(st.text(st.characters(exclude_characters='"\\\r\n', codec="utf-8")), min_size=1))
def test_texts_without_a_quote_fit_the_form_that_one_of_them_has(texts: list[str]) -> None:
    """What an event teaches holds for its like: `head text tail head text tail …`."""
    mould = learnt(event("first")[6:-2])
    assert mould == MOULD
    assert mould.fits(b"".join(map(event, texts)))


@pytest.mark.parametrize("other", OTHERS)
def test_no_other_event_hides_among_texts(other: bytes) -> None:
    for place in range(4):
        texts = [event("a"), event("b"), event("c")]
        texts.insert(place, other)
        assert not MOULD.fits(b"".join(texts))


@pytest.mark.parametrize("data", [b"", HEAD, TAIL, HEAD[:-1] + TAIL, HEAD + b"a", b"a" + TAIL])
def test_half_an_event_does_not_fit(data: bytes) -> None:
    assert not MOULD.fits(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b'{"choices":[]}', b'{"delta":{"content":"with \\" quote"}}', b'{"content":"a"}' * 999],
)
def test_nothing_is_learnt_from_an_event_without_a_plain_text(data: bytes) -> None:
    assert learnt(data) is None


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_bytes_teach_and_fit_without_an_exception(data: bytes, events: bytes) -> None:
    mould = learnt(data)
    assert (mould or MOULD).fits(events) in (True, False)


@pytest.mark.parametrize("status", [300, 301, 302, 307, 308, 399])
@pytest.mark.parametrize("gateway_status", [None, 502])
def test_a_redirect_is_its_own_fault_whoever_answered_it(status: int, gateway_status: int | None) -> None:
    end = CallEnd.FINISHED if gateway_status is None else CallEnd.REFUSED
    call = ModelCall(
        1,
        "/v1/chat/completions",
        CallTimes(0.0, ended_at_s=1.0),
        http_status=status,
        end=end,
        gateway_status=gateway_status,
    )
    found = fault_of(call)
    assert found is not None
    assert (found.kind, found.field) == (FaultKind.REDIRECT, "http_status")


def test_a_status_of_our_own_without_one_of_the_model_is_no_redirect() -> None:
    call = ModelCall(1, "/v1/chat/completions", CallTimes(0.0), end=CallEnd.REFUSED, gateway_status=502)
    assert getattr(fault_of(call), "kind", None) is FaultKind.REFUSED
