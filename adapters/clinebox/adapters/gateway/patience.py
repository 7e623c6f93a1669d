"""How long a call may go without a byte: one timer a call, whatever passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Patience:
    """Calls `expired` once nothing was `touch`ed for `idle_s`; stop it in the end.

    A timer for each read and write would cost more than they do, at hundreds of streams.
    """

    def __init__(self, idle_s: float, expired: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle_s = idle_s
        self._expired = expired
        self._touched_s = self._loop.time()
        self._timer = self._loop.call_later(idle_s, self._look)

    def touch(self) -> None:
        """A byte went by."""
        self._touched_s = self._loop.time()

    def stop(self) -> None:
        """Expire no more."""
        self._timer.cancel()

    def _look(self) -> None:
        due_s = self._touched_s + self._idle_s
        if self._loop.time() >= due_s:
            self._expired()
        else:
            self._timer = self._loop.call_at(due_s, self._look)
