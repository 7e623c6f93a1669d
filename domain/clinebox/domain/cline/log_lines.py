"""The lines of cline.log that decide, as a closed union (FORMAT.md §6, Cline 3.0.57 to 3.0.65)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from returns.pipeline import is_successful

from clinebox.domain.json_value import JsonValue, as_int, as_list, as_mapping, as_text, parse_json

TEXT_LIMIT_CHARS: Final = 2_000
"""Of a message that is kept for comparison."""
BODY_LIMIT_CHARS: Final = 64 * 1024
"""Of a response body that is looked into; a longer one is no error object."""


@dataclass(frozen=True, slots=True)
class Retry:
    """`Model returned an empty response; retrying`: `stop` = the model said nothing, else no reason came."""

    attempt: int | None
    max_attempts: int | None
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class StreamError:
    """`[ai-sdk] stream error`: what the SDK threw, by name, with the HTTP status of the last attempt.

    `name` None is a bare object: an error that the server sent inside its stream. `texts` are the messages
    that Cline can have shown for it.
    """

    name: str | None
    status: int | None
    status_field: str
    """Where the status stands in the line: `err.statusCode`, or `err.errors[-1].statusCode`."""
    code: str | None
    """The errno-like code of a transport failure: ECONNRESET, ConnectionRefused, …"""
    url: str | None
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopError:
    """`Agent loop caught error`: one per agent that did not complete."""

    agent_id: str
    status: str | None
    error_name: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Mistake:
    """`Recorded consecutive mistake`: `details` is the same sentence as stdout's recoverable error."""

    reason: str | None
    details: str


LogLine: TypeAlias = Retry | StreamError | LoopError | Mistake

_Body: TypeAlias = dict[str, JsonValue]


def read_log_line(record: _Body) -> LogLine | None:
    """What the line says, or None for a line that decides nothing."""
    match record.get("msg"):
        case "[ai-sdk] stream error":
            return _stream_error(as_mapping(record.get("err")))
        case "Agent loop caught error":
            return _loop_error(record)
        case "Model returned an empty response; retrying":
            return Retry(
                attempt=as_int(record.get("attempt")),
                max_attempts=as_int(record.get("maxAttempts")),
                finish_reason=_text(record.get("finishReason")),
            )
        case "Recorded consecutive mistake":
            return Mistake(_text(record.get("reason")), _text(record.get("details")) or "")
        case _:
            return None


def _loop_error(record: _Body) -> LoopError | None:
    agent_id = as_text(record.get("agentId"))
    if agent_id is None:
        return None
    return LoopError(
        agent_id=agent_id,
        status=_text(record.get("status")),
        error_name=_text(record.get("errorName")),
        message=_text(record.get("errorMessage")) or "",
    )


def _stream_error(error: _Body) -> StreamError:
    # AI_RetryError wraps every attempt; the last one is what the run ended with.
    attempts = as_list(error.get("errors"))
    wrapped = as_mapping(attempts[-1]) if attempts else {}
    last = wrapped or error
    shown = as_list(error.get("aggregateErrors"))
    return StreamError(
        name=_text(error.get("name")),
        status=as_int(last.get("statusCode")),
        status_field="err.errors[-1].statusCode" if wrapped else "err.statusCode",
        code=_text(as_mapping(last.get("cause")).get("code")) or _own_code(last),
        url=_text(last.get("url")),
        texts=_texts(error, as_mapping(shown[-1]) if shown else {}, last),
    )


def _own_code(error: _Body) -> str | None:
    """The runtime's error that the SDK did not wrap; a server's object in its stream has type `Object`."""
    return _text(error.get("code")) if error.get("type") == "Error" else None


def _texts(*errors: _Body) -> tuple[str, ...]:
    """FORMAT.md §5: Cline shows `error.message` of the body, else its `message`, else the reason phrase."""
    found = [_text(error.get("message")) for error in errors]
    for error in errors:
        body = _parsed_body(error)
        inner = body.get("error")
        found += [_text(as_mapping(inner).get("message")), _text(inner), _text(body.get("message"))]
    return tuple(dict.fromkeys(text for text in found if text))


def _parsed_body(error: _Body) -> _Body:
    body = as_text(error.get("responseBody"))
    if not body or len(body) > BODY_LIMIT_CHARS:
        return {}
    parsed = parse_json(body.encode("utf-8", "replace"))
    return as_mapping(parsed.unwrap()) if is_successful(parsed) else {}


def _text(value: JsonValue) -> str | None:
    text = as_text(value)
    return None if text is None else text[:TEXT_LIMIT_CHARS]
