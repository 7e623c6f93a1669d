"""The sessions of a standing gateway, by an id that is no secret: opened, looked at, ended, forgotten."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Final

from clinebox.adapters.gateway.app import Gateway
from clinebox.adapters.gateway.bodies import CapturedBodies
from clinebox.adapters.gateway.calls_directory import CallsDirectory
from clinebox.adapters.gateway.session import GatewaySession, SessionOptions
from clinebox.adapters.gateway.session_order import SessionOrder
from clinebox.domain.model_calls.record import ModelCall

ID_BYTES: Final = 8
KEPT_S: Final = 600.0
"""An ended session can still be asked for: its `DELETE` may have to be sent again."""
CUT_S: Final = 10.0
"""Cut calls end within milliseconds; more is not waited for."""


class BookedSession:
    """One session in the book."""

    def __init__(
        self, gateway: Gateway, order: SessionOrder, directory: CallsDirectory | None, opened_at_s: float
    ) -> None:
        self.id = secrets.token_hex(ID_BYTES)
        self.opened_at_s = opened_at_s
        self.expires_at_s = opened_at_s + order.ttl_s
        self._directory = directory
        self._whole = asyncio.Event()
        self._is_closed = False
        options = SessionOptions(prefix=order.prefix, sampling=order.sampling, on_end=self._note)
        self.session: GatewaySession = gateway.open_session(options)

    @property
    def is_closed(self) -> bool:
        """Whether its token ended."""
        return self._is_closed

    @property
    def is_whole(self) -> bool:
        """Whether it ended and no call of it goes on: its record is the last one."""
        return self._whole.is_set()

    def close(self) -> None:
        """End the token and cut what goes on; safe to call twice."""
        if not self._is_closed:
            self._is_closed = True
            self.session.close()
            self._finish_when_quiet()

    async def wait_whole(self) -> bool:
        """Whether the record was the last one within `CUT_S`."""
        try:
            async with asyncio.timeout(CUT_S):
                await self._whole.wait()
        except TimeoutError:
            return False
        return True

    def _note(self, call: ModelCall, _bodies: CapturedBodies | None) -> None:
        if self._directory is not None:
            self._directory.append(self.id, call)
        self._finish_when_quiet()

    def _finish_when_quiet(self) -> None:
        if self._is_closed and self.session.live_call_count == 0 and not self._whole.is_set():
            if self._directory is not None:
                self._directory.finish(self.id, self.session.records())
            self._whole.set()


class SessionBook:
    """Every session that an operator opened, until `KEPT_S` after its end. For use within one event loop."""

    def __init__(
        self,
        gateway: Gateway,
        directory: CallsDirectory | None = None,
        *,
        kept_s: float = KEPT_S,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._gateway = gateway
        self._directory = directory
        self._kept_s = kept_s
        self._wall_clock = wall_clock
        self._booked: dict[str, BookedSession] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def open(self, order: SessionOrder) -> BookedSession:
        """A new session, which ends by itself when its time is up."""
        booked = BookedSession(self._gateway, order, self._directory, self._wall_clock())
        self._booked[booked.id] = booked
        self._later(booked.id, order.ttl_s, lambda: self.close(booked))
        return booked

    def find(self, session_id: str) -> BookedSession | None:
        """The session with this id, if it is not forgotten."""
        return self._booked.get(session_id)

    def __iter__(self) -> Iterator[BookedSession]:
        return iter(list(self._booked.values()))

    def close(self, booked: BookedSession) -> None:
        """End a session; it is forgotten `KEPT_S` later. Safe to call twice."""
        if booked.id in self._booked and not booked.is_whole:
            self._later(booked.id, self._kept_s, lambda: self._forget(booked.id))
        booked.close()

    async def aclose(self) -> int:
        """End every session; how many records are not the last ones, for calls that could not be cut."""
        for booked in self:
            booked.close()
        for timer in self._timers.values():
            timer.cancel()
        return (await asyncio.gather(*(booked.wait_whole() for booked in self))).count(False)

    def _later(self, session_id: str, delay_s: float, what: Callable[[], None]) -> None:
        earlier = self._timers.pop(session_id, None)
        if earlier is not None:
            earlier.cancel()
        self._timers[session_id] = asyncio.get_running_loop().call_later(delay_s, what)

    def _forget(self, session_id: str) -> None:
        self._booked.pop(session_id, None)
        self._timers.pop(session_id, None)
