"""A container removed for good, with everything that runs in it."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.docker.engine import Engine
from clinebox.adapters.sandboxes.docker.troubles import HALF_REMOVED
from clinebox.domain.ports import SandboxFailure, SandboxTrouble

POLL_S: Final = 0.1
LEAST_S: Final = 0.05
PASSING: Final = ("already in progress", "engine refused it", "container state improper", HALF_REMOVED)


async def remove_container(engine: Engine, name: str, *, timeout_s: float) -> Result[None, SandboxFailure]:
    """Kill it and see it gone; one that is not there is removed. Failure(TIMED_OUT) past `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        left_s = max(LEAST_S, deadline - time.monotonic())
        removed = await engine.call(
            f"removing {name}", lambda api: api.remove_container(name, force=True, v=True), timeout_s=left_s
        )
        if is_successful(removed) or removed.failure().trouble is SandboxTrouble.NOT_FOUND:
            return Success(None)
        failure = removed.failure()
        # Refused at this moment: it is being started, or ends by itself (AutoRemove). See it gone.
        passing = any(sign in failure.message for sign in PASSING)
        if not passing or time.monotonic() >= deadline:
            return Failure(failure)
        await asyncio.sleep(POLL_S)
