"""Sends one planned response over one connection, and breaks it where the turn says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from clinebox.adapters.scripted_model.connection import Connection
from clinebox.adapters.scripted_model.http1 import ResponseFraming, framed, response_head
from clinebox.adapters.scripted_model.response import BODILESS_STATUSES, Piece, Response
from clinebox.adapters.scripted_model.script import Fault, Framing, Turn
from clinebox.adapters.scripted_model.sse import pieces

RESETS: Final = frozenset(
    {Fault.RESET_BEFORE_HEADERS, Fault.RESET_AFTER_HEADERS, Fault.RESET_MID_STREAM, Fault.RESET_AT_END}
)
BEFORE_HEADERS: Final = frozenset(
    {Fault.RESET_BEFORE_HEADERS, Fault.CLOSE_BEFORE_HEADERS, Fault.HANG_BEFORE_HEADERS}
)
AFTER_HEADERS: Final = frozenset(
    {Fault.RESET_AFTER_HEADERS, Fault.CLOSE_AFTER_HEADERS, Fault.HANG_AFTER_HEADERS}
)

PLAIN_TURN: Final = Turn()
"""For answers that no turn gives: no fault."""


class ConnectionCutError(Exception):
    """The server broke the connection on purpose."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a response has come."""

    status: int | None = None
    """None until the headers are sent."""
    chunks_sent: int = 0
    hangs: bool = False


class Performer:
    """One response on its way; `report` is told how far it has come."""

    def __init__(
        self,
        connection: Connection,
        turn: Turn,
        *,
        released: Callable[[], asyncio.Event],
        report: Callable[[Progress], None],
    ) -> None:
        self._connection = connection
        self._turn = turn
        self._released = released
        self._report = report
        self._progress = Progress()

    async def send(self, response: Response, framing: ResponseFraming) -> None:
        """Send it whole.

        Raises ConnectionCutError where the fault cut it, ClientGoneError when nobody listens.
        """
        await self._strike_if(self._turn.fault in BEFORE_HEADERS)
        await self._connection.send(response_head(response.status, response.headers, framing))
        self._moved(replace(self._progress, status=response.status))
        await self._strike_if(self._turn.fault in AFTER_HEADERS)
        for piece in response.pieces:
            await self._send_piece(piece, framing)
        if framing.chunked:
            await self._connection.send(b"0\r\n\r\n")

    async def _send_piece(self, piece: Piece, framing: ResponseFraming) -> None:
        await self._connection.pause(piece.pause_s)
        await self._strike_if(piece.strikes)
        for part in pieces(piece.data, self._turn.write_bytes):
            await self._connection.send(framed(part, framing))
        if piece.is_content:
            self._moved(replace(self._progress, chunks_sent=self._progress.chunks_sent + 1))

    async def _strike_if(self, here: bool) -> None:  # noqa: FBT001 - reads as a sentence where it is called
        fault = self._turn.fault
        if not here or fault is None:
            return
        if fault.hangs:
            released = self._released()
            self._moved(replace(self._progress, hangs=True))
            await self._connection.wait_for(released, self._turn.for_s)
            self._moved(replace(self._progress, hangs=False))
            return
        if fault not in BEFORE_HEADERS:
            await self._connection.pause(self._turn.fault_delay_s)
        if fault in RESETS:
            self._connection.reset()
        else:
            self._connection.close()
        raise ConnectionCutError

    def _moved(self, progress: Progress) -> None:
        self._progress = progress
        self._report(progress)


def framing_of(response: Response, *, http11: bool, keeps_alive: bool) -> ResponseFraming:
    """How this response's end is marked for this client."""
    if response.status in BODILESS_STATUSES:
        return ResponseFraming(None, chunked=False, keeps_alive=keeps_alive)
    if response.length is not None:
        return ResponseFraming(response.length, chunked=False, keeps_alive=keeps_alive)
    chunked = http11 and response.framing is Framing.CHUNKED
    return ResponseFraming(None, chunked=chunked, keeps_alive=keeps_alive and chunked)
