"""Calls are joined to turns by time, and by count where the clocks disagree."""

from __future__ import annotations

import json
from dataclasses import replace

from clinebox.domain.cline.stream import StreamDecoder
from clinebox.domain.cline.transcript import TranscriptFolder
from clinebox.domain.model_calls.codec import model_call_lines
from clinebox.domain.model_calls.record import CallEnd, CallTimes, ModelCall, ObservedResponse
from clinebox.domain.model_calls.turns import TurnRef, join_turns, turns_of

TURNS = tuple(TurnRef("lead", n, 100.0 + 10 * n) for n in (1, 2, 3))


def call(number: int, at_s: float, status: int = 200) -> ModelCall:
    said = ObservedResponse(finish_reason="stop", produced_output=True)
    made = ModelCall(number, "/chat/completions", CallTimes(at_s), http_status=status, end=CallEnd.FINISHED)
    return replace(made, response=said if status < 300 else ObservedResponse())


def test_a_call_belongs_to_the_newest_turn_that_had_begun() -> None:
    calls = [call(1, 110.01), call(2, 112.0, 500), call(3, 120.0), call(4, 129.96)]
    assert [turn and turn.iteration for turn in join_turns(calls, TURNS)] == [1, 1, 2, 3]


def test_a_turn_that_was_killed_before_its_call_is_no_disagreement() -> None:
    calls = [call(1, 110.0), call(2, 120.0)]
    assert [turn and turn.iteration for turn in join_turns(calls, TURNS)] == [1, 2]


def test_where_the_clocks_disagree_whole_answers_are_dealt_in_order() -> None:
    late = [call(1, 5_110.0), call(2, 5_111.0, 500), call(3, 5_120.0), call(4, 5_130.0)]
    assert [turn and turn.iteration for turn in join_turns(late, TURNS)] == [1, None, 2, 3]
    early = [call(1, 10.0), call(2, 20.0), call(3, 30.0)]
    assert [turn and turn.iteration for turn in join_turns(early, TURNS)] == [1, 2, 3]


def test_what_neither_tells_is_not_invented() -> None:
    assert join_turns([call(1, 10.0), call(2, 20.0)], TURNS) == (None, None)
    assert join_turns([call(1, 10.0)], ()) == (None,)
    assert join_turns([], TURNS) == ()


def test_turns_of_sub_agents_are_among_the_lead_s() -> None:
    def event(second: int, **body: object) -> bytes:
        record = {"ts": f"2026-11-30T17:00:{second:02d}.000Z", "type": "agent_event", "event": body}
        return json.dumps(record).encode() + b"\n"

    tool = {"contentType": "tool", "toolName": "spawn_agent", "toolCallId": "s"}
    folder, decoder = TranscriptFolder(), StreamDecoder()
    for line in (
        event(1, type="iteration_start", iteration=1),
        event(2, type="content_start", **tool, input={}),
        event(3, type="iteration_start", iteration=1),
        event(4, type="content_end", **tool, output={}),
        event(5, type="iteration_start", iteration=2),
    ):
        for record in decoder.feed(line):
            folder.add(record)
    turns = turns_of(folder.finish())
    assert [turn.iteration for turn in turns] == [1, 1, 2]
    assert turns[0].invocation_id == turns[2].invocation_id != turns[1].invocation_id


def test_the_record_names_the_turn() -> None:
    calls = [call(1, 110.0), call(2, 120.0)]
    lines = [json.loads(line) for line in model_call_lines(calls, (TURNS[0], None))]
    assert [line["turn"] for line in lines] == [{"invocation_id": "lead", "iteration": 1}, None]
