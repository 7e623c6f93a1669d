"""When each turn and call was, by Cline's own times."""

from __future__ import annotations

from pathlib import Path

import pytest

from clinebox.domain.cline.events import (
    Event,
    Hook,
    IterationEnd,
    IterationStart,
    Notice,
    Record,
    TokenCounts,
    ToolEnd,
    ToolStart,
    TurnUsage,
)
from clinebox.domain.cline.stream import StreamDecoder
from clinebox.domain.cline.timeline import TimelineMark, ToolSpan, TurnSpan, timeline
from clinebox.domain.cline.transcript import epoch_ms, fold_transcript
from clinebox.domain.cline.transcript_json import transcript_json
from clinebox.domain.cline.transcript_model import ItemStatus, Transcript
from clinebox.domain.json_value import JsonValue

CORPUS = Path(__file__).parents[2] / "corpus"
NO_TOKENS = TokenCounts(None, None, None, None)


def decode(data: bytes) -> list[Record]:
    decoder = StreamDecoder()
    return [*decoder.feed(data), *decoder.finish()]


def recorded(run: str) -> Transcript:
    return fold_transcript(decode((CORPUS / run / "stdout.ndjson").read_bytes()))


def folded(*events: Event) -> Transcript:
    """Events a second apart, one a line."""
    return fold_transcript(
        Record(line, f"2026-11-30T16:00:{line:02d}.000Z", event, b"") for line, event in enumerate(events, 1)
    )


def call(call_id: str = "c", name: str = "run_commands") -> ToolStart:
    return ToolStart(name, call_id, {"commands": ["ls"]})


def ended(call_id: str = "c", name: str = "run_commands", output: JsonValue = "ok") -> ToolEnd:
    return ToolEnd(name, call_id, output, None, None)


def test_the_timeline_has_turns_calls_and_marks_in_order_with_offsets() -> None:
    transcript = folded(
        Hook("agent_start", "a", None), IterationStart(1), TurnUsage(NO_TOKENS), call(), ended(),
        IterationEnd(1, had_tool_calls=True, tool_call_count=1),
        Notice("auto_compaction", "started", "compacting", None),
    )  # fmt: skip
    assert timeline(transcript) == (
        TurnSpan("agent-0", 1, start_ms=1000, answered_ms=2000, end_ms=5000),
        ToolSpan("agent-0", "c", "run_commands", 3000, 4000, 1000, ItemStatus.COMPLETED, failed=False),
        TimelineMark("agent-0", "auto_compaction", "compacting", 6000),
    )


def test_clines_own_duration_is_taken_before_the_difference_of_the_times() -> None:
    spans = [entry for entry in timeline(recorded("3.0.57/parallel_tools")) if isinstance(entry, ToolSpan)]
    assert [span.duration_ms for span in spans] == [1386, 187, 109]
    assert [span.failed for span in spans] == [False, False, True]


def test_a_call_without_an_end_has_no_end_and_no_duration_in_the_timeline() -> None:
    (span,) = [e for e in timeline(recorded("3.0.57/sigkill_in_tool")) if isinstance(e, ToolSpan)]
    assert (span.end_ms, span.duration_ms, span.status) == (None, None, ItemStatus.INCOMPLETE)


@pytest.mark.parametrize(
    "ts", ["", "yesterday", "2026-13-01T00:00:00Z", "9999-99", "0001-01-01T00:00:00+23:59", "2026-11-30"]
)
def test_a_time_in_any_form_gives_a_number_or_nothing(ts: str) -> None:
    assert epoch_ms(ts) is None or isinstance(epoch_ms(ts), int)


def test_the_timeline_is_written_with_every_kind_of_entry() -> None:
    written = transcript_json(
        folded(IterationStart(1), call(), ended(), Notice("auto_compaction", "started", "compacting", None))
    )
    assert isinstance(written, dict)
    entries = written["timeline"]
    assert isinstance(entries, list)
    assert [entry["kind"] for entry in entries if isinstance(entry, dict)] == ["turn", "tool", "mark"]
    assert entries[1] == {
        "kind": "tool", "invocation_id": "agent-0", "call_id": "c", "name": "run_commands",
        "start_ms": 1000, "end_ms": 2000, "duration_ms": 1000, "status": "completed", "failed": False,
    }  # fmt: skip
