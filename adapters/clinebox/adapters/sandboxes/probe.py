"""Whether a containment really works here: the real thing is started, with a trivial command in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from returns.pipeline import is_successful

from clinebox.adapters.sandboxes.child import Child
from clinebox.adapters.sandboxes.containment import Containment, command_argv
from clinebox.adapters.sandboxes.jail import MESSAGE_BYTES, Jail, discard, finished, start_jail
from clinebox.adapters.sandboxes.start_request import StartRequest

PROBE_S: Final = 10.0
DISCARD_S: Final = 10.0


async def probe(candidate: Containment, start: StartRequest) -> str | None:
    """The reason when it does not work; None when it does."""
    trivial = start.for_probe()
    try:
        async with asyncio.timeout(PROBE_S):
            started = await start_jail(trivial.launcher_argv(candidate), trivial.launcher_environment())
    except TimeoutError:
        return f"it did not start within {PROBE_S:g} s"
    if not is_successful(started):
        return started.failure()
    jail = started.unwrap()
    try:
        return await _try_command(jail, trivial.environment(candidate))
    finally:
        await finished(jail.end(within_s=DISCARD_S))


async def _try_command(jail: Jail, env: Mapping[str, str]) -> str | None:
    argv = command_argv(jail.prefix, "/", ("true",))
    child = Child(argv, env=env, stdin=b"", limit_bytes=MESSAGE_BYTES, new_session=True)
    try:
        if not await child.exited(within_s=PROBE_S):
            return f"a trivial command in it did not end within {PROBE_S:g} s"
        await child.drain(within_s=1)
        words = child.stderr.content.decode("utf-8", "replace").strip()
        return None if child.return_code == 0 else f"a trivial command in it failed: {words}"
    finally:
        await finished(discard(child))
