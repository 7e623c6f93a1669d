"""TCP and TLS towards the model server for httpcore, on asyncio itself.

httpcore's own way leads through anyio, which costs more than the sockets do, and whose connect loses the
socket when it is cancelled in the moment in which it succeeds (anyio 4.16).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import httpcore

ROOM_BYTES: Final = 64 * 1024
"""Held of what was not asked for yet; then the socket is read no further."""
NEXT_ADDRESS_S: Final = 1.0
"""A name's next address is tried after so long; the last one has all the time that is left."""


class AsyncioStream(asyncio.Protocol, httpcore.AsyncNetworkStream):
    """One connection. One reader and one writer at a time, as HTTP/1.1 has them."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._is_over = self._is_paused = self._is_full = False
        self._error: Exception | None = None
        self._reads: asyncio.Future[None] | None = None
        self._drains: asyncio.Future[None] | None = None

    # what asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hold what came."""
        self._pieces.append(data)
        self._held_bytes += len(data)
        if self._held_bytes >= ROOM_BYTES and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        _wake(self._reads)

    def eof_received(self) -> None:
        """Nothing follows what is held."""
        self._is_over = True
        _wake(self._reads)

    def connection_lost(self, exc: Exception | None) -> None:
        """Neither way goes on; `exc` where it did not end cleanly."""
        self._is_over = True
        self._error = exc
        self._transport = None
        _wake(self._reads)
        _wake(self._drains)

    def pause_writing(self) -> None:
        """The other side takes too little."""
        self._is_full = True

    def resume_writing(self) -> None:
        """The other side took enough."""
        self._is_full = False
        _wake(self._drains)

    # what httpcore asks

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002, ASYNC109 - httpcore's port
        """What is there, once anything is; `b""` at the end. `max_bytes` is not kept: h11 takes any size."""
        while not self._pieces:
            if self._error is not None:
                raise httpcore.ReadError("the connection broke") from self._error
            if self._is_over:
                return b""
            await self._wait_for_data(timeout)
        pieces, self._pieces, self._held_bytes = self._pieces, [], 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore's port
        """Send; wait while the other side takes too little."""
        if self._transport is None or self._transport.is_closing():
            raise httpcore.WriteError("the connection is closed") from self._error
        self._transport.write(buffer)
        while self._is_full and self._transport is not None:
            await self._wait_for_room(timeout)

    async def aclose(self) -> None:
        """Close at once, waiting for nothing; what the other side has not taken is dropped."""
        if self._transport is not None:
            self._transport.close()
            self._transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's port
    ) -> httpcore.AsyncNetworkStream:
        """The same connection under TLS."""
        if self._transport is None:
            raise httpcore.ConnectError("the connection is closed") from self._error
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                self._transport = await loop.start_tls(
                    self._transport, self, ssl_context, server_hostname=server_hostname
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("no TLS in time") from error
        except (OSError, ssl.SSLError) as error:
            raise httpcore.ConnectError("no TLS") from error
        return self

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks of a connection: its TLS, and whether an idle one has anything to read."""
        if info == "is_readable":
            return self._is_over or bool(self._pieces)
        return None if self._transport is None else self._transport.get_extra_info(_NAMES.get(info, info))

    async def _wait_for_data(self, timeout_s: float | None) -> None:
        self._reads = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._reads
        except TimeoutError as error:
            raise httpcore.ReadTimeout("nothing came in time") from error
        finally:
            self._reads = None

    async def _wait_for_room(self, timeout_s: float | None) -> None:
        self._drains = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._drains
        except TimeoutError as error:
            raise httpcore.WriteTimeout("nothing was taken in time") from error
        finally:
            self._drains = None


_NAMES: Final = {"client_addr": "sockname", "server_addr": "peername"}


class AsyncioBackend(httpcore.AsyncNetworkBackend):
    """Connects over TCP."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's port
        local_address: str | None = None,  # noqa: ARG002 - none is ever asked for
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002 - none is ever asked for
    ) -> httpcore.AsyncNetworkStream:
        """A connection; ConnectTimeout or ConnectError, from the system's own error, when there is none."""
        try:
            async with asyncio.timeout(timeout):
                return await _connected(host, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("no connection in time") from error
        except OSError as error:
            raise httpcore.ConnectError("no connection") from error


async def _connected(host: str, port: int) -> AsyncioStream:
    """A connection to the first address of a host that takes one.

    asyncio's own race between addresses loses the winner's socket when it is cancelled (CPython 3.11).
    """
    *others, last = await _addresses(host, port)
    for address in others:
        with suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(NEXT_ADDRESS_S):
                return await _connected_to(address, port)
    return await _connected_to(last, port)


async def _connected_to(address: str, port: int) -> AsyncioStream:
    _, stream = await asyncio.get_running_loop().create_connection(AsyncioStream, address, port)
    return stream


async def _addresses(host: str, port: int) -> list[str]:
    """At least one; OSError for a name that has none."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
