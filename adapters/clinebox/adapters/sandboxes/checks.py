"""What cannot be asked of a local sandbox, told in sentences before the kernel does it in numbers."""

from __future__ import annotations

import errno
import math
from collections.abc import Mapping

from returns.result import Failure, Result

from clinebox.domain.ports import Command, ExecResult, SandboxFailure, SandboxTrouble


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
