"""Bodies on their way: the request as the client sends it, bounded, and what is kept of either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, Self, TypeAlias

from clinebox.adapters.gateway.asgi import ClientGoneError, Receive

CAPTURE_LIMIT_BYTES: Final = 1024 * 1024


class BodyTooLargeError(Exception):
    """The request's body is over the bound."""


class RequestBody:
    """The pieces of a request's body, as they come; iterate once.

    Raises BodyTooLargeError past `limit_bytes`, and ClientGoneError when the client leaves. `seen` is given
    every piece, `ended` is called at the end.
    """

    def __init__(
        self,
        receive: Receive,
        *,
        limit_bytes: int,
        seen: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> None:
        self._receive = receive
        self._limit_bytes = limit_bytes
        self._seen = seen
        self._ended = ended
        self._bytes = 0
        self._more = True
        self.waits_for_client = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._more:
            raise StopAsyncIteration
        piece, self._more = await self._next()
        self._bytes += len(piece)
        if self._bytes > self._limit_bytes:
            raise BodyTooLargeError
        self._seen(piece)
        if not self._more:
            self._ended()
        return piece

    async def whole(self) -> bytes:
        """All of it."""
        pieces = [piece async for piece in self]
        return b"".join(pieces)

    async def _next(self) -> tuple[bytes, bool]:
        self.waits_for_client = True
        message = await self._receive()
        self.waits_for_client = False
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        return bytes(message.get("body", b"")), bool(message.get("more_body", False))


class MaskStream(Protocol):
    """Masks one text as it comes; `clinebox.domain.secrets.masker.MaskStream` is one."""

    def feed(self, chunk: bytes, /) -> bytes:
        """What is certain by now, masked."""
        ...

    def cut(self) -> bytes:
        """What is held back, masked also where a secret only begins."""
        ...


NewMaskStream: TypeAlias = Callable[[], MaskStream]


@dataclass(frozen=True, slots=True)
class CapturedBodies:
    """Both bodies of a call, masked, at most 1 MiB each; `*_cut` where more passed than is kept."""

    request: bytes
    request_cut: bool
    response: bytes
    response_cut: bool


class Capture:
    """The beginning of one body: masked first, then cut, so that no half of a secret is kept."""

    __slots__ = ("_bytes", "_limit_bytes", "_mask", "_pieces", "is_cut")

    def __init__(self, mask: MaskStream, limit_bytes: int = CAPTURE_LIMIT_BYTES) -> None:
        self._mask = mask
        self._limit_bytes = limit_bytes
        self._pieces: list[bytes] = []
        self._bytes = 0
        self.is_cut = False
        """Whether more came than is kept."""

    def feed(self, piece: bytes) -> None:
        """Keep what there is room for; the rest is not even masked."""
        if self._bytes < self._limit_bytes:
            self._keep(self._mask.feed(piece))
        else:
            self.is_cut = self.is_cut or bool(piece)

    def kept(self) -> bytes:
        """What was kept; nothing is to follow."""
        self._keep(self._mask.cut())
        return b"".join(self._pieces)

    def _keep(self, masked: bytes) -> None:
        room = self._limit_bytes - self._bytes
        self.is_cut = self.is_cut or len(masked) > room
        if masked[:room]:
            self._pieces.append(masked[:room])
            self._bytes += len(masked[:room])
