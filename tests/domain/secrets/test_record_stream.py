"""A secret that stands in pieces of several records of Cline's stream is in none of what is written."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.cline.stream import is_text_delta
from clinebox.domain.secrets.masker import Masker
from clinebox.domain.secrets.record_stream import RecordStreamMasker

KEY = "sk-abcdefgh12345"
TS = "2026-11-30T16:54:25.091Z"


def written(event: dict[str, Any]) -> bytes:
    record = {"ts": TS, "type": "agent_event", "event": event}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def text_deltas(chunks: list[str]) -> list[bytes]:
    return [
        written(
            {
                "type": "content_start",
                "contentType": "text",
                "text": chunk,
                "accumulated": "".join(chunks[: index + 1]),
            }
        )
        for index, chunk in enumerate(chunks)
    ]


def masked(lines: list[bytes]) -> list[dict[str, Any]]:
    masker = RecordStreamMasker(Masker([KEY]))
    return [json.loads(masker.line(line))["event"] for line in lines]


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False) if start < end]


@given(
    st.lists(st.sampled_from(["my key is ", KEY, "é\U0001f600", "sk-abc", "\n", "done"]), max_size=6),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_however_the_chunks_are_cut_they_together_are_a_beginning_of_the_whole_masked(
    parts: list[str], places: list[int]
) -> None:
    """For every cut of the input the stream equals the whole (SPEC §6), also over Cline's records."""
    whole = "".join(parts)
    events = masked(text_deltas(cut(whole, places)))
    together = "".join(event["text"] for event in events)
    expected = Masker([KEY]).mask(whole.encode()).decode()
    assert expected.startswith(together)
    assert len(expected) - len(together) < len(KEY)  # what is held back stands in the block's own end
    shown = ""
    for event in events:
        shown += event["text"]
        assert event["accumulated"] == shown


def test_a_key_in_two_chunks_is_in_neither() -> None:
    events = masked(text_deltas(["my key is sk-abc", "defgh12345", ", keep it"]))
    assert [event["text"] for event in events] == ["my key is ", "***", ", keep it"]
    assert events[-1]["accumulated"] == "my key is ***, keep it"


def test_what_is_written_keeps_clines_shape() -> None:
    masker = RecordStreamMasker(Masker([KEY]))
    lines = [masker.line(line) for line in text_deltas(["é sk-abc", "defgh12345"])]
    assert all(is_text_delta(line) for line in lines)


def test_a_new_block_begins_anew() -> None:
    first, second = text_deltas(["say sk-abc"]), text_deltas(["defgh12345 is not a key"])
    events = masked([*first, *second])
    assert events[1]["text"] == "defgh12345 is not a key"


def test_reasoning_and_live_tool_output_are_followed_too() -> None:
    reasoning = [
        written({"type": "content_start", "contentType": "reasoning", "reasoning": chunk, "redacted": False})
        for chunk in ("I see sk-abcdef", "gh12345 there")
    ]
    assert [event["reasoning"] for event in masked(reasoning)] == ["I see ", "*** there"]
    updates = [
        written(
            {
                "type": "content_update",
                "contentType": "tool",
                "toolName": "run_commands",
                "toolCallId": "call_1",
                "update": {"stream": stream, "chunk": chunk},
            }
        )
        for stream, chunk in (
            ("stdout", "KEY=sk-abcd"),
            ("stderr", "warning"),
            ("stdout", "efgh12345\n"),
        )
    ]
    assert [event["update"]["chunk"] for event in masked(updates)] == ["KEY=", "warning", "***\n"]


def test_a_line_without_anything_secret_is_written_byte_for_byte() -> None:
    odd = [
        b'{"ts" : 1, "event": {"type":"content_start","contentType":"text"}}',
        b"not json",
        b"\xff\x00",
        b"",
    ]
    lines = [*text_deltas(["All", " done."]), *odd]
    masker = RecordStreamMasker(Masker([KEY]))
    assert [masker.line(line) for line in lines] == lines


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_hostile_lines_never_raise(lines: list[bytes]) -> None:
    masker = RecordStreamMasker(Masker([KEY]))
    for line in (
        *lines,
        *(b'{"event":{"type":"content_start","contentType":"text","text":' + one for one in lines),
    ):
        masker.line(line)
