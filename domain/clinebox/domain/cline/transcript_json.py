"""The transcript as JSON: Responses items, and beside them the timeline (transcript.json)."""

from __future__ import annotations

import json
from typing import assert_never

from clinebox.domain.cline.timeline import TimelineEntry, TimelineMark, ToolSpan, TurnSpan, timeline
from clinebox.domain.cline.transcript_model import (
    FunctionCall,
    FunctionCallOutput,
    Invocation,
    Item,
    Message,
    Reasoning,
    Transcript,
)
from clinebox.domain.json_value import JsonValue


def transcript_json(transcript: Transcript) -> JsonValue:
    """`{invocations: [{invocation_id, …, items}], timeline: […]}`, flat enough for every JSON writer."""
    return {
        "invocations": [_invocation(agent) for agent in transcript.invocations],
        "timeline": [_timeline_entry(entry) for entry in timeline(transcript)],
    }


def item_json(item: Item) -> JsonValue:
    """One Responses item; `arguments` and a structured `output` are JSON texts, as Responses has them."""
    match item:
        case Message(text, status):
            content: list[JsonValue] = [{"type": "output_text", "text": text, "annotations": []}]
            return {"type": "message", "role": "assistant", "status": status.value, "content": content}
        case Reasoning():
            return _reasoning(item)
        case FunctionCall():
            return _call(item)
        case FunctionCallOutput():
            return _output(item)
        case _:
            assert_never(item)


def _invocation(agent: Invocation) -> JsonValue:
    return {
        "invocation_id": agent.invocation_id,
        "parent_invocation_id": agent.parent_invocation_id,
        "spawned_by_tool_call_id": agent.spawned_by_call_id,
        "agent_id": agent.agent_id,
        "status": agent.status.value,
        "items": [item_json(item) for item in agent.items],
    }


def _reasoning(item: Reasoning) -> JsonValue:
    return {
        "type": "reasoning",
        "status": item.status.value,
        "summary": [],
        "content": [{"type": "reasoning_text", "text": item.text}],
        "redacted": item.redacted,
    }


def _call(item: FunctionCall) -> JsonValue:
    return {
        "type": "function_call",
        "call_id": item.call_id,
        "name": item.name,
        "arguments": _json_text(item.arguments),
        "status": item.status.value,
        "child_invocation_id": item.child_invocation_id,
    }


def _output(item: FunctionCallOutput) -> JsonValue:
    text = item.output if isinstance(item.output, str) else _json_text(item.output)
    return {
        "type": "function_call_output",
        "call_id": item.call_id,
        "output": text,
        "status": "completed",
        "error": item.error,
        "duration_ms": item.duration_ms,
    }


def _json_text(value: JsonValue) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        # The parser reads to a depth that the writer, called from deeper down, may not reach again.
        return '"(nested too deeply to be written)"'


def _timeline_entry(entry: TimelineEntry) -> JsonValue:
    match entry:
        case TurnSpan():
            return {
                "kind": "turn",
                "invocation_id": entry.invocation_id,
                "iteration": entry.iteration,
                "start_ms": entry.start_ms,
                "answered_ms": entry.answered_ms,
                "end_ms": entry.end_ms,
            }
        case ToolSpan():
            return _tool_span(entry)
        case TimelineMark():
            return {
                "kind": "mark",
                "name": entry.kind,
                "invocation_id": entry.invocation_id,
                "message": entry.message,
                "start_ms": entry.start_ms,
            }
        case _:
            assert_never(entry)


def _tool_span(span: ToolSpan) -> JsonValue:
    return {
        "kind": "tool",
        "invocation_id": span.invocation_id,
        "call_id": span.call_id,
        "name": span.name,
        "start_ms": span.start_ms,
        "end_ms": span.end_ms,
        "duration_ms": span.duration_ms,
        "status": span.status.value,
        "failed": span.failed,
    }
