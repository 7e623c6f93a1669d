"""HTTP/1.1 connections to one model server, kept and used again at a constant cost.

httpcore's pool looks at every connection, and at every pair of idle ones, whenever a request comes or ends
(1.0.9): with 1,000 connections two thirds of the gateway's time went there.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

import httpcore
import httpx

from clinebox.adapters.gateway.network import AsyncioBackend

_ERRORS: Final[tuple[tuple[type[Exception], type[httpx.TransportError]], ...]] = (
    (httpcore.ConnectTimeout, httpx.ConnectTimeout),
    (httpcore.TimeoutException, httpx.TimeoutException),
    (httpcore.ConnectError, httpx.ConnectError),
    (httpcore.NetworkError, httpx.NetworkError),
    (httpcore.ProtocolError, httpx.ProtocolError),
)
"""The first that fits counts."""


class OneServerTransport(httpx.AsyncBaseTransport):
    """Sends requests to one server over HTTP/1.1, each on an idle connection or on a new one.

    There is no bound on connections: the calls under way are the bound. The newest idle one is used first,
    so that the others can expire.
    """

    def __init__(
        self, url: httpx.URL, *, ssl_context: ssl.SSLContext | None, keepalive_expiry_s: float
    ) -> None:
        self._origin = _url_for_httpcore(url).origin
        self._ssl_context = ssl_context
        self._keepalive_expiry_s = keepalive_expiry_s
        self._backend = AsyncioBackend()
        self._idle: deque[httpcore.AsyncHTTPConnection] = deque()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response's head; its body streams. Raises httpx.TransportError."""
        connection = await self._connection()
        with _told_as_httpx():
            response = await connection.handle_async_request(_for_httpcore(request))
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(self, connection, response),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close what is idle; a connection in use closes with its response."""
        while self._idle:
            await self._idle.pop().aclose()

    async def give_back(self, connection: httpcore.AsyncHTTPConnection) -> None:
        """Keep a connection whose response was read to its end; the others are closed already."""
        if connection.is_idle():
            self._idle.append(connection)
        while self._idle and self._idle[0].has_expired():
            await self._idle.popleft().aclose()

    async def _connection(self) -> httpcore.AsyncHTTPConnection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return httpcore.AsyncHTTPConnection(
            self._origin,
            ssl_context=self._ssl_context,
            keepalive_expiry=self._keepalive_expiry_s,
            network_backend=self._backend,
        )


class _Body(httpx.AsyncByteStream):
    """A response's body, which gives its connection back."""

    def __init__(
        self,
        transport: OneServerTransport,
        connection: httpcore.AsyncHTTPConnection,
        response: httpcore.Response,
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _told_as_httpx():
            async for piece in self._response.aiter_stream():
                yield piece

    async def aclose(self) -> None:
        with _told_as_httpx():
            await self._response.aclose()
        await self._transport.give_back(self._connection)


def _for_httpcore(request: httpx.Request) -> httpcore.Request:
    return httpcore.Request(
        request.method,
        _url_for_httpcore(request.url),
        headers=request.headers.raw,
        content=request.stream,
        extensions=request.extensions,
    )


def _url_for_httpcore(url: httpx.URL) -> httpcore.URL:
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


@contextmanager
def _told_as_httpx() -> Iterator[None]:
    """Httpcore's errors in httpx's words, without any text: some quotes a header."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
        told = next(told for kind, told in _ERRORS if isinstance(error, kind))
        raise told(type(error).__name__) from error
