"""One attempt: an HTTP request of Cline's to the gateway, and what came of it (SPEC §11).

Times are seconds since the epoch by the gateway's clock; None is "did not happen". What the server did not
send is None, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from clinebox.domain.json_value import JsonValue

FIRST_ERROR_STATUS: Final = 400
LAST_ERROR_STATUS: Final = 599
COMPLETION_PATHS: Final = ("/chat/completions", "/responses", "/completions", "/messages")
"""Where a model is asked; anything else below `/v1/` (such as `/models`) is no model call."""


class CallEnd(StrEnum):
    """How a call ended, as the gateway saw it."""

    FINISHED = "finished"
    """The whole HTTP response was passed on, whatever stood in it."""
    UPSTREAM_CLOSED = "upstream_closed"
    """The upstream reset or closed before its response was whole."""
    CLIENT_CLOSED = "client_closed"
    """Cline left: it was stopped, or it gave up."""
    TIMEOUT = "timeout"
    """A bound of the gateway's: connecting, or silence."""
    REFUSED = "refused"
    """No connection to the upstream came about: refused, unknown host, TLS."""


class CallPhase(StrEnum):
    """Where a call stands."""

    CONNECTING = "connecting"
    WAITING = "waiting"
    """For the first byte of the response."""
    STREAMING = "streaming"
    IDLE = "idle"
    """Bytes came, and then none for a while (`phases.IDLE_AFTER_S`)."""
    ENDED = "ended"


class CallFlag(StrEnum):
    """What a response lacked, or what of it was not read."""

    NO_USAGE = "no_usage"
    """An answer without token counts (llama.cpp's server sends none in a stream)."""
    NO_FINISH_REASON = "no_finish_reason"
    NO_TERMINAL_EVENT = "no_terminal_event"
    """Neither `[DONE]`, nor a Responses terminal event, nor the end of a JSON body."""
    BAD_DATA = "bad_data"
    """A `data` field, or a body, that is not JSON."""
    NOT_A_STREAM = "not_a_stream"
    """A stream was asked for, and no event came: a proxy's HTML page, a JSON body, an empty one."""
    DATA_SKIPPED = "data_skipped"
    """A line or body over the bound was not read."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What the request asked for; None where the body did not tell. Without tools it is a compaction."""

    model: str | None = None
    has_tools: bool | None = None
    streamed: bool | None = None
    messages: int | None = None
    """How many messages (`messages`, or the items of `input`)."""


@dataclass(frozen=True, slots=True)
class CallTimes:
    """When what happened, in epoch seconds."""

    received_at_s: float
    upstream_connected_at_s: float | None = None
    """When a connection was there and the request could be sent."""
    first_byte_at_s: float | None = None
    """The first byte of the response's *body*."""
    last_byte_at_s: float | None = None
    """The newest one so far."""
    ended_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class CallUsage:
    """Token counts as the server sent them; cached are inside prompt, reasoning inside completion tokens."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class UpstreamError:
    """An error object in the response: in its stream, or as its JSON body."""

    message: str | None
    code: int | str | None

    @property
    def status(self) -> int | None:
        """The status that an integer `code` of 400 to 599 tells (SPEC §2); words tell none."""
        if isinstance(self.code, int) and FIRST_ERROR_STATUS <= self.code <= LAST_ERROR_STATUS:
            return self.code
        return None


@dataclass(frozen=True, slots=True)
class ObservedResponse:
    """What stood in the response's body; of an unfinished one what had passed so far."""

    finish_reason: str | None = None
    """The last one that was not null; a Responses status in the same words (`stop`, `length`, …)."""
    usage: CallUsage | None = None
    """The last one that was sent."""
    response_id: str | None = None
    upstream_model: str | None = None
    tool_call_count: int = 0
    terminal_event: bool = False
    error: UpstreamError | None = None
    produced_output: bool = False
    """Whether any text, reasoning or tool call came."""
    flags: frozenset[CallFlag] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One attempt. `number` is 1-based, in order of arrival within the session."""

    number: int
    path: str
    """Below the upstream's base, with its slash: `/v1/chat/completions`."""
    times: CallTimes
    method: str = "POST"
    request: RequestFacts = RequestFacts()
    recorded_at_s: float | None = None
    """When this record was taken; tells how long a call that still goes on has waited."""
    phase: CallPhase = CallPhase.CONNECTING
    """At the moment of the record; `phases.phase_at` computes it."""
    http_status: int | None = None
    """The upstream's own; None when it sent none."""
    end: CallEnd | None = None
    """None while it goes on."""
    response: ObservedResponse = ObservedResponse()
    request_bytes: int = 0
    response_bytes: int = 0
    """Of the upstream's body, as passed on."""
    sampling: Mapping[str, JsonValue] = field(default_factory=dict)
    """The sampling fields that the gateway set in the body."""
    gateway_status: int | None = None
    """The status that the gateway answered with *by itself* (401, 413, 502, 504): never the model's."""
    gateway_error: str | None = None
    """Why, in a sentence for people."""

    @property
    def is_completion(self) -> bool:
        """Whether it asked a model for an answer (`/v1/models` does not)."""
        return self.path.partition("?")[0].rstrip("/").endswith(COMPLETION_PATHS)
