"""What an exec's end means: an exit code, a program that could not be run, or a failure of the sandbox."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.docker.running_exec import ExecState, refused_start
from clinebox.domain.ports import Command, ExecResult, SandboxFailure

NOT_RUN: Final = (125, 126, 127, 255)
RUNTIME_WORDS: Final = (b"OCI runtime exec failed", b"Error: runc: ", b"Error: crun: ")
"""Docker 20.10, and Podman 4.3 with either runtime."""
PROGRAM_MISSING: Final = ("executable file not found", "no such file or directory")
MAY_NOT_RUN: Final = ("permission denied", "exec format error", "is a directory")
STRING_LIMIT_BYTES: Final = 131_072
"""execve(2): MAX_ARG_STRLEN, the end included. Past it runc 1.1 hangs for ever, and its container too."""
TOTAL_LIMIT_BYTES: Final = 1_800_000
"""execve(2): a quarter of the stack's 8 MiB, less what the kernel and the image's environment need."""


def too_long(command: Command) -> str | None:
    """Why a command cannot be passed on: its size; None when it can."""
    texts = (*command.argv, *(f"{name}={value}" for name, value in command.env.items()))
    sizes = [len(text.encode("utf-8", "surrogateescape")) + 1 for text in texts]
    if max(sizes) > STRING_LIMIT_BYTES or sum(sizes) + 8 * len(sizes) > TOTAL_LIMIT_BYTES:
        return f"The command {command.argv[0][:200]!r} and its environment are too long for the kernel."
    return None


def not_encodable(command: Command) -> str | None:
    """Why a command cannot be passed on: NUL, or bytes that are not UTF-8 (the API is JSON)."""
    texts = (*command.argv, command.cwd or "", *command.env, *command.env.values())
    for text in texts:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            return f"The command {command.argv[0]!r} holds text that is not UTF-8, which no engine takes."
        if "\0" in text:
            return f"The command {command.argv[0]!r} holds a NUL or text that cannot be encoded."
    return None


def judged(command: Command, state: ExecState, result: ExecResult) -> Result[ExecResult, SandboxFailure]:
    """The result, told apart from a program that the runtime could not start.

    Docker 20.10 then gives 126 whatever the reason, and the reason as if the program had said it. Such an
    exec never had a process: its pid is 0, which a started one keeps as a number after its end.
    """
    if state.pid is not None or state.exit_code not in NOT_RUN:
        return Success(result)
    said = result.stdout + result.stderr
    if not said.startswith(RUNTIME_WORDS):
        return Success(result)
    words = said.decode("utf-8", "replace").strip()
    if "chdir to cwd" not in words:
        if any(sign in words for sign in PROGRAM_MISSING):
            return Success(replace(result, exit_code=127, stdout=b"", stderr=said))
        if any(sign in words for sign in MAY_NOT_RUN):
            return Success(replace(result, exit_code=126, stdout=b"", stderr=said))
    return Failure(refused_start(command, words))
