"""SSE comments between the events of a slow backend, so that the client's patience does not run out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

COMMENT: Final = b": keep-alive\n\n"
"""No event to any reader of a stream (WHATWG HTML §9.2.6), and bytes to Cline, which waits 300 s for some."""
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")


class KeepAlive:
    """Passes a stream's pieces on, and puts a comment where `every_s` went by since the last one.

    Only where no event is under way: a comment in the middle of a line would be part of it.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]], every_s: float) -> None:
        self._send = send
        self._every_s = every_s
        self._turn = asyncio.Lock()
        self._tail = b"\n\n"
        self._sent_s = time.monotonic()

    async def send(self, piece: bytes) -> None:
        """Pass a piece on."""
        async with self._turn:
            await self._send(piece)
            self._tail = (self._tail + piece[-4:])[-4:]
            self._sent_s = time.monotonic()

    async def run(self) -> None:
        """Put comments, until cancelled."""
        while True:
            await asyncio.sleep(max(0.0, self._sent_s + self._every_s - time.monotonic()))
            async with self._turn:
                if time.monotonic() - self._sent_s < self._every_s:
                    continue
                if self._tail.endswith(_EVENT_ENDS):
                    await self._send(COMMENT)
                self._sent_s = time.monotonic()
