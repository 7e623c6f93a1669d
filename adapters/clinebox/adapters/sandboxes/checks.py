"""What cannot be asked of any sandbox here, told in sentences before kernel or engine do it in numbers."""

from __future__ import annotations

import errno
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from returns.result import Failure, Result

from clinebox.domain.ports import (
    Command,
    ExecResult,
    HostPort,
    NetworkMode,
    SandboxFailure,
    SandboxSpec,
    SandboxTrouble,
)


def refused(message: str) -> Failure[SandboxFailure]:
    """The caller asked for what cannot be."""
    return Failure(SandboxFailure(SandboxTrouble.BAD_REQUEST, message))


def problem_of_command(command: Command, timeout_s: float) -> str | None:
    """Why a command cannot be passed on, in a sentence."""
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        return f"The timeout must be a positive number of seconds, not {timeout_s}."
    if not command.argv or not command.argv[0]:
        return "The command is empty."
    if command.cwd is not None and not command.cwd.startswith("/"):
        return f"The working directory must be an absolute path, not {command.cwd!r}."
    return problem_of_environment(command.env)


def problem_of_environment(env: Mapping[str, str]) -> str | None:
    """Why an environment cannot be passed on; the values stay out of the sentence."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            return f"The environment variable {name!r} has a name or value that no process can be given."
    return None


def not_started(command: Command, error: OSError | ValueError) -> Result[ExecResult, SandboxFailure]:
    """Why the kernel did not start a command, as a failure."""
    name = command.argv[0]
    if isinstance(error, ValueError):
        return refused(f"The command {name!r} holds a NUL or text that cannot be encoded.")
    if error.errno == errno.E2BIG:
        return refused(f"The command {name!r} and its environment are too long for the kernel.")
    message = f"The command {name!r} could not be started: {error}."
    return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))


LAST_PORT: Final = 65_535


def objections(spec: SandboxSpec) -> Iterator[str]:
    """What no provider can be asked for, each in a sentence: environment, bounds, mounts, the gateway."""
    if (problem := problem_of_environment(spec.env)) is not None:
        yield problem
    yield from _bad_bounds(spec)
    yield from _bad_mounts(spec)
    if spec.network is NetworkMode.GATEWAY:
        yield from _bad_gateway(spec.gateway)


def _bad_bounds(spec: SandboxSpec) -> Iterator[str]:
    limits = spec.resources
    bounds = {
        "time to live": spec.ttl_s,
        "limit on cpu_cores": limits.cpu_cores,
        "limit on memory_bytes": limits.memory_bytes,
        "limit on pids": limits.pids,
        "limit on disk_bytes": limits.disk_bytes,
    }
    for name, value in bounds.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            yield f"The {name} must be a positive number, not {value}."


def _bad_mounts(spec: SandboxSpec) -> Iterator[str]:
    for mount in spec.mounts:
        if not (mount.sandbox_path.startswith("/") and mount.host_path.startswith("/")):
            yield f"A mount needs absolute paths, not {mount.host_path} at {mount.sandbox_path}."
        elif not Path(mount.host_path).exists():
            yield f"{mount.host_path}, to be mounted at {mount.sandbox_path}, does not exist."


def _bad_gateway(gateway: HostPort | None) -> Iterator[str]:
    if gateway is None:
        yield "The network mode 'gateway' needs the gateway's address."
    elif not gateway.host or not 0 < gateway.port <= LAST_PORT:
        address = f"{gateway.host!r}:{gateway.port}"
        yield f"The gateway's address {address} is none; a port is a number from 1 to {LAST_PORT}."
