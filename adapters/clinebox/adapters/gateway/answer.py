"""The answer's way down: each byte as it comes, no faster than the client takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import httpx

from clinebox.adapters.gateway.asgi import ClientStalledError, Message, Send, body_message, start_message
from clinebox.adapters.gateway.attempts import Attempt
from clinebox.adapters.gateway.bodies import MaskStream
from clinebox.adapters.gateway.failures import UpstreamError, UpstreamFault, fault_of
from clinebox.adapters.gateway.headers import Fields, field, response_fields, without
from clinebox.adapters.gateway.keep_alive import KeepAlive
from clinebox.adapters.gateway.upstream import Bounds
from clinebox.domain.secrets.masker import Masker

FIRST_STATUS: Final = 200
LAST_STATUS: Final = 599
FIRST_ERROR: Final = 400


class Answer:
    """One response on its way to one client; `started` once the client has its status."""

    def __init__(self, send: Send, bounds: Bounds, masker: Masker) -> None:
        self._send_raw = send
        self._bounds = bounds
        self._masker = masker
        self.started = False

    async def pass_on(self, response: httpx.Response, attempt: Attempt) -> None:
        """Pass on head and body. Raises UpstreamError where it broke, or is none to pass on."""
        fields = _passable(response, self._masker)
        attempt.answered(response.status_code, fields)
        mask = self._masker.stream() if response.status_code >= FIRST_ERROR else None
        if mask is not None:
            fields = without(fields, b"content-length")
        await self._send(start_message(response.status_code, fields))
        self.started = True
        async with self._piece_sender(fields) as send_piece:
            await self._pass_body(response, attempt, send_piece, mask)
        # Recorded before the client can know: whoever reads the records after Cline ended finds them whole.
        attempt.finished()
        await self._send(body_message(b"", more=False))

    async def _pass_body(
        self,
        response: httpx.Response,
        attempt: Attempt,
        send_piece: Callable[[bytes], Awaitable[None]],
        mask: MaskStream | None,
    ) -> None:
        """Pass on the body; of an error's, which some servers quote the key in, all but the key."""
        try:
            # Below httpx's own iterators: nothing is decoded, counted or gathered on the way.
            async for chunk in response.stream:  # type: ignore[union-attr]
                attempt.received(chunk)
                piece = chunk if mask is None else mask.feed(chunk)
                if piece:
                    await send_piece(piece)
        except httpx.TransportError as error:
            raise UpstreamError(fault_of(error)) from None
        if mask is not None:
            await send_piece(mask.cut())

    @asynccontextmanager
    async def _piece_sender(self, fields: Fields) -> AsyncIterator[Callable[[bytes], Awaitable[None]]]:
        """What sends a piece: with comments between where they are wanted and the body is a stream."""
        every_s = self._bounds.keep_alive_s
        kind = field(fields, b"content-type") or b""
        if every_s is None or not kind.lower().startswith(b"text/event-stream"):
            yield self._send_piece
            return
        keep_alive = KeepAlive(self._send_piece, every_s)
        ticking = asyncio.get_running_loop().create_task(keep_alive.run())
        try:
            yield keep_alive.send
        finally:
            ticking.cancel()
            await asyncio.wait((ticking,))

    async def _send_piece(self, piece: bytes) -> None:
        await self._send(body_message(piece, more=True))

    async def _send(self, message: Message) -> None:
        """Hand over one message, once the client has taken what came before."""
        try:
            async with asyncio.timeout(self._bounds.idle_s):
                await self._send_raw(message)
        except TimeoutError:
            raise ClientStalledError from None


def _passable(response: httpx.Response, masker: Masker) -> Fields:
    """The fields for the client. Raises UpstreamError for what is not passed on: redirects, 1xx, 6xx and up.

    A `Location` would lead the client past the gateway, and the session's token with it. A field that
    quotes the key is left out.
    """
    status = response.status_code
    if not FIRST_STATUS <= status <= LAST_STATUS:
        raise UpstreamError(UpstreamFault.BAD_STATUS)
    fields = [
        (name, value) for name, value in response_fields(response.headers.raw) if masker.mask(value) == value
    ]
    if 300 <= status < FIRST_ERROR and field(fields, b"location") is not None:  # noqa: PLR2004 - RFC 9110 §15.4
        raise UpstreamError(UpstreamFault.REDIRECT)
    return fields
