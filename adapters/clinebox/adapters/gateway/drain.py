"""The end of a standing gateway: what is under way is let finish, nothing new begins."""

from __future__ import annotations

import asyncio
from typing import Final

from clinebox.adapters.gateway.asgi import Application, Receive, Scope, Send
from clinebox.adapters.gateway.refusals import Refusal, send_refusal
from clinebox.adapters.gateway.targets import HEALTH_PATH

DRAINING: Final = Refusal(503, "draining", "this gateway is being stopped and takes no new calls")


class Drain:
    """An application before all others that counts what is under way, and refuses new work once it drains.

    A drain lets through what only looks or ends: GET (but `/health` and calls, which are 503) and DELETE.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._under_way = 0
        self._is_draining = False
        self._is_quiet = asyncio.Event()

    @property
    def under_way(self) -> int:
        """How many requests are being answered."""
        return self._under_way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self._is_draining and _is_new_work(scope):
            await send_refusal(send, DRAINING, method=scope["method"])
            return
        self._under_way += 1
        try:
            await self._application(scope, receive, send)
        finally:
            self._under_way -= 1
            self._notice()

    async def finished(self, within_s: float) -> bool:
        """Begin to drain; whether all that was under way came to its own end within this time."""
        self._is_draining = True
        self._notice()
        try:
            async with asyncio.timeout(within_s):
                await self._is_quiet.wait()
        except TimeoutError:
            return False
        return True

    def _notice(self) -> None:
        if self._is_draining and self._under_way == 0:
            self._is_quiet.set()


def _is_new_work(scope: Scope) -> bool:
    path = scope.get("raw_path") or b""
    return path == HEALTH_PATH or path.startswith(b"/s/") or scope["method"] not in ("GET", "DELETE")
