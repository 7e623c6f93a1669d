"""What upstreams do differently, and what the observer makes of it."""

from __future__ import annotations

import json

import pytest

from clinebox.domain.model_calls.observer import ResponseObserver
from clinebox.domain.model_calls.record import CallFlag, CallUsage, ObservedResponse, UpstreamError

ID: dict[str, object] = {"id": "chatcmpl-1", "model": "qwen", "object": "chat.completion.chunk"}


def chunk(delta: object = None, finish: str | None = None, **extra: object) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return text({**ID, "choices": [choice], **extra})


def text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def sse(*events: bytes) -> bytes:
    return b"".join(b"data: " + event + b"\n\n" for event in events)


def observe(data: bytes, *, streamed: bool = True) -> ObservedResponse:
    observer = ResponseObserver(streamed_hint=streamed)
    observer.feed(data)
    observer.finish()
    return observer.facts()


def test_a_server_that_sends_no_usage_has_no_counts_and_a_flag() -> None:
    seen = observe(sse(chunk({"content": "x"}), chunk({}, "stop"), b"[DONE]"))
    assert seen.usage is None
    assert seen.flags == {CallFlag.NO_USAGE}


def test_of_usage_in_every_chunk_the_last_counts() -> None:
    running = [
        chunk({"content": "x"}, usage={"prompt_tokens": 7, "completion_tokens": n}) for n in range(1, 9)
    ]
    assert observe(sse(*running)).usage == CallUsage(prompt_tokens=7, completion_tokens=8)


@pytest.mark.parametrize("word", ["abort", "error", "length", "content_filter", "weird"])
def test_any_finish_reason_is_kept_as_it_is(word: str) -> None:
    assert observe(sse(chunk({"content": "x"}), chunk({}, word), b"[DONE]")).finish_reason == word


@pytest.mark.parametrize(
    ("error", "read", "status"),
    [
        ({"error": {"message": "boom", "type": "e", "code": 503}}, UpstreamError("boom", 503), 503),
        ({"error": {"message": "boom", "code": "rate_limit"}}, UpstreamError("boom", "rate_limit"), None),
        ({"error": {"message": "boom", "code": "503"}}, UpstreamError("boom", "503"), None),
        ({"error": {"message": "boom", "code": 200}}, UpstreamError("boom", 200), None),
        ({"error": {"message": "boom", "code": 600}}, UpstreamError("boom", 600), None),
        ({"error": {"message": "HTTP 503", "code": True}}, UpstreamError("HTTP 503", None), None),
        ({"error": "boom"}, UpstreamError("boom", None), None),
        ({"object": "error", "message": "boom", "code": 400}, UpstreamError("boom", 400), 400),
        ({"type": "error", "message": "boom", "code": "x"}, UpstreamError("boom", "x"), None),
    ],
)
def test_an_error_object_in_the_stream_is_kept_with_the_status_of_an_integer_code(
    error: object, read: UpstreamError, status: int | None
) -> None:
    seen = observe(sse(chunk({"content": "x"}), text(error)))
    assert seen.error == read
    assert seen.error.status == status


def test_a_null_error_beside_an_answer_is_none() -> None:
    assert observe(sse(chunk({"content": "x"}, "stop", error=None))).error is None


@pytest.mark.parametrize(
    "delta", [{}, {"role": "assistant"}, {"content": ""}, {"content": None}, {"tool_calls": []}]
)
def test_an_empty_delta_is_no_output(delta: object) -> None:
    assert not observe(sse(chunk(delta), chunk({}, "stop"))).produced_output


@pytest.mark.parametrize(
    "delta", [{"content": " "}, {"reasoning": "x"}, {"reasoning_content": "x"}, {"refusal": "x"}]
)
def test_text_reasoning_and_refusal_are_output(delta: object) -> None:
    assert observe(sse(chunk(delta))).produced_output


def test_a_json_body_is_an_answer_only_to_who_asked_for_one() -> None:
    body = text(
        {**ID, "choices": [{"message": {"content": "x", "tool_calls": [{}, {}]}, "finish_reason": "stop"}]}
    )
    seen = observe(body, streamed=False)
    assert (seen.finish_reason, seen.tool_call_count, seen.terminal_event) == ("stop", 2, True)
    assert seen.flags == {CallFlag.NO_USAGE}
    assert CallFlag.NOT_A_STREAM in observe(body).flags


@pytest.mark.parametrize(
    "body", [b"<!DOCTYPE html><html></html>", b"", b"  \n", b"Bad Gateway", b": only a comment\n"]
)
def test_a_body_without_an_event_is_no_stream(body: bytes) -> None:
    seen = observe(body)
    assert CallFlag.NOT_A_STREAM in seen.flags
    assert (seen.produced_output, seen.finish_reason) == (False, None)
