"""The mode `gateway` made tight: packet rules in the container's own network namespace.

An internal network keeps the world out, and not this host: every service on any of its addresses can be
reached from there (seen with Docker 20.10). Where clinebox is root it lets only the gateway's port through.
The agent has no NET_ADMIN, so it cannot take the rules away.
"""

from __future__ import annotations

import os
import shutil
from signal import SIGKILL
from typing import Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.child import Child
from clinebox.adapters.sandboxes.docker.engine import Engine
from clinebox.adapters.sandboxes.jail import finished
from clinebox.adapters.sandboxes.process_table import send_signal
from clinebox.domain.ports import SandboxFailure, SandboxTrouble

PROGRAMS: Final = ("nsenter", "iptables-restore")
FENCE_S: Final = 10.0
RULES: Final = (
    "*filter\n:INPUT ACCEPT\n:FORWARD DROP\n:OUTPUT ACCEPT\n-A OUTPUT -o lo -j ACCEPT\n"
    "-A OUTPUT -p tcp -d {host} --dport {port} -j ACCEPT\n-A OUTPUT -j REJECT\nCOMMIT\n"
)


def can_fence() -> bool:
    """Whether this process may and can set rules in a container's network."""
    return os.geteuid() == 0 and all(shutil.which(name) for name in PROGRAMS)


async def fence(
    engine: Engine, container_id: str, host: str, port: int, *, timeout_s: float
) -> Result[None, SandboxFailure]:
    """Let a started container reach `host`:`port` and nothing else. Failure(UNAVAILABLE) when it does not."""
    found = await engine.call(
        "looking at a sandbox",
        lambda api: int(api.inspect_container(container_id)["State"]["Pid"]),
        timeout_s=timeout_s,
    )
    if not is_successful(found):
        return Failure(found.failure())
    enter = [shutil.which("nsenter") or "nsenter", f"--net=/proc/{found.unwrap()}/ns/net", "--"]
    child = Child(
        [*enter, shutil.which("iptables-restore") or "iptables-restore"],
        env={"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")},
        stdin=RULES.format(host=host, port=port).encode(),
        limit_bytes=4096,
        new_session=True,
    )
    try:
        return await _judged(child)
    finally:
        send_signal(child.process, SIGKILL)
        await finished(_reaped(child))


async def _judged(child: Child) -> Result[None, SandboxFailure]:
    over = await child.exited(within_s=FENCE_S)
    await child.drain(within_s=1)
    if over and child.return_code == 0:
        return Success(None)
    words = child.stderr.content.decode("utf-8", "replace").strip()[-300:]
    message = f"The sandbox's network could not be narrowed to the gateway: {words or 'no answer'}"
    return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))


async def _reaped(child: Child) -> None:
    await child.exited(within_s=FENCE_S)
    child.close()
