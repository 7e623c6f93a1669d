"""`model_calls.jsonl`: one line a call, written when the session is over (SPEC §14)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, TypeVar

from clinebox.domain.bounded_json import bounded_json
from clinebox.domain.json_value import JsonValue, as_bool, as_int, as_list, as_mapping, as_text
from clinebox.domain.model_calls.answer import read_error
from clinebox.domain.model_calls.record import (
    CallEnd,
    CallFlag,
    CallPhase,
    CallTimes,
    CallUsage,
    ModelCall,
    ObservedResponse,
    RequestFacts,
)
from clinebox.domain.model_calls.turns import TurnRef

MODEL_CALLS_NAME: Final = "model_calls.jsonl"
INT_LIMIT: Final = 1 << 53
"""Of a number that is kept: every JSON reader has it exactly."""

_Body = dict[str, JsonValue]
_Word = TypeVar("_Word", CallEnd, CallFlag, CallPhase)


def model_call_lines(calls: Sequence[ModelCall], turns: Sequence[TurnRef | None] = ()) -> Iterator[bytes]:
    """The whole record of an ended session as JSON lines, in order of arrival.

    `turns` are the turns that the calls were made for, one a call, as `join_turns` tells them.
    """
    for call, turn in zip_longest(calls, turns[: len(calls)]):
        text = json.dumps(call_to_json(call, len(calls), turn), ensure_ascii=False, separators=(",", ":"))
        yield text.encode("utf-8", "replace") + b"\n"


def call_to_json(call: ModelCall, of: int | None, turn: TurnRef | None = None) -> dict[str, JsonValue]:
    """One call for programs. `of` is how many calls the whole record has, so that a cut one can be told.

    `of` None is for a glance at a session that goes on; a record with it is never taken for a whole one.
    """
    return {
        "number": call.number,
        "of": of,
        "turn": None if turn is None else {"invocation_id": turn.invocation_id, "iteration": turn.iteration},
        "method": call.method,
        "path": call.path,
        "model": call.request.model,
        "has_tools": call.request.has_tools,
        "streamed": call.request.streamed,
        "messages": call.request.messages,
        **_times_json(call.times),
        "recorded_at_s": call.recorded_at_s,
        "phase": call.phase.value,
        "http_status": call.http_status,
        "end": None if call.end is None else call.end.value,
        **_response_json(call.response),
        "request_bytes": call.request_bytes,
        "response_bytes": call.response_bytes,
        "sampling": bounded_json(dict(call.sampling), mask=str),
        "gateway_status": call.gateway_status,
        "gateway_error": call.gateway_error,
    }


def _times_json(times: CallTimes) -> _Body:
    return {
        "received_at_s": times.received_at_s,
        "upstream_connected_at_s": times.upstream_connected_at_s,
        "first_byte_at_s": times.first_byte_at_s,
        "last_byte_at_s": times.last_byte_at_s,
        "ended_at_s": times.ended_at_s,
    }


def _response_json(said: ObservedResponse) -> _Body:
    usage, error = said.usage, said.error
    return {
        "finish_reason": said.finish_reason,
        "usage": None if usage is None else _usage_json(usage),
        "response_id": said.response_id,
        "upstream_model": said.upstream_model,
        "tool_call_count": said.tool_call_count,
        "terminal_event": said.terminal_event,
        "error": None if error is None else {"message": error.message, "code": error.code},
        "produced_output": said.produced_output,
        "flags": [*sorted(flag.value for flag in said.flags)],
    }


def _usage_json(usage: CallUsage) -> JsonValue:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }


def call_from_json(value: JsonValue) -> ModelCall | None:
    """The call of one line; a member of another type is not there. None for what is no call.

    A call has a number of 1 or more, a path, and the time of its arrival.
    """
    members = as_mapping(value)
    number, path = _count(members.get("number")), as_text(members.get("path"))
    received_at_s = _seconds(members.get("received_at_s"))
    if not number or path is None or received_at_s is None:
        return None
    return ModelCall(
        number=number,
        path=path,
        times=_times(members, received_at_s),
        method=as_text(members.get("method")) or "POST",
        request=_request(members),
        recorded_at_s=_seconds(members.get("recorded_at_s")),
        phase=_word(members.get("phase"), CallPhase) or CallPhase.ENDED,
        http_status=_count(members.get("http_status")),
        end=_word(members.get("end"), CallEnd),
        response=_response(members),
        request_bytes=_count(members.get("request_bytes")) or 0,
        response_bytes=_count(members.get("response_bytes")) or 0,
        sampling=as_mapping(members.get("sampling")),
        gateway_status=_count(members.get("gateway_status")),
        gateway_error=as_text(members.get("gateway_error")),
    )


def _times(members: _Body, received_at_s: float) -> CallTimes:
    return CallTimes(
        received_at_s,
        upstream_connected_at_s=_seconds(members.get("upstream_connected_at_s")),
        first_byte_at_s=_seconds(members.get("first_byte_at_s")),
        last_byte_at_s=_seconds(members.get("last_byte_at_s")),
        ended_at_s=_seconds(members.get("ended_at_s")),
    )


def _request(members: _Body) -> RequestFacts:
    return RequestFacts(
        model=as_text(members.get("model")),
        has_tools=as_bool(members.get("has_tools")),
        streamed=as_bool(members.get("streamed")),
        messages=_count(members.get("messages")),
    )


def _response(members: _Body) -> ObservedResponse:
    flags, error = as_list(members.get("flags")), members.get("error")
    return ObservedResponse(
        finish_reason=as_text(members.get("finish_reason")),
        usage=_usage(members.get("usage")),
        response_id=as_text(members.get("response_id")),
        upstream_model=as_text(members.get("upstream_model")),
        tool_call_count=_count(members.get("tool_call_count")) or 0,
        terminal_event=as_bool(members.get("terminal_event")) is True,
        error=read_error(error) if isinstance(error, dict) else None,
        produced_output=as_bool(members.get("produced_output")) is True,
        flags=frozenset(flag for flag in CallFlag if flag.value in flags),
    )


def _usage(value: JsonValue) -> CallUsage | None:
    if not isinstance(value, dict):
        return None
    return CallUsage(
        prompt_tokens=_count(value.get("prompt_tokens")),
        cached_tokens=_count(value.get("cached_tokens")),
        completion_tokens=_count(value.get("completion_tokens")),
        reasoning_tokens=_count(value.get("reasoning_tokens")),
    )


def _word(value: JsonValue, words: type[_Word]) -> _Word | None:
    return next((word for word in words if word.value == value), None)


def _count(value: JsonValue) -> int | None:
    number = as_int(value)
    return number if number is not None and 0 <= number <= INT_LIMIT else None


def _seconds(value: JsonValue) -> float | None:
    """A time that arithmetic can take: finite, within what a clock can show."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # NaN is in no range, and an integer beyond every float is compared exactly.
    return float(value) if 0 <= value <= INT_LIMIT else None
