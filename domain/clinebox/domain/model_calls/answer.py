"""What the JSON of an answer says: chat completions and Responses, streamed or whole.

Upstreams differ: usage once, in every chunk or never; `[DONE]` or none; an error object with status 200.
"""

from __future__ import annotations

from typing import Final

from clinebox.domain.json_value import JsonValue, as_int, as_list, as_mapping, as_text
from clinebox.domain.model_calls.record import CallUsage, UpstreamError

TEXT_LIMIT_CHARS: Final = 200
"""Of an id, a model's name, a finish reason."""
MESSAGE_LIMIT_CHARS: Final = 2_000
CALLS_LIMIT: Final = 4_096
"""Tool calls of one answer that are told apart."""
TOKENS_LIMIT: Final = 1 << 53
"""A count beyond it is no count (and no other JSON reader would keep it exact)."""

_OUTPUT_KEYS: Final = ("content", "reasoning_content", "reasoning", "refusal", "reasoning_details")
_RESPONSES_TERMINAL: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)
_RESPONSES_REASONS: Final = {"max_output_tokens": "length", "max_tokens": "length"}

_Body = dict[str, JsonValue]


class AnswerFold:
    """Folds the parsed events of one answer, in order."""

    __slots__ = (
        "_calls",
        "error",
        "finish_reason",
        "model",
        "produced_output",
        "response_id",
        "terminal",
        "usage",
    )

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self.usage: CallUsage | None = None
        self.response_id: str | None = None
        self.model: str | None = None
        self.error: UpstreamError | None = None
        self.produced_output = False
        self.terminal = False
        self._calls: set[int | str] = set()

    @property
    def tool_calls(self) -> int:
        """How many tool calls came."""
        return len(self._calls)

    def feed(self, value: JsonValue) -> None:
        """Take one event's JSON, or the whole body's."""
        if not isinstance(value, dict):
            return
        kind = as_text(value.get("type")) or ""
        if kind.startswith("response."):
            self._responses_event(kind, value)
        elif value.get("object") == "response":
            self._response(value)
        else:
            self._chunk(value, kind)

    def _chunk(self, value: _Body, kind: str) -> None:
        self._name(value)
        self._count(value.get("usage"))
        for choice in as_list(value.get("choices")):
            self._choice(as_mapping(choice))
        if value.get("error"):
            self._fail(value["error"])
        elif kind == "error" or value.get("object") == "error":
            # Responses' own error event, and vLLM's old error object, stand at the top.
            self._fail(value)

    def _choice(self, choice: _Body) -> None:
        said = as_mapping(choice.get("delta")) or as_mapping(choice.get("message"))
        if any(said.get(key) for key in _OUTPUT_KEYS) or as_text(choice.get("text")):
            self.produced_output = True
        for position, call in enumerate(as_list(said.get("tool_calls"))):
            index = as_int(as_mapping(call).get("index"))
            self._call(position if index is None else index)
        if said.get("function_call"):
            self._call(0)
        self._finish(choice.get("finish_reason"))

    def _call(self, key: int | str) -> None:
        self.produced_output = True
        if len(self._calls) < CALLS_LIMIT:
            self._calls.add(key)

    def _responses_event(self, kind: str, value: _Body) -> None:
        if isinstance(value.get("response"), dict):
            self._response(as_mapping(value["response"]))
        item = as_mapping(value.get("item"))
        if kind == "response.output_item.added" and item.get("type") == "function_call":
            self._call(as_int(value.get("output_index")) or 0)
        if kind.endswith(".delta") and value.get("delta"):
            self.produced_output = True
        self.terminal = self.terminal or kind in _RESPONSES_TERMINAL

    def _response(self, value: _Body) -> None:
        """A Responses object; its status is told in the words of chat completions."""
        self._name(value)
        self._count(value.get("usage"))
        for position, item in enumerate(as_list(value.get("output"))):
            self._item(position, as_mapping(item))
        if value.get("error"):
            self._fail(value["error"])
        match value.get("status"):
            case "completed":
                self._finish("tool_calls" if self._calls else "stop")
            case "incomplete":
                reason = as_text(as_mapping(value.get("incomplete_details")).get("reason"))
                self._finish(_RESPONSES_REASONS.get(reason or "", reason))
            case "cancelled":
                self._finish("abort")
            case _:
                pass

    def _item(self, position: int, item: _Body) -> None:
        if item.get("type") == "function_call":
            self._call(position)
        elif item.get("content") or item.get("summary"):
            self.produced_output = True

    def _name(self, value: _Body) -> None:
        self.response_id = self.response_id or _short(value.get("id"))
        self.model = self.model or _short(value.get("model"))

    def _finish(self, value: JsonValue) -> None:
        self.finish_reason = _short(value) or self.finish_reason

    def _count(self, value: JsonValue) -> None:
        usage = read_usage(value)
        self.usage = usage or self.usage

    def _fail(self, value: JsonValue) -> None:
        if self.error is None:
            self.error = read_error(value)


def read_usage(value: JsonValue) -> CallUsage | None:
    """A usage object of either API; None where it counts nothing.

    >>> read_usage({"prompt_tokens": 7, "completion_tokens": True})
    CallUsage(prompt_tokens=7, cached_tokens=None, completion_tokens=None, reasoning_tokens=None)
    """
    members = as_mapping(value)
    chat = "prompt_tokens" in members or "completion_tokens" in members
    into, out = ("prompt_tokens", "completion_tokens") if chat else ("input_tokens", "output_tokens")
    usage = CallUsage(
        prompt_tokens=_tokens(members.get(into)),
        cached_tokens=_tokens(as_mapping(members.get(f"{into}_details")).get("cached_tokens")),
        completion_tokens=_tokens(members.get(out)),
        reasoning_tokens=_tokens(as_mapping(members.get(f"{out}_details")).get("reasoning_tokens")),
    )
    return None if usage == CallUsage() else usage


def read_error(value: JsonValue) -> UpstreamError:
    """An error object, or a bare sentence in its place."""
    members = as_mapping(value)
    code = members.get("code")
    message = as_text(value) if not members else as_text(members.get("message"))
    return UpstreamError(
        message=None if message is None else message[:MESSAGE_LIMIT_CHARS],
        code=_small(as_int(code)) if as_text(code) is None else _short(code),
    )


def _tokens(value: JsonValue) -> int | None:
    count = as_int(value)
    return count if count is not None and 0 <= count <= TOKENS_LIMIT else None


def _small(value: int | None) -> int | None:
    return value if value is not None and abs(value) <= TOKENS_LIMIT else None


def _short(value: JsonValue) -> str | None:
    text = as_text(value)
    return text[:TEXT_LIMIT_CHARS] if text else None
