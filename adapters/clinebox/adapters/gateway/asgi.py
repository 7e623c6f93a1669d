"""The part of ASGI 3 that the gateway speaks, with types (https://asgi.readthedocs.io, HTTP spec 2.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from clinebox.adapters.gateway.headers import Fields, field

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class ClientGoneError(Exception):
    """The client closed its connection before the call was over."""


class AbortedError(Exception):
    """Ends the client's connection in mid-answer: raised out of the application, as ASGI has no other word.

    The server then closes without the last chunk or the bytes announced, so no client takes it for an end.
    """


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a request says before its body."""

    method: str
    raw_path: bytes
    query: bytes
    fields: Fields
    http_version: str

    @property
    def body_bytes(self) -> int | None:
        """The length announced; None where none is."""
        announced = field(self.fields, b"content-length")
        return int(announced) if announced is not None and announced.isdigit() else None

    @property
    def has_body(self) -> bool:
        """Whether a body follows (RFC 9112 §6.3)."""
        return bool(self.body_bytes) or field(self.fields, b"transfer-encoding") is not None


def head_of(scope: Scope) -> RequestHead:
    """The head, with the path as it stood on the wire."""
    return RequestHead(
        scope["method"],
        scope.get("raw_path") or b"",
        scope["query_string"],
        [(bytes(name), bytes(value)) for name, value in scope["headers"]],
        scope["http_version"],
    )


def start_message(status: int, fields: Fields) -> Message:
    """The head of a response."""
    return {"type": "http.response.start", "status": status, "headers": fields}


def body_message(data: bytes, *, more: bool) -> Message:
    """A piece of a response's body."""
    return {"type": "http.response.body", "body": data, "more_body": more}
