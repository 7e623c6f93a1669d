"""The host's error envelope: `{error: {code, message, host_output_tail}}`, built, read and shown (SPEC §8).

One renderer for server, client, CLI and library. The HTTP status plays no part in reading: a proxy may
answer 200 with the envelope of a host that failed, and a 503 carries the very same one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.domain.bounded_json import Mask, json_excerpt
from clinebox.domain.json_value import JsonValue, as_mapping, as_text, parse_json
from clinebox.domain.one_line import excerpt, one_line

UNKNOWN_CODE: Final = "unknown"
NO_MESSAGE: Final = "no message was given"
SHOWN_CHARS: Final = 200
"""Of a body that is no envelope; the envelope itself is shown whole."""
OK_STATUS: Final = 200

_ENVELOPE_FIELDS: Final = frozenset({"code", "message", "host_output_tail"})


@dataclass(frozen=True, slots=True)
class HostError:
    """Why a host failed; `host_output_tail` is its last output lines, oldest first."""

    code: str
    message: str
    host_output_tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostReady:
    """The host takes rollouts."""


@dataclass(frozen=True, slots=True)
class HostStarting:
    """Not yet, as far as can be told; `last_answer` is one line, for the message at the deadline."""

    last_answer: str


@dataclass(frozen=True, slots=True)
class HostFailed:
    """It never will: stop polling."""

    error: HostError


HostHealth: TypeAlias = HostReady | HostStarting | HostFailed


def host_error(code: str, message: str, tail: Iterable[str], *, mask: Mask) -> HostError:
    """An error fit to leave the host: every text masked. The tail was bounded where it was captured."""
    return HostError(mask(code), mask(message), tuple(mask(line) for line in tail))


def error_body(error: HostError) -> JsonValue:
    """The body that answers every rollout of a failed host."""
    lines: list[JsonValue] = [*error.host_output_tail]
    return {"error": {"code": error.code, "message": error.message, "host_output_tail": lines}}


def failed_health_body(error: HostError) -> JsonValue:
    """The body of `GET /health`, with 503, once start-up failed."""
    return {"status": "failed", **as_mapping(error_body(error))}


def render_host_error(error: HostError) -> str:
    """Code and message, `N captured lines`, and all of them: the producer bounded the tail, nobody else does.

    Each captured line stands on its own line, indented, with nothing in it that could move a cursor.
    """
    count = len(error.host_output_tail)
    heading = f"{one_line(error.code)}: {one_line(error.message)}"
    lines = [_printable(line) for line in error.host_output_tail]
    return "\n  ".join([f"{heading}\n{count} captured {'line' if count == 1 else 'lines'}", *lines])


def parse_host_error(body: bytes) -> Result[HostError, str]:
    """Read an envelope from a reply's body, whatever its status. Failure(what it is instead), one line."""
    if not body.strip():
        return Failure("an empty body")
    parsed = parse_json(body)
    if is_successful(parsed):
        return host_error_from_json(parsed.unwrap())
    text = body[: SHOWN_CHARS * 8].decode("utf-8", "replace")
    return Failure(f"no JSON: {excerpt(text, SHOWN_CHARS)}")


def host_error_from_json(value: JsonValue) -> Result[HostError, str]:
    """Read an envelope from any JSON value; missing parts are said to be missing, other types are shown.

    An envelope is a mapping with an `error` that is not empty, one whose `status` is "failed", or the bare
    error itself (`{"code": "internal"}`, as a host wraps a component's 500). A Responses object is none: the
    `error` in it is the run's. Failure(what it is instead), one line.
    """
    body = as_mapping(value)
    error = body.get("error")
    if body.get("object") == "response":
        return Failure("a response object, no error envelope")
    if error:
        return Success(
            _error(error) if isinstance(error, dict) else HostError(UNKNOWN_CODE, _shown_text(error))
        )
    if body.get("code") and body.keys() <= _ENVELOPE_FIELDS:
        return Success(_error(body))
    if body.get("status") == "failed":
        return Success(HostError(UNKNOWN_CODE, "the host says that it failed, and not why"))
    return Failure(f"no error envelope: {excerpt(json_excerpt(value, str, SHOWN_CHARS), SHOWN_CHARS)}")


def describe_answer(http_status: int, body: bytes) -> str:
    """An answer for people: the rendered envelope if it holds one, else its status and how it begins."""
    error = parse_host_error(body)
    return (
        render_host_error(error.unwrap())
        if is_successful(error)
        else f"HTTP {http_status}, {error.failure()}"
    )


def host_health(http_status: int, body: bytes) -> HostHealth:
    """What an answer of `GET /health` says. Failed on an envelope, with any status; ready on 200 alone.

    Everything else is "starting": a 502 or 503 of a proxy, an HTML page with 200, a status we do not know.
    Patience costs time up to the deadline, which then names the last answer; giving up could not be undone.
    """
    error = parse_host_error(body)
    if is_successful(error):
        return HostFailed(error.unwrap())
    parsed = parse_json(body).value_or(None)
    starting = as_mapping(parsed).get("status") == "starting"
    if http_status == OK_STATUS and isinstance(parsed, dict) and not starting:
        return HostReady()
    return HostStarting(describe_answer(http_status, body))


def _error(fields: dict[str, JsonValue]) -> HostError:
    code, message = fields.get("code"), fields.get("message")
    return HostError(
        code=UNKNOWN_CODE if code is None else _shown_text(code),
        message=NO_MESSAGE if message is None else _shown_text(message),
        host_output_tail=_tail(fields.get("host_output_tail")),
    )


def _tail(value: JsonValue) -> tuple[str, ...]:
    """The captured lines; one text is split, anything else in a line's place is shown as JSON."""
    match value:
        case None:
            return ()
        case str():
            return tuple(value.splitlines())
        case list():
            return tuple(_shown_text(line) for line in value)
        case _:
            return (_shown_text(value),)


def _shown_text(value: JsonValue) -> str:
    text = as_text(value)
    return json_excerpt(value, str, SHOWN_CHARS) if text is None else text


def _printable(line: str) -> str:
    """One captured line with its indentation kept: a traceback is read by it."""
    shown = line.expandtabs(4).rstrip()
    return "".join(char if char.isprintable() else " " for char in shown)
