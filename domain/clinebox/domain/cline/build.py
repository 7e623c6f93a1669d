"""One parsed line to one event: a small builder a record type (FORMAT.md §2, Cline 3.0.57 to 3.0.65)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from clinebox.domain.cline.events import (
    AgentError,
    Done,
    Event,
    Hook,
    IterationEnd,
    IterationStart,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    RunAborted,
    RunResult,
    RunStart,
    TeamRecord,
    TextDelta,
    TextEnd,
    TokenCounts,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    TurnUsage,
    UnknownRecord,
)
from clinebox.domain.json_value import JsonValue, as_bool, as_int, as_mapping, as_text

KIND_LIMIT: Final = 200
"""Characters of a foreign type name that are kept."""

_Body: TypeAlias = dict[str, JsonValue]
_Builder: TypeAlias = Callable[[_Body, bytes], Event]


def build_event(record: _Body, raw: bytes) -> Event:
    """The event of one record; a type that no builder knows is kept by name and decides nothing."""
    kind = record.get("type")
    builder = _RECORDS.get(kind) if isinstance(kind, str) else None
    return builder(record, raw) if builder is not None else _unknown(kind)


def _agent_event(record: _Body, raw: bytes) -> Event:
    body = as_mapping(record.get("event"))
    kind = body.get("type")
    content = body.get("contentType")
    key = f"{kind} {content}" if isinstance(kind, str) and isinstance(content, str) else kind
    builder = _AGENT_EVENTS.get(key) if isinstance(key, str) else None
    return builder(body, raw) if builder is not None else _unknown(key)


def _unknown(kind: JsonValue) -> UnknownRecord:
    return UnknownRecord(kind[:KIND_LIMIT] if isinstance(kind, str) else "")


def token_counts(usage: Mapping[str, JsonValue]) -> TokenCounts:
    """Cline's token counts; a negative number is no count. An absent cache field of a turn means none."""
    return TokenCounts(
        input=_count(usage.get("inputTokens")),
        output=_count(usage.get("outputTokens")),
        cache_read=_count(usage.get("cacheReadTokens")),
        cache_write=_count(usage.get("cacheWriteTokens")),
    )


def _count(value: JsonValue) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _hook(record: _Body, _raw: bytes) -> Event:
    return Hook(
        name=as_text(record.get("hookEventName")) or "",
        agent_id=as_text(record.get("agentId")),
        parent_agent_id=as_text(record.get("parentAgentId")),
    )


def _iteration_start(body: _Body, _raw: bytes) -> Event:
    return IterationStart(as_int(body.get("iteration")))


def _iteration_end(body: _Body, _raw: bytes) -> Event:
    return IterationEnd(
        iteration=as_int(body.get("iteration")),
        had_tool_calls=as_bool(body.get("hadToolCalls")),
        tool_call_count=as_int(body.get("toolCallCount")),
    )


def _text_delta(_body: _Body, raw: bytes) -> Event:
    return TextDelta(raw)


def _reasoning_delta(body: _Body, _raw: bytes) -> Event:
    return ReasoningDelta(as_text(body.get("reasoning")) or "", redacted=body.get("redacted") is True)


def _text_end(body: _Body, _raw: bytes) -> Event:
    return TextEnd(as_text(body.get("text")) or "")


def _reasoning_end(body: _Body, _raw: bytes) -> Event:
    return ReasoningEnd(as_text(body.get("reasoning")) or "")


def _tool_start(body: _Body, _raw: bytes) -> Event:
    return ToolStart(
        tool_name=as_text(body.get("toolName")) or "",
        tool_call_id=as_text(body.get("toolCallId")) or "",
        arguments=body.get("input"),
    )


def _tool_update(body: _Body, _raw: bytes) -> Event:
    update = as_mapping(body.get("update"))
    return ToolUpdate(
        tool_name=as_text(body.get("toolName")) or "",
        tool_call_id=as_text(body.get("toolCallId")) or "",
        stream=as_text(update.get("stream")),
        chunk=as_text(update.get("chunk")),
    )


def _tool_end(body: _Body, _raw: bytes) -> Event:
    return ToolEnd(
        tool_name=as_text(body.get("toolName")) or "",
        tool_call_id=as_text(body.get("toolCallId")) or "",
        output=body.get("output"),
        error=as_text(body.get("error")),
        duration_ms=as_int(body.get("durationMs")),
    )


def _turn_usage(body: _Body, _raw: bytes) -> Event:
    return TurnUsage(token_counts(body))


def _notice(body: _Body, _raw: bytes) -> Event:
    metadata = as_mapping(body.get("metadata"))
    return Notice(
        kind=as_text(metadata.get("kind")),
        phase=as_text(metadata.get("phase")),
        message=as_text(body.get("message")),
        reason=as_text(body.get("reason")),
    )


def _error(body: _Body, _raw: bytes) -> Event:
    error = as_mapping(body.get("error"))
    return AgentError(
        name=as_text(error.get("name")),
        message=as_text(error.get("message")),
        error_class=as_text(body.get("errorClass")),
        recoverable=as_bool(body.get("recoverable")),
        iteration=as_int(body.get("iteration")),
    )


def _done(body: _Body, _raw: bytes) -> Event:
    return Done(
        reason=as_text(body.get("reason")),
        text=as_text(body.get("text")),
        iterations=as_int(body.get("iterations")),
    )


def _team(record: _Body, raw: bytes) -> Event:
    body = as_mapping(record.get("event"))
    kind = as_text(body.get("type"))
    return TeamRecord(
        kind=kind,
        agent_id=as_text(body.get("agentId")),
        message=as_text(body.get("error")) or as_text(body.get("message")),
        inner=_agent_event(body, raw) if kind == "agent_event" else None,
    )


def _run_result(record: _Body, _raw: bytes) -> Event:
    model = as_mapping(record.get("model"))
    return RunResult(
        finish_reason=as_text(record.get("finishReason")),
        iterations=as_int(record.get("iterations")),
        usage=token_counts(as_mapping(record.get("usage"))),
        duration_ms=as_int(record.get("durationMs")),
        text=as_text(record.get("text")),
        model_id=as_text(model.get("id")),
        provider=as_text(model.get("provider")),
    )


def _run_aborted(record: _Body, _raw: bytes) -> Event:
    return RunAborted(reason=as_text(record.get("reason")), message=as_text(record.get("message")))


def _run_start(record: _Body, _raw: bytes) -> Event:
    return RunStart(provider_id=as_text(record.get("providerId")), model_id=as_text(record.get("modelId")))


_AGENT_EVENTS: Final[dict[str, _Builder]] = {
    "iteration_start": _iteration_start,
    "iteration_end": _iteration_end,
    "content_start text": _text_delta,
    "content_start reasoning": _reasoning_delta,
    "content_start tool": _tool_start,
    "content_update tool": _tool_update,
    "content_end text": _text_end,
    "content_end reasoning": _reasoning_end,
    "content_end tool": _tool_end,
    "usage": _turn_usage,
    "notice": _notice,
    "error": _error,
    "done": _done,
}

_RECORDS: Final[dict[str, _Builder]] = {
    "hook_event": _hook,
    "agent_event": _agent_event,
    "team_event": _team,
    "run_result": _run_result,
    "run_aborted": _run_aborted,
    "run_start": _run_start,
}
