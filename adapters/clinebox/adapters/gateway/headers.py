"""Which header fields go from one side to the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

Fields: TypeAlias = list[tuple[bytes, bytes]]

MARKER: Final = b"x-clinebox-gateway"
"""On the gateway's own answers only: what a model server sends under this name is dropped."""
HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""RFC 9110 §7.6.1; so is what `Connection` names."""
_OF_THE_CALLER: Final = frozenset(
    {b"host", b"authorization", b"api-key", b"x-api-key", b"cookie", b"accept-encoding", b"expect"}
)
"""Credentials are the session's token or nothing of ours; the encoding is asked for by the gateway."""
_OF_THE_UPSTREAM: Final = frozenset({MARKER, b"alt-svc"})
"""`Alt-Svc` (RFC 7838) would lead a client past the gateway."""


def untold(received: Iterable[tuple[bytes, bytes]], token: str) -> Fields:
    """The fields less those that quote the session's token: a `Referer`, an SDK's own credential field."""
    secret = token.encode("ascii")
    return [(name, value) for name, value in received if secret not in value]


def request_fields(received: Iterable[tuple[bytes, bytes]], key: str | None) -> Fields:
    """What goes upstream: end-to-end fields, the real key, and no content coding.

    The response is asked for as it is (`identity`), for what passes must be readable without changing it.
    """
    fields = _end_to_end(received, _OF_THE_CALLER)
    fields.append((b"accept-encoding", b"identity"))
    if key is not None:
        fields.append((b"authorization", b"Bearer " + key.encode("ascii")))
    return fields


def response_fields(received: Iterable[tuple[bytes, bytes]]) -> Fields:
    """What goes to the client: end-to-end fields, `Retry-After` and the body's length among them."""
    return _end_to_end(received, _OF_THE_UPSTREAM)


def is_header_word(key: str) -> bool:
    """Whether a header can carry a key, as one word."""
    return bool(key) and all("!" <= char <= "~" for char in key)


def field(fields: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of a field; `name` in lower case."""
    return next((value for key, value in fields if key.lower() == name), None)


def without(fields: Iterable[tuple[bytes, bytes]], name: bytes) -> Fields:
    """The fields less one; `name` in lower case."""
    return [(key, value) for key, value in fields if key.lower() != name]


def _end_to_end(received: Iterable[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> Fields:
    fields = [(name.lower(), value) for name, value in received]
    named = {
        token.strip().lower()
        for name, value in fields
        if name == b"connection"
        for token in value.split(b",")
    }
    out = HOP_BY_HOP | dropped | named
    return [(name, value) for name, value in fields if name not in out]
