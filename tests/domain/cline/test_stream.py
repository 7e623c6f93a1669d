"""The decoder: any bytes, any cuts, one line held at most, never an exception."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.cline.events import (
    NotARecord,
    OversizedLine,
    Record,
    RunResult,
    TextDelta,
    TextEnd,
    ToolEnd,
    ToolStart,
    UnknownRecord,
)
from clinebox.domain.cline.stream import (
    LINE_LIMIT_BYTES,
    LineSplitter,
    StreamDecoder,
    accumulated,
    delta_text,
    is_text_delta,
)

CORPUS = Path(__file__).parents[2] / "corpus"
STREAMS = sorted(CORPUS.glob("*/*/stdout.ndjson"))
TS = "2026-11-30T16:54:25.091Z"


def decode(*chunks: bytes) -> list[Record]:
    decoder = StreamDecoder()
    return [record for chunk in chunks for record in decoder.feed(chunk)] + decoder.finish()


def delta(text: str, accumulated_text: str) -> bytes:
    event = {"type": "content_start", "contentType": "text", "text": text, "accumulated": accumulated_text}
    record = {"ts": TS, "type": "agent_event", "event": event}
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def random_cuts(data: bytes, seed: int) -> Iterator[bytes]:
    dice = random.Random(seed)  # noqa: S311 - the same cuts in every run
    start = 0
    while start < len(data):
        size = dice.choice((1, 2, 7, 100, 4_000, 65_536))
        yield data[start : start + size]
        start += size


# --- cuts


def test_the_corpus_byte_by_byte_gives_the_same_records() -> None:
    small = [path for path in STREAMS if path.stat().st_size < 6_000]
    assert len(small) > 200
    for path in small:
        data = path.read_bytes()
        assert decode(*(data[i : i + 1] for i in range(len(data)))) == decode(data), path


def test_the_corpus_in_random_cuts_gives_the_same_records() -> None:
    for path in STREAMS:
        data = path.read_bytes()
        for seed in range(3):
            assert decode(*random_cuts(data, seed)) == decode(data), (path, seed)


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_lines_do_not_depend_on_the_cuts(chunks: list[bytes]) -> None:
    """Splits on b"\\n" only: what the splitter gives is what `bytes.split` gives of the whole."""
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()
    whole = b"".join(chunks)
    expected = whole.split(b"\n")
    assert lines == (expected if expected[-1] else expected[:-1])
    assert splitter.lines == len(lines)
    assert splitter.size_bytes == len(whole)


@given(
    st.lists(
        st.binary(max_size=200) | st.sampled_from([b"\n", b'{"ts":"', b'"}}', b"{}", b"\x00"]), max_size=30
    )
)
def test_no_bytes_make_the_decoder_raise(chunks: list[bytes]) -> None:
    for record in decode(*chunks):
        repr(record).encode()


def test_every_recorded_line_is_a_known_record() -> None:
    for path in STREAMS:
        for record in decode(path.read_bytes()):
            assert not isinstance(record.event, NotARecord | OversizedLine | UnknownRecord), (
                path,
                record.line,
            )


# --- lines


def test_only_a_line_feed_ends_a_line() -> None:
    """U+2028, U+0085 and a carriage return are data (FORMAT.md §1: `unicode`)."""
    text = "a\u2028b\u0085c\x0b\x0c d"
    records = decode(delta(text, text) + b"\n", b'{"type":"x"}\r\n')
    assert len(records) == 2
    assert delta_text(records[0].raw) == text
    assert records[1].event == UnknownRecord("x")


def test_a_half_last_line_is_given_out_at_the_end() -> None:
    decoder = StreamDecoder()
    assert decoder.feed(b'{"type":"run_result","finishReason":"comp') == []
    (record,) = decoder.finish()
    assert isinstance(record.event, NotARecord)
    assert record.line == 1
    assert decoder.finish() == []


def test_a_whole_last_line_without_its_end_is_a_record() -> None:
    (record,) = decode(b'{"type":"run_aborted","reason":"local_abort"}')
    assert record.event.reason == "local_abort"  # type: ignore[union-attr]


def test_empty_lines_count_and_are_no_records() -> None:
    records = decode(b"\n\n{}\n")
    assert [record.line for record in records] == [1, 2, 3]
    assert isinstance(records[0].event, NotARecord)


@pytest.mark.parametrize("chunk_size", [1 << 16, 1 << 20, 1 << 25])
def test_a_line_over_the_bound_is_counted_and_not_held(chunk_size: int) -> None:
    data = b'{"a":"' + b"x" * (LINE_LIMIT_BYTES + 1) + b'"}\n{"type":"x"}\n'
    records = decode(*(data[i : i + chunk_size] for i in range(0, len(data), chunk_size)))
    assert records[0].event == OversizedLine(LINE_LIMIT_BYTES + 9)
    assert records[0].raw == b""
    assert (records[1].line, records[1].event) == (2, UnknownRecord("x"))


def test_a_line_of_exactly_the_bound_is_read() -> None:
    head, tail = b'{"type":"x","a":"', b'"}'
    line = head + b"y" * (LINE_LIMIT_BYTES - len(head) - len(tail)) + tail
    assert decode(line + b"\n")[0].event == UnknownRecord("x")


def test_memory_stays_bounded_on_a_line_without_an_end() -> None:
    decoder = StreamDecoder()
    chunk = b"x" * (1 << 20)
    tracemalloc.start()
    for _ in range(64):
        decoder.feed(chunk)
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * LINE_LIMIT_BYTES
    assert decoder.finish()[0].event == OversizedLine(64 << 20)


# --- hostile lines

HOSTILE = {
    "nesting": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "closed nesting": b"[" * 100_000 + b"]" * 100_000,
    "nul": b"\x00\x00",
    "not utf-8": b'\xff\xfe{"type":"x"}',
    "huge number": b"9" * 5_000,
    "nan": b'{"type":"run_result","durationMs":NaN}',
    "infinity": b'{"a":-Infinity}',
    "byte order mark": b"\xef\xbb\xbf{}",
    "a list": b"[1,2]",
    "a string": b'"run_result"',
    "null": b"null",
    "two objects": b"{}{}",
    "a comma": b'{"a":1,}',
    "an open string": b'{"a":"',
    "raw control": b'{"a":"\x01"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_is_no_record_and_the_next_one_is_read(name: str) -> None:
    records = decode(HOSTILE[name] + b'\n{"type":"run_result","finishReason":"completed"}\n')
    assert isinstance(records[0].event, NotARecord)
    assert isinstance(records[1].event, RunResult)


def test_bytes_that_are_not_utf_8_inside_a_string_are_replaced() -> None:
    (record,) = decode(b'{"type":"run_result","text":"a\xffb"}\n')
    assert isinstance(record.event, RunResult)
    assert record.event.text == "a\ufffdb"


@pytest.mark.parametrize("escape", [r"\ud800", r"\uDC00", r"\udfff\ud800", r"\uD83D x"])
def test_a_lone_surrogate_never_reaches_a_text(escape: str) -> None:
    line = f'{{"type":"run_result","text":"a{escape}b"}}'.encode()
    (record,) = decode(line)
    assert isinstance(record.event, RunResult)
    assert record.event.text is not None
    assert "\ufffd" in record.event.text
    record.event.text.encode("utf-8")


def test_a_pair_of_surrogates_is_one_character() -> None:
    (record,) = decode(rb'{"type":"run_result","text":"\ud83d\ude00"}')
    assert isinstance(record.event, RunResult)
    assert record.event.text == "\U0001f600"


def test_surrogates_in_keys_and_arguments_are_replaced_too() -> None:
    event = rb'{"type":"content_start","contentType":"tool","toolName":"t","input":{"\ud800":["\udc00"]}}'
    (record,) = decode(rb'{"type":"agent_event","event":' + event + b"}")
    assert isinstance(record.event, ToolStart)
    assert record.event.arguments == {"\ufffd": ["\ufffd"]}


@pytest.mark.parametrize("value", ["1", "null", "[]", "{}", "true", '"x"', "1.5", "-1"])
@pytest.mark.parametrize(
    "field",
    [
        "event",
        "finishReason",
        "usage",
        "text",
        "reason",
        "model",
        "iterations",
        "hookEventName",
        "agentId",
        "ts",
    ],
)
def test_a_field_of_another_type_is_dropped_and_the_record_kept(field: str, value: str) -> None:
    for kind in ("run_result", "run_aborted", "hook_event", "agent_event", "team_event", "run_start"):
        (record,) = decode(f'{{"type":"{kind}","{field}":{value}}}'.encode())
        assert not isinstance(record.event, NotARecord)


def test_a_type_that_nobody_knows_is_kept_by_a_bounded_name() -> None:
    (record,) = decode(json.dumps({"type": "z" * 10_000}).encode())
    assert record.event == UnknownRecord("z" * 200)


# --- text deltas


def test_every_recorded_text_delta_is_known_by_its_shape() -> None:
    lines = [line for path in STREAMS for line in path.read_bytes().split(b"\n") if b'"accumulated":' in line]
    assert len(lines) == 750
    assert all(is_text_delta(line) for line in lines)


@given(st.text(), st.text())
def test_a_text_delta_gives_its_texts_when_asked(before: str, chunk: str) -> None:
    line = delta(
        chunk.encode("utf-8", "replace").decode(), before.encode("utf-8", "replace").decode() + chunk
    )
    (record,) = decode(line)
    assert record.event == TextDelta(line)
    assert record.ts == TS
    assert delta_text(line) == json.loads(line)["event"]["text"]
    assert accumulated(line) == json.loads(line)["event"]["accumulated"]


@given(st.text())
def test_the_quick_look_agrees_with_the_parser(text: str) -> None:
    """A line with a delta's shape is one for `json.loads` too, quotes and backslashes included."""
    text = text.encode("utf-8", "replace").decode() + '","accumulated":"\\'
    line = delta(text, text)
    assert is_text_delta(line)
    assert json.loads(line)["event"]["contentType"] == "text"


NOT_QUITE = {
    "another order": b'{"type":"agent_event","ts":"2026-11-30T16:54:25.091Z","event":{}}',
    "another kind": delta("x", "x").replace(b"content_start", b"content_end"),
    "another content": delta("x", "x").replace(b'"text","text"', b'"tool","text"'),
    "a shorter ts": delta("x", "x").replace(b"25.091Z", b"25Z"),
    "an accumulated that does not end so": delta("x", "y"),
    "a field behind": delta("x", "x").replace(b'"}}', b'","a":1}}'),
    "no accumulated": delta("x", "x").replace(b',"accumulated":"x"', b""),
    "cut": delta("x", "x")[:-1],
    "spaces": json.dumps(json.loads(delta("x", "x"))).encode(),
}


@pytest.mark.parametrize("name", NOT_QUITE)
def test_what_only_looks_like_a_delta_is_parsed(name: str) -> None:
    assert not is_text_delta(NOT_QUITE[name])
    decode(NOT_QUITE[name])


def test_a_delta_in_another_form_is_a_delta_all_the_same() -> None:
    (record,) = decode(NOT_QUITE["spaces"])
    assert isinstance(record.event, TextDelta)
    assert delta_text(record.raw) == "x"


def test_a_text_is_empty_where_the_line_holds_none() -> None:
    assert delta_text(b"{}") == accumulated(b"[") == delta_text(b'{"event":{"text":1}}') == ""


def test_other_content_is_told_apart() -> None:
    text = {"type": "content_end", "contentType": "text", "text": "x"}
    tool = {"type": "content_end", "contentType": "tool", "toolName": "t", "toolCallId": "c", "output": 1}
    lines = [json.dumps({"type": "agent_event", "event": event}).encode() for event in (text, tool)]
    assert [type(record.event) for record in decode(b"\n".join(lines))] == [TextEnd, ToolEnd]
