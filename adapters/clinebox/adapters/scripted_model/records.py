"""What the server writes down about each request; never a credential."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from clinebox.domain.json_value import JsonValue

DIGEST_CHARACTERS: Final = 12
CREDENTIAL_HEADERS: Final = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"}
)


class Ending(StrEnum):
    """How the server's side of a request ended."""

    ANSWERED = "answered"
    """Everything was handed to the network."""
    CUT = "cut"
    """The server broke the connection, as the turn's fault says."""
    CLIENT_CLOSED = "client_closed"
    """The client was gone before the end."""
    SERVER_STOPPED = "server_stopped"


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request. Times are the server's monotonic clock, in seconds."""

    number: int
    """From 1, in the order of arrival."""
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    """Names in lower case; the value of a credential is `sha256:` and 12 hex digits."""
    body: JsonValue
    """None when there was none, or it was no JSON."""
    body_bytes: int
    arrived_s: float
    turn: int | None = None
    """Which turn answered, from 1 as in the file; None when no turn did."""
    play: int | None = None
    """How often that turn had been played, with this time."""
    status: int | None = None
    """The status that was sent; None when no headers were."""
    chunks_sent: int = 0
    """Content chunks (text, reasoning, pieces of tool calls) handed to the network."""
    hangs: bool = False
    """The turn's `hang_*` holds it: now, or when it ended."""
    ended_s: float | None = None
    ending: Ending | None = None
    """None while it lasts."""

    def header(self, name: str) -> str | None:
        """The first value of a header, whatever the case of its name."""
        return next((value for key, value in self.headers if key == name.lower()), None)


def credential_digest(credential: str) -> str:
    """What a record shows in place of a key: enough to compare, too little to use."""
    return (
        "sha256:"
        + hashlib.sha256(credential.encode("utf-8", "surrogateescape")).hexdigest()[:DIGEST_CHARACTERS]
    )


def without_credentials(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The headers with credentials replaced; `Bearer KEY` becomes `Bearer sha256:...` of KEY."""
    return tuple((name, _digested(value) if name in CREDENTIAL_HEADERS else value) for name, value in headers)


def _digested(value: str) -> str:
    scheme, space, credential = value.partition(" ")
    return f"{scheme} {credential_digest(credential)}" if space else credential_digest(value)
