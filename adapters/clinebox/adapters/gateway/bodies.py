"""Bodies on their way: the request as the client sends it, counted and bounded, and what is kept of either."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Self

from clinebox.adapters.gateway.asgi import ClientGoneError, ClientStalledError, Receive

CAPTURE_LIMIT_BYTES: Final = 1024 * 1024


class BodyTooLargeError(Exception):
    """The request's body is over the bound."""


class RequestBody:
    """The pieces of a request's body, as they come; iterate once.

    Raises BodyTooLargeError past `limit_bytes`, ClientStalledError after `idle_s` without a byte, and
    ClientGoneError when the client leaves. `seen` is given every piece, `ended` is called at the end.
    """

    def __init__(
        self,
        receive: Receive,
        *,
        limit_bytes: int,
        idle_s: float,
        seen: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> None:
        self._receive = receive
        self._limit_bytes = limit_bytes
        self._idle_s = idle_s
        self._seen = seen
        self._ended = ended
        self._bytes = 0
        self._more = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._more:
            raise StopAsyncIteration
        piece = await self._next()
        self._bytes += len(piece)
        if self._bytes > self._limit_bytes:
            raise BodyTooLargeError
        self._seen(piece)
        if not self._more:
            self._ended()
        return piece

    async def whole(self) -> bytes:
        """All of it."""
        return b"".join([piece async for piece in self])

    async def _next(self) -> bytes:
        try:
            async with asyncio.timeout(self._idle_s):
                message = await self._receive()
        except TimeoutError:
            raise ClientStalledError from None
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        self._more = bool(message.get("more_body", False))
        return bytes(message.get("body", b""))


class Capture:
    """The first bytes of a body, at most `limit_bytes`."""

    __slots__ = ("_bytes", "_limit_bytes", "_pieces", "is_cut")

    def __init__(self, limit_bytes: int = CAPTURE_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: list[bytes] = []
        self._bytes = 0
        self.is_cut = False
        """Whether more came than is kept."""

    def feed(self, piece: bytes) -> None:
        """Keep what there is room for."""
        room = self._limit_bytes - self._bytes
        self.is_cut = self.is_cut or len(piece) > room
        if room > 0 and piece:
            self._pieces.append(piece[:room])
            self._bytes += min(len(piece), room)

    def kept(self) -> bytes:
        """What was kept."""
        return b"".join(self._pieces)
