"""What a play puts on the wire: the head, the pieces of the body, and where the fault strikes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from clinebox.adapters.scripted_model.completion import (
    Play,
    content_chunks,
    first_chunk,
    last_chunks,
    whole_completion,
)
from clinebox.adapters.scripted_model.script import (
    DEFAULT_REDIRECT_STATUS,
    FIRST_ERROR_STATUS,
    Fault,
    Framing,
    Turn,
)
from clinebox.adapters.scripted_model.sse import SseStyle, comment, data_event, json_bytes
from clinebox.domain.json_value import JsonValue

SSE: Final = "text/event-stream; charset=utf-8"
JSON: Final = "application/json"
HTML: Final = "text/html; charset=utf-8"
HTML_PAGE: Final = (
    b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Please sign in.</body></html>\n"
)
NOT_JSON: Final = b'{"id":"chatcmpl-scripted","choices":[{"delta":'
BODILESS_STATUSES: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that go out together."""

    data: bytes
    is_content: bool = False
    pause_s: float = 0.0
    """Waited before it."""
    strikes: bool = False
    """Here the turn's fault takes effect, before the piece is sent."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response, ready to be sent. `length` None: a stream."""

    status: int
    headers: dict[str, str]
    pieces: tuple[Piece, ...]
    length: int | None
    framing: Framing = field(default=Framing.CHUNKED)


def plan(play: Play, *, streamed: bool, request_target: str) -> Response:
    """What answers a request with this play."""
    turn = play.turn
    match turn.fault:
        case Fault.HTML:
            return _whole(turn, HTML, turn.body.encode() if isinstance(turn.body, str) else HTML_PAGE)
        case Fault.EMPTY_BODY:
            return _whole(turn, SSE, b"")
        case Fault.REDIRECT:
            return _whole(turn, JSON, b"", {"location": turn.location or request_target})
        case _ if turn.answers_with_body:
            return _body(turn)
        case _:
            return _stream(play) if streamed and turn.fault is not Fault.JSON else _unstreamed(play)


def error_response(status: int, message: str, kind: str) -> Response:
    """An error of the server itself, in OpenAI's form."""
    body = json_bytes({"error": {"message": message, "type": kind, "param": None, "code": kind}})
    return Response(status, {"content-type": JSON}, (Piece(body),), len(body))


def json_response(value: JsonValue) -> Response:
    """Status 200 with a JSON body."""
    body = json_bytes(value)
    return Response(200, {"content-type": JSON}, (Piece(body),), len(body))


def _body(turn: Turn) -> Response:
    status = turn.status or 200
    body = turn.body
    if "body" not in turn.model_fields_set and status >= FIRST_ERROR_STATUS:
        body = {"error": {"message": f"scripted {status}", "type": "scripted", "code": None}}
    kind = "text/plain; charset=utf-8" if isinstance(body, str) else JSON
    data = body.encode() if isinstance(body, str) else b"" if body is None else json_bytes(body)
    return _whole(turn, kind, b"" if status in BODILESS_STATUSES else data)


def _whole(turn: Turn, kind: str, data: bytes, headers: dict[str, str] | None = None) -> Response:
    """A body of known length; a fault in its middle strikes in the middle of its bytes."""
    status = turn.status or (DEFAULT_REDIRECT_STATUS if turn.fault is Fault.REDIRECT else 200)
    middle = len(data) // 2 if turn.fault is not None and turn.fault.strikes_mid_stream else 0
    halves = (data[:middle], data[middle:]) if middle else (data,)
    pieces = [Piece(half, strikes=bool(middle) and place == 1) for place, half in enumerate(halves)]
    pieces += _strike_at_end(turn)
    return Response(
        status, _headers(turn, {"content-type": kind, **(headers or {})}), tuple(pieces), len(data)
    )


def _unstreamed(play: Play) -> Response:
    turn = play.turn
    if turn.fault in (Fault.SSE_ERROR, Fault.SSE_ERROR_MID_STREAM):
        return _whole(turn, JSON, json_bytes(_error_object(turn)))
    if turn.fault in (Fault.MALFORMED_SSE, Fault.MALFORMED_SSE_MID_STREAM):
        return _whole(turn, JSON, NOT_JSON)
    return _whole(turn, JSON, json_bytes(whole_completion(play)))


def _stream(play: Play) -> Response:
    turn = play.turn
    headers = _headers(turn, {"content-type": SSE, "cache-control": "no-cache"})
    return Response(200, headers, tuple(_with_fault(play, _events(play))), None, turn.framing)


def _headers(turn: Turn, defaults: dict[str, str]) -> dict[str, str]:
    return defaults | {name.lower(): value for name, value in turn.headers.items()}


def _style(turn: Turn) -> SseStyle:
    return SseStyle(crlf=turn.crlf, data_space=turn.data_space)


def _events(play: Play) -> tuple[list[Piece], list[Piece], list[Piece]]:
    """Before the content, the content, and after it."""
    turn, style = play.turn, _style(play.turn)
    comments = turn.comments
    opening = (
        [Piece(comment(style), pause_s=comments.every_s) for _ in range(comments.count)] if comments else []
    )
    opening.append(Piece(data_event(json_bytes(first_chunk(play)), style)))
    content = [
        Piece(data_event(json_bytes(chunk), style), is_content=True, pause_s=turn.delay_s if place else 0.0)
        for place, chunk in enumerate(content_chunks(play))
    ]
    closing = [Piece(data_event(json_bytes(chunk), style)) for chunk in last_chunks(play)]
    if turn.done:
        closing.append(Piece(data_event(b"[DONE]", style)))
    return opening, content, closing


def _with_fault(play: Play, events: tuple[list[Piece], list[Piece], list[Piece]]) -> list[Piece]:
    """The events in order, with the fault put in its place."""
    turn, style = play.turn, _style(play.turn)
    opening, content, closing = events
    match turn.fault:
        case Fault.SSE_ERROR | Fault.SSE_ERROR_MID_STREAM:
            error = Piece(data_event(json_bytes(_error_object(turn)), style))
            sent = _before_strike(turn, opening, content)
            return [*sent, error, *(closing[-1:] if turn.done else [])]
        case Fault.MALFORMED_SSE | Fault.MALFORMED_SSE_MID_STREAM:
            sent = _before_strike(turn, opening, content)
            rest = [*opening, *content, *closing][len(sent) :]
            return [*sent, Piece(data_event(NOT_JSON, style)), *rest]
        case Fault.RESET_MID_STREAM | Fault.CLOSE_MID_STREAM | Fault.HANG_MID_STREAM:
            sent = _before_strike(turn, opening, content)
            rest = [*opening, *content, *closing][len(sent) :]
            return [*sent, Piece(b"", strikes=True), *rest]
        case _:
            return [*opening, *content, *closing, *_strike_at_end(turn)]


def _before_strike(turn: Turn, opening: list[Piece], content: list[Piece]) -> list[Piece]:
    """What is sent before the fault: at 0 chunks only comments, else the role and so many chunks."""
    if turn.fault is not None and not turn.fault.strikes_mid_stream:
        return opening[:-1]
    count = (len(content) + 1) // 2 if turn.after_chunks is None else turn.after_chunks
    return [*opening, *content[:count]] if count else opening[:-1]


def _strike_at_end(turn: Turn) -> list[Piece]:
    return [Piece(b"", strikes=True)] if turn.fault is not None and turn.fault.strikes_at_end else []


def _error_object(turn: Turn) -> JsonValue:
    """The `body` of the turn, else an engine's failure in OpenAI's form."""
    if "body" in turn.model_fields_set:
        return turn.body
    return {"error": {"message": "scripted error in the stream", "type": "server_error", "code": 500}}
