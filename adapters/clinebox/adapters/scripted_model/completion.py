"""A turn in the wire format of OpenAI's chat completions, streamed or whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clinebox.adapters.scripted_model.script import ToolCall, Turn, Usage
from clinebox.domain.json_value import JsonValue

Delta = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Play:
    """One playing of a turn, for one request."""

    turn: Turn
    number: int
    """The turn's place in the script, from 1."""
    count: int
    """How often it has been played, with this time."""
    model: str
    created_s: int
    """The wall clock's seconds."""
    wants_usage: bool
    """`stream_options.include_usage` of the request."""

    @property
    def completion_id(self) -> str:
        """The response's id: the same in all of its chunks, another for each play."""
        return f"chatcmpl-scripted-{self.number}-{self.count}"

    def tool_call_id(self, call: ToolCall, position: int) -> str:
        """The call's own id, else one that no other call of the script has."""
        repeated = f"_{self.count}" if self.count > 1 else ""
        return call.id or f"call_{self.number}_{position + 1}{repeated}"


def content_chunks(play: Play) -> list[JsonValue]:
    """The chunks with something in them: reasoning, then text, then the calls, in pieces."""
    deltas = list(_content_deltas(play))
    return [
        _chunk(play, delta, usage=_running(play, place, len(deltas))) for place, delta in enumerate(deltas, 1)
    ]


def first_chunk(play: Play) -> JsonValue:
    """The chunk that names the role."""
    return _chunk(play, {"role": "assistant", "content": ""}, usage=_running(play, 0, 1))


def last_chunks(play: Play) -> list[JsonValue]:
    """The finish reason, then the usage on an empty list of choices, as far as they are sent."""
    turn = play.turn
    chunks: list[JsonValue] = []
    if turn.finish is not None:
        chunks.append(_chunk(play, {}, finish=turn.finish, usage=_running(play, 1, 1)))
    if turn.usage is not None and (play.wants_usage or turn.usage_every_chunk):
        chunks.append(
            {**_envelope(play, "chat.completion.chunk"), "choices": [], "usage": usage_object(turn.usage)}
        )
    return chunks


def whole_completion(play: Play) -> JsonValue:
    """The answer to a request without `stream`."""
    turn = play.turn
    message: Delta = {"role": "assistant", "content": _joined(turn.text)}
    if turn.reasoning:
        message[turn.reasoning_field] = _joined(turn.reasoning)
    if turn.tool_calls:
        message["tool_calls"] = [_whole_call(play, call, at) for at, call in enumerate(turn.tool_calls)]
    choice: JsonValue = {"index": 0, "message": message, "finish_reason": turn.finish}
    usage: Delta = {} if turn.usage is None else {"usage": usage_object(turn.usage)}
    return {**_envelope(play, "chat.completion"), "choices": [choice], **usage}


def usage_object(usage: Usage) -> JsonValue:
    """OpenAI's usage object; details that the script leaves out are not there."""
    details: Delta = {}
    if usage.cached_tokens is not None:
        details["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    if usage.reasoning_tokens is not None:
        details["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        **details,
    }


def arguments_text(call: ToolCall) -> str:
    """The arguments as the model writes them."""
    if isinstance(call.arguments, str):
        return call.arguments
    return json.dumps(call.arguments, ensure_ascii=False)


def _content_deltas(play: Play) -> Iterator[Delta]:
    turn = play.turn
    for part in _split(turn.reasoning, turn.chunk_size):
        yield {turn.reasoning_field: part}
    for part in _split(turn.text, turn.chunk_size):
        yield {"content": part}
    for position, call in enumerate(turn.tool_calls):
        yield _call_delta(position, {"name": call.name, "arguments": ""}, play.tool_call_id(call, position))
        for part in _split(arguments_text(call), turn.chunk_size):
            yield _call_delta(position, {"arguments": part})


def _call_delta(position: int, function: Delta, call_id: str | None = None) -> Delta:
    opening: Delta = {} if call_id is None else {"id": call_id, "type": "function"}
    return {"tool_calls": [{"index": position, **opening, "function": function}]}


def _whole_call(play: Play, call: ToolCall, position: int) -> JsonValue:
    function: Delta = {"name": call.name, "arguments": arguments_text(call)}
    return {"id": play.tool_call_id(call, position), "type": "function", "function": function}


def _split(text: str | Sequence[str], size: int) -> Sequence[str]:
    """The script's own chunks, or pieces of `size` characters."""
    if not isinstance(text, str):
        return text
    return [text[start : start + size] for start in range(0, len(text), size)]


def _joined(text: str | Sequence[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _running(play: Play, place: int, of: int) -> Usage | None:
    """The totals so far, for servers that send them in every chunk (vLLM's continuous_usage_stats)."""
    usage = play.turn.usage
    if usage is None or not play.turn.usage_every_chunk:
        return None
    return usage.model_copy(update={"completion_tokens": usage.completion_tokens * place // of})


def _chunk(play: Play, delta: Delta, *, finish: str | None = None, usage: Usage | None = None) -> JsonValue:
    choice: JsonValue = {"index": 0, "delta": delta, "finish_reason": finish}
    reported: Delta = {} if usage is None else {"usage": usage_object(usage)}
    return {**_envelope(play, "chat.completion.chunk"), "choices": [choice], **reported}


def _envelope(play: Play, kind: str) -> Delta:
    return {"id": play.completion_id, "object": kind, "created": play.created_s, "model": play.model}
