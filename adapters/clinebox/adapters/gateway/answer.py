"""The answer's way down: each byte as it comes, no faster than the client takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import httpx

from clinebox.adapters.gateway.asgi import Message, Send, body_message, start_message
from clinebox.adapters.gateway.attempts import Attempt
from clinebox.adapters.gateway.bodies import MaskStream
from clinebox.adapters.gateway.failures import UpstreamError, UpstreamFault, fault_of
from clinebox.adapters.gateway.headers import Fields, field, response_fields, without
from clinebox.adapters.gateway.outlet import Outlet, flowing
from clinebox.domain.secrets.masker import Masker

FIRST_STATUS: Final = 200
LAST_STATUS: Final = 599
FIRST_ERROR: Final = 400
BODILESS_STATUSES: Final = frozenset({204, 304})


class Answer:
    """One response on its way to one client; `started` once the client has its status."""

    def __init__(self, send: Send, masker: Masker, keep_alive_s: float | None) -> None:
        self._send_raw = send
        self._masker = masker
        self._keep_alive_s = keep_alive_s
        self._outlet: Outlet | None = None
        self._touch: Callable[[], None] = _nothing
        self._left_bytes: int | None = None
        """What is still to come of a length that was announced."""
        self.started = False

    @property
    def waits_for_client(self) -> bool:
        """Whether the client has yet to take something."""
        return self._outlet is not None and self._outlet.is_behind

    async def pass_on(self, response: httpx.Response, attempt: Attempt, touch: Callable[[], None]) -> None:
        """Pass on head and body; `touch` hears of each byte. Raises UpstreamError where it broke."""
        self._touch = touch
        status, fields = response.status_code, response_fields(response.headers.raw)
        attempt.answered(status, fields)
        _check_passable(status, fields)
        fields = [(name, value) for name, value in fields if self._masker.mask(value) == value]
        mask = self._masker.stream() if status >= FIRST_ERROR else None
        if mask is not None:
            fields = without(fields, b"content-length")
        # An end is recorded before the client can know of it: whoever reads the records after Cline ended
        # finds them whole. With a length announced, the client knows with the last byte.
        self._left_bytes = _announced_bytes(response, fields)
        self._finish_if_all(attempt)
        await self._send(start_message(status, fields))
        self.started = True
        await self._pass_body(response, attempt, self._new_outlet(fields), mask)
        attempt.finished()
        await self._send(body_message(b"", more=False))

    async def _pass_body(
        self, response: httpx.Response, attempt: Attempt, outlet: Outlet, mask: MaskStream | None
    ) -> None:
        """Pass on the body; of an error's, which some servers quote the key in, all but the key."""
        async with flowing(outlet):
            try:
                # Below httpx's own iterators: nothing is decoded, counted or gathered on the way.
                async for chunk in response.stream:  # type: ignore[union-attr]
                    self._touch()
                    attempt.received(chunk)
                    if self._left_bytes is not None:
                        self._left_bytes -= len(chunk)
                        self._finish_if_all(attempt)
                    await outlet.put(chunk if mask is None else mask.feed(chunk))
            except httpx.TransportError as error:
                raise UpstreamError(fault_of(error)) from None
            finally:
                if mask is not None:
                    await outlet.put(mask.cut())

    def _finish_if_all(self, attempt: Attempt) -> None:
        if self._left_bytes == 0:
            attempt.finished()

    def _new_outlet(self, fields: Fields) -> Outlet:
        """What sends the body: with comments between where they are wanted and it is a stream."""
        kind = field(fields, b"content-type") or b""
        streams = kind.lower().startswith(b"text/event-stream")
        self._outlet = Outlet(self._send_piece, self._keep_alive_s if streams else None)
        return self._outlet

    async def _send_piece(self, piece: bytes) -> None:
        await self._send(body_message(piece, more=True))

    async def _send(self, message: Message) -> None:
        """Hand over one message, once the client has taken what came before."""
        await self._send_raw(message)
        self._touch()


def _check_passable(status: int, fields: Fields) -> None:
    """Raise UpstreamError for what is not passed on: redirects, 1xx, 6xx and up.

    A `Location` would lead the client past the gateway, and the session's token with it.
    """
    if not FIRST_STATUS <= status <= LAST_STATUS:
        raise UpstreamError(UpstreamFault.BAD_STATUS)
    if 300 <= status < FIRST_ERROR and field(fields, b"location") is not None:  # noqa: PLR2004 - RFC 9110 §15.4
        raise UpstreamError(UpstreamFault.REDIRECT)


def _announced_bytes(response: httpx.Response, fields: Fields) -> int | None:
    """The length of the body that follows (RFC 9112 §6.3); None where its end is marked otherwise."""
    if response.request.method == "HEAD" or response.status_code in BODILESS_STATUSES:
        return 0
    announced = field(fields, b"content-length")
    return int(announced) if announced is not None and announced.isdigit() else None


def _nothing() -> None:
    """Before anything is passed on, nobody listens."""
