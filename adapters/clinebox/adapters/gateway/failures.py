"""What an exception of the upstream client means, without its text: some quote a header, and so the key."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import httpx


class UpstreamFault(StrEnum):
    """How the model server failed a call; the `kind` of the gateway's 502."""

    REFUSED = "upstream_refused"
    UNRESOLVED = "upstream_unresolved"
    TLS = "upstream_tls"
    CLOSED = "upstream_closed"
    CONNECT_TIMEOUT = "upstream_connect_timeout"
    TIMEOUT = "upstream_timeout"
    REDIRECT = "upstream_redirect"
    BAD_STATUS = "upstream_bad_status"


SENTENCES: Final = {
    UpstreamFault.REFUSED: "the model server refused the connection or cannot be reached",
    UpstreamFault.UNRESOLVED: "the model server's name has no address",
    UpstreamFault.TLS: "no TLS connection to the model server could be made",
    UpstreamFault.CLOSED: "the model server closed the connection before its answer was whole",
    UpstreamFault.CONNECT_TIMEOUT: "the model server took no connection in time",
    UpstreamFault.TIMEOUT: "the model server sent nothing in time",
    UpstreamFault.REDIRECT: "the model server redirects; the gateway follows no redirect and passes none on",
    UpstreamFault.BAD_STATUS: "the model server answered with a status outside 200 to 599",
}


class UpstreamError(Exception):
    """The model server failed the call; carries no text of any library."""

    def __init__(self, fault: UpstreamFault) -> None:
        super().__init__(fault.value)
        self.fault = fault


def fault_of(error: httpx.TransportError) -> UpstreamFault:
    """The fault behind an exception of httpx. Total."""
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return UpstreamFault.CONNECT_TIMEOUT
        case httpx.TimeoutException():
            return UpstreamFault.TIMEOUT
        case httpx.ConnectError() | httpx.ProxyError() | httpx.UnsupportedProtocol():
            return _connect_fault(error)
        case _:
            return UpstreamFault.CLOSED


def _connect_fault(error: BaseException) -> UpstreamFault:
    causes = list(causes_of(error))
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return UpstreamFault.TLS
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return UpstreamFault.UNRESOLVED
    return UpstreamFault.REFUSED


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it was raised from; at most 16, should somebody tie a ring."""
    for _ in range(16):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__
