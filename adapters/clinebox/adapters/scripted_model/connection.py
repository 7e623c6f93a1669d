"""One TCP connection, with what asyncio's streams hide: how it is broken, and that the client is gone."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Final

READ_AHEAD_LIMIT_BYTES: Final = 256 * 1024
LINGER_LIMIT_S: Final = 2.0
"""How long a refused request's remaining bytes are read, so that its answer is not lost to a reset."""


class ClientGoneError(Exception):
    """The other side closed, or the server stops: there is nobody to answer."""


class Connection(asyncio.Protocol):
    """Bytes in, bytes out; every wait ends with `ClientGoneError` when the client is gone.

    A client that closes only its sending half counts as gone, as in most HTTP servers.
    """

    def __init__(self, opened: Callable[[Connection], None]) -> None:
        self._opened = opened
        self._buffer = bytearray()
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._discards = False
        self.gone = asyncio.Event()
        self.lost = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to serve the client."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            self._opened(self)

    def data_received(self, data: bytes) -> None:
        """Keep what came; stop reading when nobody takes it."""
        if self._discards:
            return
        self._buffer += data
        if len(self._buffer) > READ_AHEAD_LIMIT_BYTES:
            self._link.pause_reading()
        self._news.set()

    def eof_received(self) -> bool:
        """The client is gone; the transport stays open for the serving task to end."""
        self._note_gone()
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio.Protocol names it
        """The client is gone, and the transport, too."""
        self.lost.set()
        self._note_gone()

    def pause_writing(self) -> None:
        """The client reads slower than we write."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client caught up."""
        self._writable.set()

    # the server's side

    async def receive(self) -> bytes:
        """What has come since the last call, at least one byte; bytes before an end are still given."""
        while not self._buffer:
            if self.gone.is_set():
                raise ClientGoneError
            self._news.clear()
            await self._news.wait()
        data = bytes(self._buffer)
        self._buffer.clear()
        if not self._link.is_closing():
            self._link.resume_reading()
        return data

    def give_back(self, data: bytes) -> None:
        """Put bytes before all others: they belong to the next request."""
        self._buffer[:0] = data

    async def send(self, data: bytes) -> None:
        """Hand bytes to the network, not faster than the client takes them."""
        # A failed write closes the transport at once, but says so only in the loop's next turn.
        if self.gone.is_set() or self._link.is_closing():
            raise ClientGoneError
        self._link.write(data)
        if self._writable.is_set():
            await asyncio.sleep(0)  # a long answer must not keep other clients waiting
        else:
            await self._first_of(self._writable, None)

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        if seconds > 0:
            await self._first_of(None, seconds)

    async def wait_for(self, event: asyncio.Event, seconds: float | None) -> None:
        """Wait for an event, for at most so long."""
        await self._first_of(event, seconds)

    def close(self) -> None:
        """End with FIN, after what was sent."""
        self._link.close()

    def reset(self) -> None:
        """End with RST (socket(7), SO_LINGER with time 0); what the network has not taken is lost."""
        raw = self._link.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._link.abort()

    def abort(self) -> None:
        """End at once."""
        self._link.abort()

    async def close_after_reading(self) -> None:
        """End with FIN, reading on for a while: closing with bytes unread would send RST (RFC 9112 9.6)."""
        self._discards = True
        self._link.write_eof()
        self._link.resume_reading()
        try:
            await self._first_of(None, LINGER_LIMIT_S)
        except ClientGoneError:
            pass
        finally:
            self._link.abort()

    @property
    def _link(self) -> asyncio.Transport:
        if self._transport is None:
            raise ClientGoneError
        return self._transport

    def _note_gone(self) -> None:
        self.gone.set()
        self._news.set()

    async def _first_of(self, event: asyncio.Event | None, seconds: float | None) -> None:
        waits = [asyncio.ensure_future(each.wait()) for each in (self.gone, event) if each is not None]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if self.gone.is_set():
            raise ClientGoneError
