"""A response's body on its way to the client: in order, no faster than the client takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

ROOM_BYTES: Final = 64 * 1024
"""Held for a client that is slower than the upstream; then the upstream is read no further."""
COMMENT: Final = b": keep-alive\n\n"
"""No event to any reader of a stream (WHATWG HTML §9.2.6), and bytes to Cline, which waits 300 s for some."""
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Outlet:
    """Takes pieces and sends them; what came while a send was under way goes out together.

    So a loop that is behind catches up: a hundred small pieces cost one system call. With `keep_alive_s` an
    SSE comment is sent after so long a silence, between events only: within a line it would be part of it.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]], keep_alive_s: float | None = None) -> None:
        self._send = send
        self._keep_alive_s = keep_alive_s
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._tail = b"\n\n"
        self._closed = self._over = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_behind(self) -> bool:
        """Whether the client has yet to take something."""
        return self._held_bytes > 0

    async def put(self, piece: bytes) -> None:
        """Take a piece; wait for room where too much is held. BrokenPipeError once sending failed."""
        self._pieces.append(piece)
        self._held_bytes += len(piece)
        self._news.set()
        if self._held_bytes >= ROOM_BYTES:
            self._room.clear()
            await self._room.wait()
        if self._over:
            raise BrokenPipeError("the client takes no more")

    async def run(self) -> None:
        """Send what comes, until closed and all is sent."""
        try:
            await self._send_what_comes()
        finally:
            self._over = True
            self._room.set()

    async def _send_what_comes(self) -> None:
        while self._pieces or not self._closed:
            if not self._pieces:
                await self._wait_for_news()
                continue
            batch, self._pieces = b"".join(self._pieces), []
            await self._send(batch)
            self._tail = (self._tail + batch[-4:])[-4:]
            self._held_bytes -= len(batch)
            self._room.set()

    def close(self) -> None:
        """Let `run` return once all is sent."""
        self._closed = True
        self._news.set()

    async def _wait_for_news(self) -> None:
        try:
            async with asyncio.timeout(self._keep_alive_s):
                await self._news.wait()
        except TimeoutError:
            if self._tail.endswith(_EVENT_ENDS):
                await self._send(COMMENT)
        self._news.clear()


@asynccontextmanager
async def flowing(outlet: Outlet) -> AsyncIterator[Outlet]:
    """Run an outlet beside the body; what it holds is sent in the end, also when the body raised.

    A cancelled body sends no more: the client may be the one who takes nothing.
    """
    sending = asyncio.get_running_loop().create_task(outlet.run())
    try:
        try:
            yield outlet
        except Exception:
            outlet.close()
            await sending
            raise
        outlet.close()
        await sending
    finally:
        sending.cancel()
        await asyncio.wait((sending,))
