"""What the engine says of a container: its state, what it used, and what was killed in it for memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.docker.engine import Engine
from clinebox.domain.ports import (
    Command,
    ResourceUsage,
    SandboxFailure,
    SandboxState,
    SandboxStatus,
    SandboxTrouble,
)

COUNTERS: Final = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")
"""cgroup v1 and v2, as a container sees its own."""
NS_PER_S: Final = 1e9


def oom_kills_command() -> Command:
    """Prints the counters that are there, with builtins only."""
    text = 'for f; do [[ -r $f ]] && echo "$(<"$f")"; done; :'
    return Command(argv=("bash", "-p", "-c", text, "cbx", *COUNTERS), cwd="/", env={"BASH_ENV": ""})


def oom_kills_of(output: bytes) -> int:
    """The kernel's count: `oom_kill N` in both versions; 0 where there is none."""
    for line in output.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == b"oom_kill" and words[1].isdigit():  # noqa: PLR2004 - name and number
            return int(words[1])
    return 0


def usage_of(stats: Mapping[str, Any]) -> ResourceUsage:
    """Of the engine's statistics; `max_usage` is there on cgroup v1 only."""
    cpu_ns = stats.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage")
    peak = stats.get("memory_stats", {}).get("max_usage")
    return ResourceUsage(
        cpu_s=cpu_ns / NS_PER_S if cpu_ns is not None else None,
        peak_memory_bytes=int(peak) if peak else None,
    )


def status_of(state: Mapping[str, Any]) -> SandboxStatus:
    """Of the `State` that the engine tells of a container."""
    if state["Running"] and not state.get("Paused"):
        return SandboxStatus(SandboxState.RUNNING)
    if state.get("Paused"):
        return SandboxStatus(SandboxState.RUNNING, "The container is paused.")
    why = "It ran out of its memory" if state.get("OOMKilled") else "Its first process ended"
    return SandboxStatus(SandboxState.STOPPED, f"{why} (exit code {state.get('ExitCode')}).")


async def seen_status(
    engine: Engine, container_id: str, *, timeout_s: float
) -> Result[SandboxStatus, SandboxFailure]:
    """What the engine says of it now; GONE when it knows nothing of it."""
    found = await engine.call(
        "looking at a sandbox", lambda api: api.inspect_container(container_id)["State"], timeout_s=timeout_s
    )
    if is_successful(found):
        return Success(status_of(found.unwrap()))
    if found.failure().trouble not in {SandboxTrouble.NOT_FOUND, SandboxTrouble.LOST}:
        return Failure(found.failure())
    message = f"{engine.name} knows nothing of the container any more."
    return Success(SandboxStatus(SandboxState.GONE, message))


async def measured_usage(
    engine: Engine, container_id: str, *, timeout_s: float
) -> Result[ResourceUsage, SandboxFailure]:
    """What it used so far, by the engine's count of its control group."""
    stats = await engine.call(
        "measuring a sandbox",
        lambda api: api.stats(container_id, stream=False, one_shot=True),
        timeout_s=timeout_s,
    )
    return stats.map(usage_of)
