from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from clinebox.domain.cline.events import (
    AgentError,
    Done,
    Event,
    IterationEnd,
    IterationStart,
    ReasoningDelta,
    Record,
    TextDelta,
    TextEnd,
    TokenCounts,
    ToolEnd,
    ToolStart,
)
from clinebox.domain.cline.stream import StreamDecoder
from clinebox.domain.cline.timeline import timeline
from clinebox.domain.cline.transcript import fold_transcript
from clinebox.domain.cline.transcript_json import transcript_json
from clinebox.domain.cline.transcript_model import (
    FunctionCall,
    FunctionCallOutput,
    InvocationStatus,
    Item,
    ItemStatus,
    Message,
    Reasoning,
    Transcript,
)
from clinebox.domain.json_value import JsonValue

CORPUS = Path(__file__).parents[2] / "corpus"
COMPLETED, INCOMPLETE = ItemStatus.COMPLETED, ItemStatus.INCOMPLETE
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


def delta(accumulated: str) -> TextDelta:
    event: JsonValue = {
        "type": "content_start", "contentType": "text", "text": "x", "accumulated": accumulated,
    }  # fmt: skip
    return TextDelta(json.dumps({"ts": "", "type": "agent_event", "event": event}).encode())


def call(call_id: str = "c", name: str = "run_commands") -> ToolStart:
    return ToolStart(name, call_id, {"commands": ["ls"]})


def ended(call_id: str = "c", name: str = "run_commands", output: JsonValue = "ok") -> ToolEnd:
    return ToolEnd(name, call_id, output, None, None)


def lead(transcript: Transcript) -> tuple[Item, ...]:
    return transcript.invocations[0].items


def summary(items: Iterable[Item]) -> list[tuple[str, str]]:
    """Kind and text of every item, `~` before an incomplete one."""
    said: list[tuple[str, str]] = []
    for item in items:
        match item:
            case Message(text, status) | Reasoning(text=text, status=status):
                said.append((type(item).__name__, ("~" if status is INCOMPLETE else "") + text))
            case FunctionCall(call_id, status=status):
                said.append(("FunctionCall", ("~" if status is INCOMPLETE else "") + call_id))
            case FunctionCallOutput(call_id):
                said.append(("FunctionCallOutput", call_id))
    return said


def test_a_plain_answer_is_one_message_of_the_lead() -> None:
    transcript = recorded("3.0.57/plain")
    assert [agent.invocation_id for agent in transcript.invocations] == ["agent-0"]
    assert transcript.invocations[0].status is InvocationStatus.COMPLETED
    assert transcript.invocations[0].parent_invocation_id is None
    assert [type(item) for item in lead(transcript)] == [Message]


def test_reasoning_is_its_own_item_before_the_text_that_it_came_before() -> None:
    assert summary(lead(recorded("3.0.57/reasoning"))) == [
        ("Reasoning", "Let me think about it."),
        ("Message", "Answer after thought."),
    ]


def test_calls_and_their_outputs_stand_in_the_order_in_which_they_ran() -> None:
    assert summary(lead(recorded("3.0.57/parallel_tools"))) == [
        ("Message", "In parallel."),
        ("FunctionCall", "call_0_0"), ("FunctionCallOutput", "call_0_0"),
        ("FunctionCall", "call_0_1"), ("FunctionCallOutput", "call_0_1"),
        ("FunctionCall", "call_0_2"), ("FunctionCallOutput", "call_0_2"),
        ("Message", "All done."),
    ]  # fmt: skip


def test_a_sub_agent_is_nested_by_the_call_that_spawned_it() -> None:
    transcript = recorded("3.0.57/spawn_agent")
    agent, sub = transcript.invocations
    assert summary(agent.items) == [
        ("Message", "Delegating."),
        ("FunctionCall", "call_0_0"),
        ("FunctionCallOutput", "call_0_0"),
        ("Message", "Parent: the sub-agent said 1 2 3."),
    ]
    assert (sub.invocation_id, sub.parent_invocation_id, sub.spawned_by_call_id) == (
        "agent-1", "agent-0", "call_0_0",
    )  # fmt: skip
    assert (agent.agent_id, sub.agent_id) == ("agent_1796057682989_313szi", "agent_1796057684281_vycbjf")
    assert summary(sub.items)[-1] == ("Message", "Sub: 1 2 3.")
    spawning = agent.items[1]
    assert isinstance(spawning, FunctionCall)
    assert spawning.child_invocation_id == "agent-1"


def test_text_of_a_killed_run_is_what_the_last_chunk_says_so_far() -> None:
    transcript = recorded("3.0.57/sigkill_mid_stream")
    assert summary(lead(transcript)) == [("Message", "~The quick brown fox jumps over the lazy do")]
    assert transcript.invocations[0].status is InvocationStatus.INCOMPLETE


def test_text_of_a_broken_turn_is_incomplete_although_cline_ended_it() -> None:
    transcript = recorded("3.0.57/reset_mid_stream_forever")
    assert summary(lead(transcript)) == [("Message", "~The quick brown fox jumps over the lazy do")]
    assert transcript.invocations[0].status is InvocationStatus.FAILED


def test_a_call_without_its_end_stays_incomplete() -> None:
    items = lead(recorded("3.0.57/sigkill_in_tool"))
    assert summary(items) == [("Message", "running"), ("FunctionCall", "~call_0_0")]
    assert isinstance(items[1], FunctionCall)
    assert items[1].ended_ms is None


def test_a_rejected_call_is_completed_with_its_error() -> None:
    items = lead(recorded("3.0.57/unknown_tool"))
    assert isinstance(items[0], FunctionCall)
    assert items[0].status is COMPLETED
    assert isinstance(items[1], FunctionCallOutput)
    assert items[1].error is not None


def test_an_end_without_a_call_is_kept_as_an_output_alone() -> None:
    assert summary(lead(folded(ended("ghost")))) == [("FunctionCallOutput", "ghost")]


def test_an_id_that_the_model_repeats_closes_the_innermost_open_call() -> None:
    items = lead(folded(call(), ended(output="first"), call(), ended(output="second"), call()))
    assert summary(items) == [
        ("FunctionCall", "c"), ("FunctionCallOutput", "c"),
        ("FunctionCall", "c"), ("FunctionCallOutput", "c"),
        ("FunctionCall", "~c"),
    ]  # fmt: skip
    assert [item.call_line for item in items if isinstance(item, FunctionCallOutput)] == [1, 3]


def test_an_end_of_another_tool_with_the_same_id_does_not_close_a_call() -> None:
    assert summary(lead(folded(call(), ended(name="editor")))) == [
        ("FunctionCall", "~c"),
        ("FunctionCallOutput", "c"),
    ]


def test_a_sub_agents_error_does_not_touch_the_lead() -> None:
    transcript = folded(
        IterationStart(1), TextEnd("mine"), call("s", "spawn_agent"),
        IterationStart(1), TextEnd("its"), AgentError("E", "HTTP 500", None, recoverable=False, iteration=1),
        ended("s", "spawn_agent"), IterationEnd(1, had_tool_calls=True, tool_call_count=1),
        IterationStart(2), TextEnd("over"), Done("completed", "over", 2),
    )  # fmt: skip
    agent, sub = transcript.invocations
    assert (agent.status, sub.status) == (InvocationStatus.COMPLETED, InvocationStatus.FAILED)
    assert summary(sub.items) == [("Message", "~its")]
    assert ("Message", "~mine") not in summary(agent.items)


def test_a_done_inside_a_sub_agent_does_not_complete_the_lead() -> None:
    transcript = folded(call("s", "spawn_agent"), Done("completed", "its", 1))
    assert [agent.status for agent in transcript.invocations] == [
        InvocationStatus.INCOMPLETE,
        InvocationStatus.COMPLETED,
    ]


def test_a_sub_agent_that_never_began_is_no_invocation() -> None:
    transcript = folded(call("s", "spawn_agent"), ended("s", "spawn_agent", {"error": "bad arguments"}))
    assert len(transcript.invocations) == 1


def test_sub_agents_of_sub_agents_name_their_own_parent() -> None:
    transcript = folded(
        call("a", "spawn_agent"), call("b", "spawn_agent"), TextEnd("deep"),
        ended("b", "spawn_agent"), TextEnd("middle"), ended("a", "spawn_agent"), TextEnd("top"),
    )  # fmt: skip
    assert [
        (agent.invocation_id, agent.parent_invocation_id, summary(agent.items)[-1][1])
        for agent in transcript.invocations
    ] == [("agent-0", None, "top"), ("agent-1", "agent-0", "middle"), ("agent-2", "agent-1", "deep")]


def test_a_turn_that_starts_seals_what_the_last_one_left_open() -> None:
    transcript = folded(
        IterationStart(1), ReasoningDelta("th", redacted=False), ReasoningDelta("ink", redacted=True),
        delta("hal"), delta("half"), IterationStart(2), delta("who"), TextEnd("whole"),
    )  # fmt: skip
    assert summary(lead(transcript)) == [("Reasoning", "~think"), ("Message", "~half"), ("Message", "whole")]
    assert isinstance(lead(transcript)[0], Reasoning)
    assert lead(transcript)[0].redacted is True  # type: ignore[union-attr]


def test_a_recorded_mistake_breaks_no_turn() -> None:
    mistake = AgentError("Error", "1 tool call(s) failed", None, recoverable=True, iteration=1)
    transcript = folded(IterationStart(1), TextEnd("text"), mistake)
    assert summary(lead(transcript)) == [("Message", "text")]
    assert [mark.kind for mark in transcript.invocations[0].marks] == ["mistake"]


def test_an_empty_stream_is_a_lead_that_did_nothing() -> None:
    transcript = fold_transcript([])
    assert [agent.items for agent in transcript.invocations] == [()]
    assert (transcript.first_ms, timeline(transcript)) == (None, ())


def test_a_huge_output_is_kept_whole() -> None:
    output = lead(recorded("3.0.57/big_output"))
    sizes = [len(json.dumps(item.output)) for item in output if isinstance(item, FunctionCallOutput)]
    assert max(sizes) > 40_000


def test_json_holds_responses_items_with_arguments_as_text() -> None:
    written = transcript_json(folded(call(), ended(output=[{"success": True}])))
    assert isinstance(written, dict)
    invocations = written["invocations"]
    assert isinstance(invocations, list)
    assert isinstance(invocations[0], dict)
    assert invocations[0]["items"] == [
        {
            "type": "function_call", "call_id": "c", "name": "run_commands",
            "arguments": '{"commands": ["ls"]}', "status": "completed", "child_invocation_id": None,
        },
        {
            "type": "function_call_output", "call_id": "c", "output": '[{"success": true}]',
            "status": "completed", "error": None, "duration_ms": None,
        },
    ]  # fmt: skip
