"""One model call as it happens: what is known of it at any moment, and what is left in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import httpx

from clinebox.adapters.gateway.bodies import Capture
from clinebox.adapters.gateway.failures import UpstreamFault
from clinebox.adapters.gateway.sampling import Number


class CallEnd(StrEnum):
    FINISHED = "finished"
    UPSTREAM_CLOSED = "upstream_closed"
    CLIENT_CLOSED = "client_closed"
    TIMEOUT = "timeout"
    REFUSED = "refused"


class Phase(StrEnum):
    CONNECTING = "connecting"
    WAITING = "waiting_for_first_byte"
    STREAMING = "streaming"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class ModelCall:
    number: int
    method: str
    path: str
    received_at: float
    connected_after_s: float | None
    first_byte_after_s: float | None
    last_byte_after_s: float | None
    ended_after_s: float | None
    status: int | None
    end: CallEnd | None
    phase: Phase
    request_bytes: int
    response_bytes: int
    fault: UpstreamFault | None
    gateway_status: int | None
    sampling: Mapping[str, Number]


class Cut(StrEnum):
    """Who ended a call from outside."""

    CLIENT_GONE = "client_gone"
    SESSION_ENDED = "session_ended"


class Attempt:
    """A call under way; `on_end` is told once."""

    def __init__(
        self,
        number: int,
        method: str,
        path: str,
        *,
        wall: float,
        monotonic: Callable[[], float],
        on_end: Callable[[Attempt], None],
    ) -> None:
        self.number = number
        self._method = method
        self._path = path
        self._wall = wall
        self._monotonic = monotonic
        self._on_end = on_end
        self._began = monotonic()
        self.life: asyncio.Timeout | None = None
        """Set while the call can be cut."""
        self.cut_by: Cut | None = None
        self._connected: float | None = None
        self._first: float | None = None
        self._last: float | None = None
        self._ended: float | None = None
        self._status: int | None = None
        self._end: CallEnd | None = None
        self._fault: UpstreamFault | None = None
        self._gateway_status: int | None = None
        self._sampling: Mapping[str, Number] = {}
        self._request_bytes = 0
        self._response_bytes = 0

    def connected(self) -> None:
        self._connected = self._now()

    def sent(self, piece: bytes) -> None:
        self._request_bytes += len(piece)

    def sampled(self, applied: Mapping[str, Number]) -> None:
        self._sampling = applied

    def answered(self, status: int, headers: httpx.Headers) -> None:
        self._status = status

    def received(self, chunk: bytes) -> None:
        self._last = self._now()
        if self._first is None:
            self._first = self._last
        self._response_bytes += len(chunk)

    def finished(self) -> None:
        self._close(CallEnd.FINISHED)

    def failed(self, fault: UpstreamFault, gateway_status: int | None) -> None:
        self._fault = fault
        ends = {
            UpstreamFault.CLOSED: CallEnd.UPSTREAM_CLOSED,
            UpstreamFault.TIMEOUT: CallEnd.TIMEOUT,
            UpstreamFault.CONNECT_TIMEOUT: CallEnd.TIMEOUT,
        }
        self._gateway_status = gateway_status
        self._close(ends.get(fault, CallEnd.REFUSED))

    def refused(self, gateway_status: int | None) -> None:
        self._gateway_status = gateway_status
        self._close(CallEnd.REFUSED)

    def stalled(self, gateway_status: int | None) -> None:
        self._gateway_status = gateway_status
        self._close(CallEnd.TIMEOUT)

    def client_gone(self, gateway_status: int | None) -> None:
        self._gateway_status = gateway_status
        self._close(CallEnd.CLIENT_CLOSED)

    def cut(self, by: Cut) -> None:
        """End it from outside, at once."""
        if self.life is not None and self.cut_by is None:
            self.cut_by = by
            self.life.reschedule(asyncio.get_running_loop().time())

    @property
    def has_ended(self) -> bool:
        return self._end is not None

    def record(self) -> ModelCall:
        phase = Phase.CONNECTING
        if self._end is not None:
            phase = Phase.ENDED
        elif self._first is not None:
            phase = Phase.STREAMING
        elif self._connected is not None:
            phase = Phase.WAITING
        return ModelCall(
            self.number, self._method, self._path, self._wall, self._connected, self._first, self._last,
            self._ended, self._status, self._end, phase, self._request_bytes, self._response_bytes,
            self._fault, self._gateway_status, self._sampling,
        )

    def _now(self) -> float:
        return self._monotonic() - self._began

    def _close(self, end: CallEnd) -> None:
        if self._end is None:
            self._end = end
            self._ended = self._now()
            self._on_end(self)
