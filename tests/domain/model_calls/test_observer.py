"""What passes is read, whatever the cuts, the line ends and the upstream's habits (SPEC §11)."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.model_calls.observer import BODY_LIMIT_BYTES, ResponseObserver
from clinebox.domain.model_calls.record import CallFlag, CallUsage, ObservedResponse
from clinebox.domain.model_calls.sse import DATA_LIMIT_BYTES

ID: dict[str, object] = {"id": "chatcmpl-1", "model": "qwen", "object": "chat.completion.chunk"}


def chunk(delta: object = None, finish: str | None = None, **extra: object) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return text({**ID, "choices": [choice], **extra})


def text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def sse(*events: bytes, end: bytes = b"\n", space: bytes = b" ") -> bytes:
    return b"".join(b"data:" + space + event + end * 2 for event in events)


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
COUNTED = CallUsage(100, 60, 10, 4)
ORDINARY = (
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Grüße, 世界 🌍"}),
    chunk({"content": 'a lie: "finish_reason":"stop","usage":{"prompt_tokens":1}'}),
    chunk({}, "stop"),
    text({**ID, "choices": [], "usage": USAGE}),
    b"[DONE]",
)
CALLS = (
    chunk({"reasoning_content": "hm"}),
    chunk({"tool_calls": [{"index": 0, "id": "c0", "function": {"name": "a", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
    chunk({"tool_calls": [{"index": 1, "id": "c1", "function": {"name": "b", "arguments": "{}"}}]}),
    chunk({}, "tool_calls"),
)
RESPONSES = (
    text({"type": "response.created", "response": {"id": "resp_1", "model": "o", "status": "in_progress"}}),
    text({"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call"}}),
    text({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"}),
    text(
        {
            "type": "response.completed",
            "response": {
                "id": "resp_1",
                "status": "completed",
                "usage": {
                    "input_tokens": 9,
                    "input_tokens_details": {"cached_tokens": 3},
                    "output_tokens": 5,
                    "output_tokens_details": {"reasoning_tokens": 2},
                },
            },
        }
    ),
)


KEYS = (
    *("choices", "delta", "message", "usage", "error", "code", "tool_calls", "index", "id", "model"),
    *("type", "object", "response", "status", "output", "item", "prompt_tokens", "incomplete_details"),
)


def observe(data: bytes, *, streamed: bool = True, cuts: tuple[int, ...] = ()) -> ObservedResponse:
    observer = ResponseObserver(streamed_hint=streamed)
    edges = [0, *sorted(cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        observer.feed(data[start:end])
    observer.finish()
    return observer.facts()


def test_an_ordinary_stream_is_read_to_its_last_word() -> None:
    seen = observe(sse(*ORDINARY))
    assert seen == ObservedResponse(
        finish_reason="stop",
        usage=COUNTED,
        response_id="chatcmpl-1",
        upstream_model="qwen",
        terminal_event=True,
        produced_output=True,
    )


STREAMS = {
    "lf": sse(*ORDINARY),
    "crlf": sse(*ORDINARY, end=b"\r\n"),
    "cr": sse(*ORDINARY, end=b"\r"),
    "no space behind the colon": sse(*ORDINARY, space=b""),
    "byte order mark": b"\xef\xbb\xbf" + sse(*ORDINARY),
    "comments and other fields": b": hi\n\n" + b"event: x\nid: 1\nretry: 5\n" + sse(*ORDINARY) + b":\n\n",
    "leading line ends": b"\n\r\n" + sse(*ORDINARY),
    "no blank line at the end": sse(*ORDINARY)[:-2],
}


@pytest.mark.parametrize("name", STREAMS)
def test_every_way_to_write_the_stream_says_the_same(name: str) -> None:
    assert observe(STREAMS[name]) == observe(sse(*ORDINARY))


@pytest.mark.parametrize("name", STREAMS)
def test_one_byte_at_a_time_says_the_same(name: str) -> None:
    data = STREAMS[name]
    assert observe(data, cuts=tuple(range(len(data)))) == observe(data)


WHOLES = {
    **STREAMS,
    "tool calls": sse(*CALLS),
    "responses": sse(*RESPONSES),
    "json": b" \n" + text({**ID, "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}),
    "html": b"<html><body>data: {}</body></html>",
    "error": sse(text({"error": {"message": "boom", "code": 500}})),
    "half an event": sse(*ORDINARY)[:200],
}


@given(st.sampled_from(sorted(WHOLES)), st.lists(st.integers(0, 1_500), max_size=12))
def test_any_cuts_say_what_the_whole_says(name: str, cuts: list[int]) -> None:
    """SPEC §11: "A parser that sees any chunking of SSE (split in the middle of a UTF-8 character, …)"."""
    data = WHOLES[name]
    assert observe(data, cuts=tuple(cut for cut in cuts if cut <= len(data))) == observe(data)


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=5), st.booleans())
def test_any_bytes_are_read_without_an_exception_and_alike_in_any_cuts(
    data: bytes,
    cuts: list[int],
    streamed: bool,  # noqa: FBT001 - hypothesis passes it by name
) -> None:
    whole = observe(data, streamed=streamed)
    assert observe(data, streamed=streamed, cuts=tuple(min(cut, len(data)) for cut in cuts)) == whole


@given(
    st.lists(st.sampled_from([b"data: ", b"data:", b"\r", b"\n", b"\xef\xbb\xbf", b"{}", b":", b"[DONE]"]))
)
def test_any_mix_of_sse_pieces_reads_alike_in_any_cuts(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert observe(data, cuts=tuple(range(len(data)))) == observe(data)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(KEYS),
                inner,
                max_size=5,
            )
        ),
        max_leaves=25,
    )
)
def test_json_of_any_shape_is_no_exception(value: object) -> None:
    observe(sse(text(value)))
    observe(text(value), streamed=False)


# --- bounds


@pytest.mark.parametrize("step", [1 << 30, 1 << 16])
def test_a_data_line_over_the_bound_is_skipped_and_flagged(step: int) -> None:
    long = chunk({"content": "x" * DATA_LIMIT_BYTES})
    data = sse(chunk({"role": "assistant"}), long, *ORDINARY)
    seen = observe(data, cuts=tuple(range(0, len(data), step)))
    assert seen.flags == {CallFlag.DATA_SKIPPED}
    assert (seen.finish_reason, seen.usage) == ("stop", COUNTED)


def test_an_event_of_many_lines_over_the_bound_is_skipped_too() -> None:
    many = b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n" * (DATA_LIMIT_BYTES // 20)
    seen = observe(many + b"\n" + sse(*ORDINARY))
    assert seen.flags == {CallFlag.DATA_SKIPPED}


def test_a_json_body_over_the_bound_is_not_read() -> None:
    seen = observe(b'{"choices":[],"x":"' + b"y" * BODY_LIMIT_BYTES + b'"}', streamed=False)
    assert CallFlag.DATA_SKIPPED in seen.flags
    assert not seen.terminal_event


def test_nesting_to_any_depth_is_bad_data() -> None:
    assert CallFlag.BAD_DATA in observe(sse(b"[" * 100_000)).flags


def test_facts_are_there_at_any_time() -> None:
    observer = ResponseObserver(streamed_hint=True)
    observer.feed(sse(*ORDINARY[:2]))
    assert (observer.facts().produced_output, observer.facts().finish_reason) == (True, None)
    observer.feed(sse(*ORDINARY[2:]))
    assert observer.facts().finish_reason == "stop"
    observer.finish()
    observer.finish()
    assert observer.facts() == observe(sse(*ORDINARY))


@pytest.mark.parametrize("step", [64, 1_000, 65_536])
def test_a_long_answer_is_read_to_its_end_whatever_lies_among_its_deltas(step: int) -> None:
    """Most of a stream is not parsed; what tells something must be found in the midst of it."""
    deltas = [chunk({"content": f"word {n}"}) for n in range(500)]
    telling = (
        chunk({"tool_calls": [{"index": 0, "function": {"name": "a"}}]}),
        chunk({"content": "x"}, usage=USAGE),
        b'{"id":"x","choices":[{"delta":',
        chunk({}, "length"),
        text({"error": {"message": "boom", "code": 500}}),
    )
    for event in telling:
        data = sse(*ORDINARY[:2], *deltas, event, *deltas)
        bare = sse(*ORDINARY[:2], event)
        assert observe(data, cuts=tuple(range(0, len(data), step))) == observe(bare)


# --- Responses


def test_a_responses_stream_is_told_in_the_same_words() -> None:
    seen = observe(sse(*RESPONSES))
    assert seen == ObservedResponse(
        finish_reason="tool_calls",
        usage=CallUsage(9, 3, 5, 2),
        response_id="resp_1",
        upstream_model="o",
        tool_call_count=1,
        terminal_event=True,
        produced_output=True,
    )


@pytest.mark.parametrize(
    ("end", "finish"),
    [
        ({"status": "completed"}, "stop"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "cancelled"}, "abort"),
        ({"status": "failed", "error": {"code": "server_error", "message": "boom"}}, None),
    ],
)
def test_a_responses_end_is_a_finish_reason(end: dict[str, object], finish: str | None) -> None:
    kind = f"response.{end['status']}"
    seen = observe(
        sse(text({"type": "response.output_text.delta", "delta": "x"}), text({"type": kind, "response": end}))
    )
    assert (seen.finish_reason, seen.terminal_event) == (finish, True)
    assert (seen.error is not None) == (end["status"] == "failed")


def test_a_null_usage_forgets_no_earlier_one() -> None:
    seen = observe(sse(chunk({"content": "x"}, usage=USAGE), chunk({}, "stop", usage=None)))
    assert seen.usage == COUNTED


def test_no_done_is_told_by_a_flag() -> None:
    seen = observe(sse(*ORDINARY[:-1]))
    assert seen.flags == {CallFlag.NO_TERMINAL_EVENT}


def test_a_cut_stream_has_output_and_no_finish_reason() -> None:
    seen = observe(sse(*ORDINARY)[:400])
    assert (seen.produced_output, seen.finish_reason, seen.terminal_event) == (True, None, False)
    assert CallFlag.BAD_DATA not in seen.flags


def test_tool_calls_are_counted_by_their_index() -> None:
    seen = observe(sse(*CALLS))
    assert (seen.tool_call_count, seen.produced_output, seen.finish_reason) == (2, True, "tool_calls")


def test_a_data_line_that_is_no_json_is_flagged_and_the_rest_is_read() -> None:
    seen = observe(sse(b'{"id":"x","choices":[{"delta":', *ORDINARY))
    assert CallFlag.BAD_DATA in seen.flags
    assert seen.finish_reason == "stop"


def test_data_of_several_lines_is_one_event() -> None:
    first, rest = ORDINARY[1].split(b",", 1)
    assert observe(b"data: " + first + b",\ndata:" + rest + b"\n\n").produced_output
