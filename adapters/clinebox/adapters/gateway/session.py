"""What the gateway knows of one session: its token, where its calls go, and each call it made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from clinebox.adapters.gateway.attempts import Attempt, Cut, ModelCall
from clinebox.adapters.gateway.sampling import Sampling


@dataclass(frozen=True, slots=True)
class SessionOptions:
    prefix: str = ""
    sampling: Sampling = field(default_factory=Sampling)
    on_end: Callable[[ModelCall], None] | None = None


class GatewaySession:
    def __init__(
        self,
        token: str,
        upstream_url: str,
        options: SessionOptions,
        *,
        wall_clock: Callable[[], float],
        monotonic: Callable[[], float],
        forget: Callable[[str], None],
    ) -> None:
        self.token = token
        self.upstream_url = upstream_url
        self.sampling = options.sampling
        self._on_end = options.on_end
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._forget = forget
        self._ended: list[ModelCall] = []
        self._live: dict[int, Attempt] = {}
        self._count = 0

    def base_url(self, address: str) -> str:
        return f"{address.rstrip('/')}/s/{self.token}/v1"

    def records(self) -> tuple[ModelCall, ...]:
        live = [attempt.record() for attempt in self._live.values() if not attempt.has_ended]
        return tuple(sorted([*self._ended, *live], key=lambda call: call.number))

    def close(self) -> None:
        self._forget(self.token)
        for attempt in list(self._live.values()):
            attempt.cut(Cut.SESSION_ENDED)

    @contextmanager
    def attempt(self, method: str, below: str) -> Iterator[Attempt]:
        self._count += 1
        attempt = Attempt(
            self._count, method, below, wall=self._wall_clock(), monotonic=self._monotonic, on_end=self._note
        )
        self._live[attempt.number] = attempt
        try:
            yield attempt
        finally:
            attempt.client_gone(None)
            del self._live[attempt.number]

    def _note(self, attempt: Attempt) -> None:
        call = attempt.record()
        self._ended.append(call)
        if self._on_end is not None:
            self._on_end(call)
