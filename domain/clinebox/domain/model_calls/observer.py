"""Reads a response as it passes, and changes nothing (SPEC §11): sans-I/O, bounded, never an exception."""

from __future__ import annotations

from clinebox.domain.model_calls.record import ObservedResponse


class ResponseObserver:
    """Takes a response's body (decoded from any content coding) in any cuts; facts at any time."""

    def __init__(self, *, streamed_hint: bool = True) -> None:
        self._streamed_hint = streamed_hint

    def feed(self, chunk: bytes) -> None:
        """Read on."""

    def finish(self) -> None:
        """The body is whole, or will not go on."""

    def facts(self) -> ObservedResponse:
        """What has passed so far."""
        return ObservedResponse()
