"""Where a call stands, and how long it has waited there (SPEC §11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from clinebox.domain.model_calls.record import CallPhase, CallTimes, ModelCall

IDLE_AFTER_S: Final = 5.0
"""A stream that has been silent for longer is idle. Engines pause for less between tokens."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a call was waiting for, and for how long (None: no clock tells)."""

    phase: CallPhase
    wait_s: float | None


def phase_at(times: CallTimes, now_s: float) -> CallPhase:
    """The phase at a moment, for a record.

    >>> phase_at(CallTimes(received_at_s=10.0, upstream_connected_at_s=10.1), 20.0).value
    'waiting'
    """
    return CallPhase.ENDED if times.ended_at_s is not None else _open_phase(times, now_s)


def _open_phase(times: CallTimes, at_s: float) -> CallPhase:
    if times.last_byte_at_s is not None:
        silent = at_s - times.last_byte_at_s > IDLE_AFTER_S
        return CallPhase.IDLE if silent else CallPhase.STREAMING
    return CallPhase.WAITING if times.upstream_connected_at_s is not None else CallPhase.CONNECTING


def last_wait(call: ModelCall) -> Wait:
    """The wait in which the call ended, or in which it was when the record was taken.

    Up to the first byte it counts from the request's arrival, as Cline itself waits; then from the last byte.
    """
    times = call.times
    at_s = times.ended_at_s if times.ended_at_s is not None else call.recorded_at_s
    if at_s is None:
        return Wait(_open_phase(times, times.received_at_s), None)
    since_s = times.last_byte_at_s if times.last_byte_at_s is not None else times.received_at_s
    return Wait(_open_phase(times, at_s), max(at_s - since_s, 0.0))
