"""Files of a container: on the host where a host directory is behind them, else by a program inside.

What is bound from this host (work directory, session root, /logs, mounts) is read and written from here, in
well under a millisecond, and never through a symlink (`files`). The rest of the container's file system is
reached by a small bash program inside, with the sandbox's own rights: what it is led to is the sandbox's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final, TypeAlias, TypeVar

from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes import files
from clinebox.adapters.sandboxes.checks import refused
from clinebox.adapters.sandboxes.docker import scripts
from clinebox.domain.ports import Command, ExecResult, SandboxFailure, SandboxTrouble

T = TypeVar("T")
Helper: TypeAlias = Callable[[Command, int, float], Awaitable[Result[ExecResult, SandboxFailure]]]
"""Runs a program of ours inside: command, output limit in bytes, timeout in seconds."""
NO_DIRECTORY, NOT_REGULAR, NOT_DONE, NO_SPACE, NOT_FOUND = 40, 41, 42, 43, 44
SHOWN_CHARACTERS: Final = 300


@dataclass(slots=True)
class ContainerFiles:
    """The file operations of one container."""

    areas: tuple[files.Area, ...]
    helper: Helper
    operations: set[asyncio.Future[Any]] = field(default_factory=set)
    """Under way in threads, which cannot be ended."""

    async def write(
        self, path: str, content: bytes, mode: int, timeout_s: float
    ) -> Result[None, SandboxFailure]:
        """Put a whole file in place by rename; see `files.write_file` for the failures."""
        if (problem := _problem_of(path)) is not None:
            return refused(problem)
        if self._is_on_host(path):
            return await self._in_thread(
                lambda: files.write_file(self.areas, path, content, mode), path, timeout_s
            )
        if not _is_utf8(path):
            return refused(f"The path {path!r} is not UTF-8, which no engine takes.")
        answer = await self.helper(scripts.put_file(path, content, mode), files.READ_BYTES, timeout_s)
        return answer.bind(lambda result: _judged(result, path, "written", None))

    async def read(
        self, path: str, offset_bytes: int, limit_bytes: int, timeout_s: float
    ) -> Result[bytes, SandboxFailure]:
        """Read a part of a regular file; see `files.read_file` for the failures."""
        if offset_bytes < 0 or limit_bytes < 0:
            return refused(f"Offset and limit must not be negative: {offset_bytes}, {limit_bytes}.")
        if (problem := _problem_of(path)) is not None:
            return refused(problem)
        if self._is_on_host(path):
            return await self._in_thread(
                lambda: files.read_file(self.areas, path, offset_bytes, limit_bytes), path, timeout_s
            )
        if not _is_utf8(path):
            return refused(f"The path {path!r} is not UTF-8, which no engine takes.")
        limit = max(limit_bytes, 4096)
        answer = await self.helper(scripts.get_file(path, offset_bytes, limit_bytes), limit, timeout_s)
        return answer.bind(lambda result: _judged(result, path, "read", result.stdout))

    def close(self) -> None:
        """Give back the descriptors; once only."""
        files.close_areas(self.areas)

    def _is_on_host(self, path: str) -> bool:
        wanted = PurePosixPath("/", path.lstrip("/"))
        return any(wanted.is_relative_to(area.inside) for area in self.areas)

    async def _in_thread(
        self, work: Callable[[], Result[T, SandboxFailure]], path: str, timeout_s: float
    ) -> Result[T, SandboxFailure]:
        task = asyncio.ensure_future(asyncio.to_thread(work))
        self.operations.add(task)
        task.add_done_callback(self.operations.discard)
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
        return task.result() if done else Failure(_overrun(path, timeout_s))


def _is_utf8(path: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in path)


def _problem_of(path: str) -> str | None:
    if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        return f"A path in the sandbox must be absolute and without '..', not {path!r}."
    if path.endswith("/"):
        return f"{path} is a directory."
    return None


def _overrun(path: str, timeout_s: float) -> SandboxFailure:
    message = f"{path}: the file operation took more than {timeout_s:g} s."
    return SandboxFailure(SandboxTrouble.TIMED_OUT, message)


def _judged(result: ExecResult, path: str, verb: str, content: T) -> Result[T, SandboxFailure]:
    words = result.stderr.decode("utf-8", "replace").strip()[-SHOWN_CHARACTERS:]
    bad = SandboxTrouble.BAD_REQUEST
    match result.exit_code:
        case 0:
            return Success(content)
        case None:
            failure = _overrun(path, result.duration_s)
        case code if code == NO_DIRECTORY:
            failure = SandboxFailure(bad, f"{words} is no directory (symbolic links are not followed).")
        case code if code == NOT_REGULAR:
            failure = SandboxFailure(bad, f"{path} is not a regular file.")
        case code if code == NO_SPACE:
            failure = SandboxFailure(SandboxTrouble.DISK_FULL, f"{path} could not be {verb}: {words}.")
        case code if code == NOT_FOUND:
            failure = SandboxFailure(SandboxTrouble.NOT_FOUND, f"There is no {path} in the sandbox.")
        case code:
            failure = SandboxFailure(bad, f"{path} could not be {verb}: {words or f'exit code {code}'}.")
    return Failure(failure)
