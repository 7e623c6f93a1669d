"""Any records in any order: nothing raises, nothing is lost, nothing stands there twice."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.cline.events import (
    AgentError,
    Done,
    Event,
    Hook,
    IterationEnd,
    IterationStart,
    ReasoningDelta,
    ReasoningEnd,
    Record,
    TextDelta,
    TextEnd,
    TokenCounts,
    ToolEnd,
    ToolStart,
    TurnUsage,
)
from clinebox.domain.cline.transcript import TranscriptFolder, fold_transcript
from clinebox.domain.cline.transcript_json import transcript_json
from clinebox.domain.cline.transcript_model import (
    FunctionCall,
    FunctionCallOutput,
)
from clinebox.domain.json_value import JsonValue

NO_TOKENS = TokenCounts(None, None, None, None)


def delta(accumulated: str) -> TextDelta:
    event: JsonValue = {
        "type": "content_start", "contentType": "text", "text": "x", "accumulated": accumulated,
    }  # fmt: skip
    return TextDelta(json.dumps({"ts": "", "type": "agent_event", "event": event}).encode())


TS = st.none() | st.text(max_size=5) | st.just("2026-11-30T16:00:00.000Z")
IDS = st.sampled_from(["a", "b"])
NAMES = st.sampled_from(["run_commands", "spawn_agent"])
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(ToolStart, NAMES, IDS, st.just(None)),
    st.builds(ToolEnd, NAMES, IDS, st.just("out"), st.none() | st.text(), st.none() | st.integers()),
    st.text(max_size=5).map(delta),
    st.binary(max_size=20).map(TextDelta),
    st.text(max_size=5).map(TextEnd),
    st.builds(ReasoningDelta, st.text(max_size=5), st.booleans()),
    st.text(max_size=5).map(ReasoningEnd),
    st.just(IterationStart(1)),
    st.just(IterationEnd(1, had_tool_calls=False, tool_call_count=0)),
    st.just(TurnUsage(NO_TOKENS)),
    st.builds(AgentError, st.none(), st.none() | st.text(), st.none(), st.none() | st.booleans(), st.none()),
    st.builds(Done, st.sampled_from(["completed", "aborted"]), st.text(), st.none()),
    st.builds(Hook, st.just("agent_start"), IDS, st.none() | IDS),
)
RECORDS = st.lists(st.tuples(TS, EVENTS), max_size=40).map(
    lambda drawn: [Record(line, ts, event, b"") for line, (ts, event) in enumerate(drawn, 1)]
)


@given(records=RECORDS)
def test_any_records_in_any_order_give_a_transcript_that_can_be_written(records: list[Record]) -> None:
    """Total: Responses items in order, a call without its end stays `incomplete`."""
    transcript = fold_transcript(records)
    json.dumps(transcript_json(transcript)).encode()
    for agent in transcript.invocations:
        lines = [item.line for item in agent.items]
        assert lines == sorted(lines)
        assert len(set(lines)) == len(lines)


@given(records=RECORDS)
def test_every_call_and_every_output_is_kept_exactly_once(records: list[Record]) -> None:
    """Nothing that the agent did is dropped, and nothing is invented."""
    items = [item for agent in fold_transcript(records).invocations for item in agent.items]
    for kind, event in ((FunctionCall, ToolStart), (FunctionCallOutput, ToolEnd)):
        kept = sorted(item.line for item in items if isinstance(item, kind))
        assert kept == [record.line for record in records if isinstance(record.event, event)]


@given(records=RECORDS, cut=st.integers(0, 40))
def test_asking_in_between_changes_nothing(records: list[Record], cut: int) -> None:
    """`finish` may be asked at any time."""
    folder = TranscriptFolder()
    for record in records[:cut]:
        folder.add(record)
    assert folder.finish() == fold_transcript(records[:cut])
    for record in records[cut:]:
        folder.add(record)
    assert folder.finish() == fold_transcript(records)


@given(records=RECORDS)
def test_invocation_ids_are_unique_and_every_parent_is_there(records: list[Record]) -> None:
    """`invocation_id` is unique in the bundle (WIRE.md)."""
    agents = fold_transcript(records).invocations
    ids = [agent.invocation_id for agent in agents]
    assert len(set(ids)) == len(ids)
    assert {agent.parent_invocation_id for agent in agents[1:]} <= set(ids)
