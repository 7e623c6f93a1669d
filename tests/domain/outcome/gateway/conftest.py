"""Model calls as the gateway records them, made in a word each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import pytest

from clinebox.domain.model_calls.codec import model_call_lines
from clinebox.domain.model_calls.facts import ModelCallFacts
from clinebox.domain.model_calls.reader import parse_model_calls
from clinebox.domain.model_calls.record import (
    CallEnd,
    CallFlag,
    CallPhase,
    CallTimes,
    CallUsage,
    ModelCall,
    ObservedResponse,
    RequestFacts,
    UpstreamError,
)

BEGIN_S = 1_796_058_000.0
"""2026-11-30T17:00:00Z: when the synthetic runs of the parent folder begin."""
USAGE = CallUsage(100, 40, 10, 3)
Edit: TypeAlias = Callable[[bytes], bytes]


class Calls:
    """Makes calls; each takes a second unless it is told otherwise."""

    def __call__(self, *calls: ModelCall, edit: Edit = bytes) -> ModelCallFacts:
        """The record of these calls, in their order."""
        return parse_model_calls(edit(self.as_bytes(calls)))

    def as_bytes(self, calls: Sequence[ModelCall]) -> bytes:
        placed = [_placed(call, number) for number, call in enumerate(calls, 1)]
        return b"".join(model_call_lines(placed))

    def call(self, *, tools: bool | None = True, lasts_s: float = 1.0, **members: object) -> ModelCall:
        times = CallTimes(0.0, 0.1, 0.2, 0.9 * lasts_s, lasts_s)
        request = RequestFacts("m", has_tools=tools, streamed=True, messages=2)
        base = ModelCall(1, "/chat/completions", times, request=request, phase=CallPhase.ENDED)
        known = {"http_status": 200, "end": CallEnd.FINISHED, **members}
        return replace(base, **known)  # type: ignore[arg-type]

    def ok(
        self,
        finish: str | None = "stop",
        *,
        tool_calls: int = 0,
        usage: CallUsage | None = USAGE,
        output: bool = True,
        error: UpstreamError | None = None,
        flags: Sequence[CallFlag] = (),
        **members: object,
    ) -> ModelCall:
        said = ObservedResponse(
            finish_reason=finish,
            usage=usage,
            response_id="r",
            upstream_model="m",
            tool_call_count=tool_calls,
            terminal_event=finish is not None,
            error=error,
            produced_output=output,
            flags=frozenset(flags),
        )
        return self.call(response=said, **members)  # type: ignore[arg-type]

    def tool(self, **members: object) -> ModelCall:
        """A turn that calls a tool."""
        return self.ok("tool_calls", tool_calls=1, **members)  # type: ignore[arg-type]

    def empty(self, finish: str | None = "stop", **members: object) -> ModelCall:
        return self.ok(finish, output=False, **members)  # type: ignore[arg-type]

    def status(self, status: int) -> ModelCall:
        return self.call(http_status=status, response=ObservedResponse(error=UpstreamError("no", None)))

    def error_object(self, code: int | str | None, *, output: bool = False) -> ModelCall:
        return self.ok(None, usage=None, output=output, error=UpstreamError("boom", code))

    def cut(self, *, output: bool = True) -> ModelCall:
        """Cut in mid-answer."""
        return self.ok(None, usage=None, output=output, end=CallEnd.UPSTREAM_CLOSED)

    def ended(self, *, output: bool = True) -> ModelCall:
        """Ended without a finish reason, and cleanly."""
        return self.ok(None, usage=None, output=output)

    def html(self) -> ModelCall:
        return self.ok(None, usage=None, output=False, flags=[CallFlag.NOT_A_STREAM])

    def malformed(self, *, output: bool = False) -> ModelCall:
        """Cline leaves at a line that is no JSON."""
        return self.ok(None, usage=None, output=output, flags=[CallFlag.BAD_DATA], end=CallEnd.CLIENT_CLOSED)

    def refused(self) -> ModelCall:
        return self._own(502, CallEnd.REFUSED, "the upstream refused the connection")

    def reset_before_headers(self) -> ModelCall:
        return self._own(502, CallEnd.UPSTREAM_CLOSED, "the upstream closed the connection")

    def redirected(self) -> ModelCall:
        """As the gateway records it: the upstream's own status, and a 502 in its place."""
        call = self._own(502, CallEnd.REFUSED, "the model server redirects")
        return replace(call, http_status=307)

    def connect_timeout(self) -> ModelCall:
        return self._own(504, CallEnd.TIMEOUT, "the upstream did not answer in time")

    def refused_by_us(self, status: int = 413) -> ModelCall:
        return self._own(status, CallEnd.REFUSED, "the request is larger than the bound")

    def _own(self, status: int, end: CallEnd, error: str) -> ModelCall:
        call = self.call(http_status=None, end=end, gateway_status=status, gateway_error=error)
        return replace(call, times=CallTimes(0.0, ended_at_s=0.2))

    def silent(self, lasts_s: float, *, end: CallEnd | None, connected: bool = True) -> ModelCall:
        """No byte came."""
        times = CallTimes(0.0, 0.1 if connected else None, ended_at_s=None if end is None else lasts_s)
        call = self.call(http_status=None, end=end, recorded_at_s=lasts_s)
        return replace(call, times=times, phase=CallPhase.WAITING if end is None else CallPhase.ENDED)

    def stalled(self, silent_s: float, *, end: CallEnd | None) -> ModelCall:
        """Bytes came, and then none."""
        times = CallTimes(0.0, 0.1, 0.2, 3.0, None if end is None else 3.0 + silent_s)
        call = self.ok(None, usage=None, end=end, recorded_at_s=3.0 + silent_s)
        return replace(call, times=times)


def _placed(call: ModelCall, number: int) -> ModelCall:
    """The call in its place, ten seconds after the one before."""
    offset_s = BEGIN_S + 10.0 * (number - 1)
    times = call.times

    def moved(at_s: float | None) -> float | None:
        return None if at_s is None else at_s + offset_s

    placed = CallTimes(
        times.received_at_s + offset_s,
        moved(times.upstream_connected_at_s),
        moved(times.first_byte_at_s),
        moved(times.last_byte_at_s),
        moved(times.ended_at_s),
    )
    return replace(call, number=number, times=placed, recorded_at_s=moved(call.recorded_at_s))


@pytest.fixture
def calls() -> Calls:
    """What makes calls."""
    return Calls()
