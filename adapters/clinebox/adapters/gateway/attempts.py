"""One model call as it happens: what is known of it at any moment, and what is left in the end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from clinebox.adapters.gateway.bodies import Capture, CapturedBodies, NewMaskStream
from clinebox.adapters.gateway.coding import decoder_for
from clinebox.adapters.gateway.failures import SENTENCES, UpstreamFault
from clinebox.adapters.gateway.headers import Fields, field
from clinebox.adapters.gateway.refusals import Refusal
from clinebox.adapters.gateway.sampling import Number
from clinebox.domain.json_value import JsonValue, parse_json
from clinebox.domain.model_calls.observer import ResponseObserver
from clinebox.domain.model_calls.phases import phase_at
from clinebox.domain.model_calls.record import (
    FIRST_ERROR_STATUS,
    CallEnd,
    CallTimes,
    ModelCall,
    ObservedResponse,
)
from clinebox.domain.model_calls.request import read_request

FACTS_LIMIT_BYTES: Final = 8 * 1024 * 1024
"""A longer request is passed on and not read: parsing it would hold up every other stream."""
_ENDS: Final = {
    UpstreamFault.CLOSED: CallEnd.UPSTREAM_CLOSED,
    UpstreamFault.TIMEOUT: CallEnd.TIMEOUT,
    UpstreamFault.CONNECT_TIMEOUT: CallEnd.TIMEOUT,
}


class Cut(StrEnum):
    """Who ended a call from outside."""

    CLIENT_GONE = "client_gone"
    CLIENT_STALLED = "client_stalled"
    """It neither sent nor took a byte in time."""
    UPSTREAM_SILENT = "upstream_silent"
    SESSION_ENDED = "session_ended"


@dataclass(frozen=True, slots=True)
class Clock:
    """Epoch seconds that never step: the wall clock once, the monotonic one from there."""

    wall: Callable[[], float]
    monotonic: Callable[[], float]


class Attempt:
    """A call under way. The relay reports to it; `record` may be asked at any time; `on_end` is told once."""

    def __init__(
        self,
        number: int,
        method: str,
        path: str,
        *,
        clock: Clock,
        capture: NewMaskStream | None,
        cover_key: Callable[[str], str],
        on_end: Callable[[Attempt], None],
    ) -> None:
        self._monotonic = clock.monotonic
        self._epoch = clock.wall() - clock.monotonic()
        self._call = ModelCall(number, path, CallTimes(received_at_s=self._now()), method=method)
        self._cover_key = cover_key
        self._on_end = on_end
        self._observer: ResponseObserver | None = None
        self._decode: Callable[[bytes], bytes] | None = None
        self._request: list[bytes] | None = [] if self._call.is_completion else None
        self._captured = None if capture is None else (Capture(capture()), Capture(capture()))
        self._request_bytes = 0
        self._response_bytes = 0
        self._first_byte_at_s: float | None = None
        self._last_byte_at_s: float | None = None
        self._life: asyncio.Timeout | None = None
        self.cut_by: Cut | None = None

    @property
    def number(self) -> int:
        """Its place in the session, from 1."""
        return self._call.number

    @property
    def has_ended(self) -> bool:
        """Whether its record is the last one."""
        return self._call.end is not None

    # the request

    def sent(self, piece: bytes) -> None:
        """A piece of the request's body, as the client sent it."""
        self._request_bytes += len(piece)
        if self._captured is not None:
            self._captured[0].feed(piece)
        if self._request is not None:
            self._request.append(piece)
            if self._request_bytes > FACTS_LIMIT_BYTES:
                self._request = None

    def read_request(self) -> None:
        """The request's body is whole: read what it asks for."""
        pieces, self._request = self._request, None
        if pieces:
            self._asked(parse_json(b"".join(pieces)).value_or({}))

    def sampled(self, applied: Mapping[str, Number], body: JsonValue) -> None:
        """These fields were set in this body."""
        self._request = None
        self._call = replace(self._call, sampling=dict(applied))
        self._asked(body)

    def _asked(self, body: JsonValue) -> None:
        self._call = replace(self._call, request=read_request(body))

    def connected(self) -> None:
        """A connection to the upstream is there."""
        times = replace(self._call.times, upstream_connected_at_s=self._now())
        self._call = replace(self._call, times=times)

    # the answer

    def answered(self, status: int, fields: Fields) -> None:
        """The head of the upstream's response is there."""
        self._call = replace(self._call, http_status=status)
        if self._call.is_completion:
            # An error is a JSON body to whoever asked for a stream, too.
            streams = status < FIRST_ERROR_STATUS and self._call.request.streamed is not False
            self._observer = ResponseObserver(streamed_hint=streams)
            self._decode = decoder_for(field(fields, b"content-encoding"))

    def received(self, chunk: bytes) -> None:
        """Bytes of the response's body."""
        self._last_byte_at_s = self._now()
        if self._first_byte_at_s is None:
            self._first_byte_at_s = self._last_byte_at_s
        self._response_bytes += len(chunk)
        if self._captured is not None:
            self._captured[1].feed(chunk)
        if self._observer is not None:
            self._observer.feed(chunk if self._decode is None else self._decode(chunk))

    # the end; each is the last word, what is reported later counts no more

    def finished(self) -> None:
        """The whole response was passed on."""
        self._end(CallEnd.FINISHED)

    def failed(self, fault: UpstreamFault, gateway_status: int | None) -> None:
        """The upstream failed it; the client got this status of us, or a cut."""
        self._end(_ENDS.get(fault, CallEnd.REFUSED), gateway_status, SENTENCES[fault])

    def refused(self, refusal: Refusal, gateway_status: int | None) -> None:
        """The gateway itself did not carry it."""
        self._end(CallEnd.REFUSED, gateway_status, refusal.message)

    def stalled(self, refusal: Refusal, gateway_status: int | None) -> None:
        """The client neither sent nor took a byte in time."""
        self._end(CallEnd.TIMEOUT, gateway_status, refusal.message)

    def client_gone(self, patience_s: float = math.inf) -> None:
        """The client left; after `patience_s` of silence it gave up waiting, which is a timeout."""
        since_s = self._last_byte_at_s or self._call.times.received_at_s
        gave_up = self._now() - since_s >= patience_s
        self._end(CallEnd.TIMEOUT if gave_up else CallEnd.CLIENT_CLOSED)

    def broke(self, error: Exception, gateway_status: int | None) -> None:
        """The gateway itself failed; the error's text may quote a header, so its class alone is kept."""
        self._end(CallEnd.REFUSED, gateway_status, f"the gateway itself failed with {type(error).__name__}")

    def session_ended(self, refusal: Refusal, gateway_status: int | None) -> None:
        """The session ended under it."""
        self._end(CallEnd.CLIENT_CLOSED, gateway_status, refusal.message)

    def _end(self, end: CallEnd, gateway_status: int | None = None, error: str | None = None) -> None:
        if self.has_ended:
            return
        if self._observer is not None:
            self._observer.finish()
        times = replace(self._call.times, ended_at_s=self._now())
        self._call = replace(
            self._call, times=times, end=end, gateway_status=gateway_status, gateway_error=error
        )
        self._on_end(self)

    # asked at any time

    def record(self) -> ModelCall:
        """What is known now."""
        now_s = self._now()
        times = replace(
            self._call.times, first_byte_at_s=self._first_byte_at_s, last_byte_at_s=self._last_byte_at_s
        )
        return replace(
            self._call,
            times=times,
            recorded_at_s=now_s,
            phase=phase_at(times, now_s),
            request_bytes=self._request_bytes,
            response_bytes=self._response_bytes,
            response=self._facts(),
        )

    def _facts(self) -> ObservedResponse:
        """What the body said so far; some servers quote the key in an error."""
        facts = ObservedResponse() if self._observer is None else self._observer.facts()
        if facts.error is None or facts.error.message is None:
            return facts
        return replace(facts, error=replace(facts.error, message=self._cover_key(facts.error.message)))

    def bodies(self) -> CapturedBodies | None:
        """Both bodies as far as they are kept, masked; None where they are not captured."""
        if self._captured is None:
            return None
        request, response = self._captured
        return CapturedBodies(request.kept(), request.is_cut, response.kept(), response.is_cut)

    # cutting

    def lives(self, life: asyncio.Timeout | None) -> None:
        """From now on the call can be cut by this, or no more."""
        self._life = life

    def cut(self, by: Cut) -> None:
        """End it from outside, at once; nothing happens to one that is over.

        A session's end spares what is answered: the client may have it all, and use the connection again.
        """
        spared = by is Cut.SESSION_ENDED and self.has_ended
        if self._life is not None and self.cut_by is None and not spared:
            self.cut_by = by
            self._life.reschedule(asyncio.get_running_loop().time())

    def _now(self) -> float:
        return self._epoch + self._monotonic()
