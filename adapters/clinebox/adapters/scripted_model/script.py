"""What a scripted model plays: turns as data, checked before anything is served."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    model_validator,
)

from clinebox.adapters.scripted_model.values import (
    checked_arguments,
    checked_headers,
    checked_json,
    checked_text,
)


class Fault(StrEnum):
    """What goes wrong with a turn.

    `*_mid_stream` strikes after `after_chunks` content chunks, `*_at_end` after all that a client waits
    for (`[DONE]`, or the last byte of the length announced). `reset_*` ends with RST, `close_*` with FIN.
    """

    REFUSE = "refuse"
    """Connections are refused while this is the next turn: see `ScriptedModelServer`."""
    RESET_BEFORE_HEADERS = "reset_before_headers"
    RESET_AFTER_HEADERS = "reset_after_headers"
    RESET_MID_STREAM = "reset_mid_stream"
    RESET_AT_END = "reset_at_end"
    CLOSE_BEFORE_HEADERS = "close_before_headers"
    CLOSE_AFTER_HEADERS = "close_after_headers"
    CLOSE_MID_STREAM = "close_mid_stream"
    CLOSE_AT_END = "close_at_end"
    """Without the last chunk of the chunked coding: FIN where RFC 9112 calls the body incomplete."""
    HANG_BEFORE_HEADERS = "hang_before_headers"
    HANG_AFTER_HEADERS = "hang_after_headers"
    HANG_MID_STREAM = "hang_mid_stream"
    HANG_AT_END = "hang_at_end"
    HTML = "html"
    """A page of HTML with status 200, as a captive portal or a wrong port sends."""
    JSON = "json"
    """One JSON completion although a stream was asked for."""
    EMPTY_BODY = "empty_body"
    """Status 200, `text/event-stream`, not one event."""
    REDIRECT = "redirect"
    MALFORMED_SSE = "malformed_sse"
    """A `data:` line that is no JSON, before any chunk; the answer follows."""
    MALFORMED_SSE_MID_STREAM = "malformed_sse_mid_stream"
    SSE_ERROR = "sse_error"
    """`data: {"error": ...}` with status 200 instead of any chunk."""
    SSE_ERROR_MID_STREAM = "sse_error_mid_stream"

    @property
    def hangs(self) -> bool:
        """Whether the call waits, until released or for `for_s`, and then goes on."""
        return self.startswith("hang_")

    @property
    def strikes_mid_stream(self) -> bool:
        """Whether part of the answer comes before it."""
        return self.endswith("_mid_stream")

    @property
    def strikes_at_end(self) -> bool:
        """Whether the whole answer comes before it."""
        return self.endswith("_at_end")


class Framing(StrEnum):
    """How a stream's end is marked (RFC 9112 section 6.3)."""

    CHUNKED = "chunked"
    CLOSE = "close"
    """By closing the connection: a cut stream then looks like a whole one."""


OWN_ANSWERS: Final = frozenset(
    {Fault.HTML, Fault.JSON, Fault.EMPTY_BODY, Fault.REDIRECT, Fault.SSE_ERROR, Fault.SSE_ERROR_MID_STREAM}
)
"""Faults that say what is answered; `body` and `status` only fill it in."""
REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
DEFAULT_REDIRECT_STATUS: Final = 307
FIRST_ERROR_STATUS: Final = 300


Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
TextOrChunks = Annotated[str | tuple[str, ...], PlainValidator(checked_text)]


class ScriptModel(BaseModel):
    """Common to all parts of a script: nothing unknown, nothing coerced, nothing changed later."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ToolCall(ScriptModel):
    """One call of a tool; `arguments` as a text is sent as it stands, malformed or not."""

    name: str
    arguments: Annotated[JsonValue, PlainValidator(checked_arguments)] = Field(default_factory=dict)
    id: str | None = None
    """Default `call_<turn>_<n>`, both from 1; `call_<turn>_<n>_<play>` when the turn is repeated."""


class Usage(ScriptModel):
    """Tokens as the server reports them; a detail that is null is not sent."""

    prompt_tokens: int = Field(default=100, ge=0)
    completion_tokens: int = Field(default=10, ge=0)
    cached_tokens: int | None = Field(default=None, ge=0)
    reasoning_tokens: int | None = Field(default=None, ge=0)


class Match(ScriptModel):
    """Which requests a turn is for; every condition given must hold."""

    last_message_contains: str | None = None
    """In the text of the last user or tool message."""
    system_contains: str | None = None
    """In the system message: how a sub-agent is told from its parent."""
    has_tools: bool | None = None
    """False for Cline's compaction call, the only one without tools (seen in 3.0.57 to 3.0.65)."""

    @model_validator(mode="after")
    def _has_a_condition(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("needs at least one of: last_message_contains, system_contains, has_tools")
        return self


class Comments(ScriptModel):
    """SSE comments sent after the headers and before the first chunk, as keep-alives are."""

    count: int = Field(ge=1, le=100_000)
    every_s: Seconds = 0.0


class Turn(ScriptModel):
    """One answer of the model, or what comes in its place."""

    text: TextOrChunks = ""
    reasoning: TextOrChunks = ""
    reasoning_field: str = "reasoning_content"
    """The delta's key: `reasoning_content` (DeepSeek, llama.cpp), `reasoning` (newer vLLM)."""
    tool_calls: Annotated[tuple[ToolCall, ...], Field(strict=False)] = ()
    chunk_size: int = Field(default=16, ge=1)
    """Characters of a chunk, where `text` or `reasoning` is no list, and of the arguments."""
    delay_s: Seconds = 0.0
    """Before each content chunk but the first."""
    comments: Comments | None = None
    usage: Usage | None = Field(default_factory=Usage)
    """Null: the server reports none."""
    usage_every_chunk: bool = False
    """Running totals in every chunk, asked for or not."""
    finish_reason: str | None = None
    """Default `stop`, or `tool_calls` with calls; an explicit null sends none."""
    done: bool = True
    """Whether `data: [DONE]` ends the stream."""
    framing: Annotated[Framing, Field(strict=False)] = Framing.CHUNKED
    crlf: bool = False
    """Lines of the stream end in CRLF."""
    data_space: bool = True
    """`data: {` or `data:{`."""
    write_bytes: int | None = Field(default=None, ge=1)
    """Cuts the stream in writes of so many bytes, also inside a character."""
    status: Annotated[int, Field(ge=200, le=599)] | None = None
    body: Annotated[JsonValue, PlainValidator(checked_json)] = None
    """Sent in place of a completion: a text as it stands, anything else as JSON."""
    headers: Annotated[dict[str, str], AfterValidator(checked_headers)] = Field(default_factory=dict)
    fault: Annotated[Fault, Field(strict=False)] | None = None
    for_s: Seconds | None = None
    """How long a `hang_*` or `refuse` lasts; without it until released."""
    after_chunks: int | None = Field(default=None, ge=0)
    """When a `*_mid_stream` fault strikes; default: after half of the content chunks, rounded up."""
    fault_delay_s: Seconds = 0.25
    """Before a connection is cut after the headers or mid-stream, for the client to read what came before.

    Without it the cut arrives together with the answer, and Cline 3.0.65 has read nothing of it: it
    tries again, as after a cut behind the headers, where it would give up in mid-answer.
    """
    location: str | None = None
    """Where a redirect leads; default: to the request's own path, for ever."""
    repeat: int = Field(default=1, ge=-1)
    """How often the turn is played; -1: for ever."""
    match: Match | None = None

    @property
    def finish(self) -> str | None:
        """The finish reason that is sent."""
        if "finish_reason" in self.model_fields_set:
            return self.finish_reason
        return "tool_calls" if self.tool_calls else "stop"

    @property
    def answers_with_body(self) -> bool:
        """Whether `status` or `body` takes the place of a completion."""
        return self.fault not in OWN_ANSWERS and (self.status is not None or "body" in self.model_fields_set)

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        for broken, sentence in _contradictions(self):
            if broken:
                raise ValueError(sentence)
        return self


def _contradictions(turn: Turn) -> tuple[tuple[bool, str], ...]:
    fault = turn.fault
    has_content = bool(turn.text or turn.reasoning or turn.tool_calls)
    waits = fault is not None and (fault.hangs or fault is Fault.REFUSE)
    cuts = fault is not None and fault.strikes_mid_stream
    refuses = fault is Fault.REFUSE
    redirects = fault is Fault.REDIRECT
    return (
        (turn.repeat == 0, "repeat: 0 would never play the turn; allowed: 1 and more, or -1 for ever"),
        (turn.for_s is not None and not waits, "for_s goes only with fault: hang_* or refuse"),
        (turn.after_chunks is not None and not cuts, "after_chunks goes only with fault: *_mid_stream"),
        (turn.location is not None and not redirects, "location goes only with fault: redirect"),
        (
            redirects and turn.status is not None and turn.status not in REDIRECT_STATUSES,
            f"a redirect's status is one of {sorted(REDIRECT_STATUSES)}",
        ),
        (
            has_content and turn.answers_with_body,
            "status and body are sent in place of a completion: leave out text, reasoning, tool_calls",
        ),
        (
            turn.answers_with_body and fault in (Fault.MALFORMED_SSE, Fault.MALFORMED_SSE_MID_STREAM),
            "status and body are sent in place of a stream: they do not go with fault: malformed_sse*",
        ),
        (
            turn.status is not None and fault in (Fault.SSE_ERROR, Fault.SSE_ERROR_MID_STREAM),
            "fault: sse_error* is an error with status 200: leave out status",
        ),
        (
            refuses and (turn.repeat != 1 or turn.match is not None),
            "a refused connection carries no request: repeat and match do not go with fault: refuse",
        ),
    )


class Script(ScriptModel):
    """The turns, in the order in which they are played."""

    turns: Annotated[tuple[Turn, ...], Field(strict=False)]

    @model_validator(mode="after")
    def _has_turns(self) -> Self:
        if not self.turns:
            raise ValueError("needs at least one turn")
        return self

    def with_variables(self, variables: Mapping[str, str]) -> Script:
        """The script with each `${name}` of `variables` replaced, literally, in what is sent.

        Any other `${...}` stays: it may be the shell's. Keys are left alone.
        """
        if not variables:
            return self
        data = self.model_dump(exclude_unset=True)
        return Script.model_validate(_substituted(data, variables))


def _substituted(value: object, variables: Mapping[str, str]) -> object:
    match value:
        case StrEnum():
            return value
        case str():
            return VARIABLE.sub(lambda found: variables.get(found[1], found[0]), value)
        case dict():
            return {key: _substituted(part, variables) for key, part in value.items()}
        case list() | tuple():
            return [_substituted(part, variables) for part in value]
        case _:
            return value


VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
