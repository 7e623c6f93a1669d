"""What the gateway knows of one session: its token, where its calls go, and each call it made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from clinebox.adapters.gateway.attempts import Attempt, Clock, Cut
from clinebox.adapters.gateway.bodies import CapturedBodies, NewMaskStream
from clinebox.adapters.gateway.sampling import Sampling
from clinebox.domain.model_calls.record import ModelCall


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What is set for one session."""

    prefix: str = ""
    """A path before the upstream's own, such as `/ng-rollout/KEY`."""
    sampling: Sampling = field(default_factory=Sampling)
    capture: NewMaskStream | None = None
    """Keep both bodies of each call, at most 1 MiB each, masked by streams that this opens."""
    on_end: Callable[[ModelCall, CapturedBodies | None], None] | None = None
    """Told of each call as it ends, before the client can know the answer's end. Must not block or raise."""
    keeps_records: bool = True
    """False for a session without an end in sight: its calls are told to `on_end` and not kept in memory."""


class GatewaySession:
    """One session's account at the gateway; made by `Gateway.open_session`."""

    def __init__(
        self,
        token: str,
        upstream_url: str,
        options: SessionOptions,
        *,
        clock: Clock,
        cover_key: Callable[[str], str],
        forget: Callable[[str], None],
        on_end: Callable[[ModelCall], None] | None,
    ) -> None:
        self.token = token
        self.upstream_url = upstream_url
        self._options = options
        self._clock = clock
        self._cover_key = cover_key
        self._forget = forget
        self._gateway_on_end = on_end
        self._ended: list[ModelCall] = []
        self._live: dict[int, Attempt] = {}
        self._count = 0

    def __repr__(self) -> str:
        return f"GatewaySession({self._count} calls)"

    @property
    def sampling(self) -> Sampling:
        """The fields that are set in its requests."""
        return self._options.sampling

    @property
    def call_count(self) -> int:
        """How many calls it made so far."""
        return self._count

    @property
    def live_call_count(self) -> int:
        """How many of its calls are under way."""
        return sum(not attempt.has_ended for attempt in self._live.values())

    def base_url(self, address: str) -> str:
        """What Cline takes as its base URL, where `address` is how it reaches the gateway (`http://host:port`)."""
        return f"{address.rstrip('/')}/s/{self.token}/v1"

    def records(self) -> tuple[ModelCall, ...]:
        """Every call so far, in order of arrival; those under way as they stand now."""
        live = [attempt.record() for attempt in self._live.values() if not attempt.has_ended]
        return tuple(sorted([*self._ended, *live], key=lambda call: call.number))

    def close(self) -> None:
        """End the token, and cut the calls under way; safe to call twice. The records stay."""
        self._forget(self.token)
        for attempt in list(self._live.values()):
            attempt.cut(Cut.SESSION_ENDED)

    @contextmanager
    def attempt(self, method: str, below: str) -> Iterator[Attempt]:
        """A call, from its arrival to its end; one that nobody ended was cancelled with its client."""
        self._count += 1
        attempt = Attempt(
            self._count,
            method,
            f"/v1{below}",
            clock=self._clock,
            capture=self._options.capture,
            cover_key=self._cover_key,
            on_end=self._note,
        )
        self._live[attempt.number] = attempt
        try:
            yield attempt
        finally:
            attempt.client_gone()
            del self._live[attempt.number]

    def _note(self, attempt: Attempt) -> None:
        call = attempt.record()
        if self._options.keeps_records:
            self._ended.append(call)
        if self._gateway_on_end is not None:
            self._gateway_on_end(call)
        if self._options.on_end is not None:
            self._options.on_end(call, attempt.bodies())
