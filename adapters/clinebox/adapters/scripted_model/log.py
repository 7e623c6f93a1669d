"""The server's list of requests, and waiting for it to change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from clinebox.adapters.scripted_model.http1 import HttpRequest
from clinebox.adapters.scripted_model.performer import Progress
from clinebox.adapters.scripted_model.records import Ending, RecordedRequest, without_credentials
from clinebox.domain.json_value import JsonValue

Requests = tuple[RecordedRequest, ...]


class RequestLog:
    """Written by the server's loop; `requests` may be read from any thread."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._records: list[RecordedRequest] = []
        self._changed = asyncio.Event()

    @property
    def requests(self) -> Requests:
        """All requests so far, in the order of arrival."""
        return tuple(self._records)

    def arrived(self, request: HttpRequest, body: JsonValue) -> int:
        """Note a request; returns its number."""
        number = len(self._records) + 1
        headers = without_credentials(request.headers)
        self._records.append(
            RecordedRequest(
                number, request.method, request.target, headers, body, len(request.body), self._monotonic()
            )
        )
        self._notify()
        return number

    def played(self, number: int, turn: int, play: int) -> None:
        """Note which turn answers."""
        self._replace(replace(self._records[number - 1], turn=turn, play=play))

    def moved(self, number: int, progress: Progress) -> None:
        """Note how far the answer has come."""
        self._replace(
            replace(
                self._records[number - 1],
                status=progress.status,
                chunks_sent=progress.chunks_sent,
                hangs=progress.hangs,
            )
        )

    def ended(self, number: int, ending: Ending) -> None:
        """Note how it ended."""
        self._replace(replace(self._records[number - 1], ending=ending, ended_s=self._monotonic()))

    async def wait_until(self, holds: Callable[[Requests], bool]) -> None:
        """Return as soon as the condition holds."""
        while not holds(self.requests):
            changed = self._changed
            await changed.wait()

    def _replace(self, record: RecordedRequest) -> None:
        self._records[record.number - 1] = record
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
