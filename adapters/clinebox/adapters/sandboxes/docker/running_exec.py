"""One exec in a container: started, watched to its own end, or ended with all that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.docker.engine import API_VERSION, Engine
from clinebox.adapters.sandboxes.docker.streams import ExecStreams, RefusedError, hijack
from clinebox.adapters.sandboxes.docker.troubles import no_answer, unreachable
from clinebox.domain.ports import Command, ExecResult, SandboxFailure, SandboxTrouble

CONTROL_S: Final = 30.0
"""For each small request about an exec."""
FIRST_LOOK_S: Final = 0.05
LONGEST_WAIT_S: Final = 2.0
"""Between two looks at an exec whose process cannot be watched from here (another pid namespace)."""
WATCHED_WAIT_S: Final = 30.0
"""The same where it can: only for the case that the engine itself loses it."""


@dataclass(frozen=True, slots=True)
class ExecState:
    """What the engine says of an exec: `pid` is on the engine's host, None before and where it is hidden."""

    running: bool
    exit_code: int | None
    pid: int | None


class _PidWatch:
    """Tells the end of a process of another parent, without polling (pidfd_open(2))."""

    def __init__(self, fd: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd: int | None = fd
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(fd, self.close)

    @classmethod
    def of(cls, pid: int, container_id: str) -> _PidWatch | None:
        """None where that pid is not the container's: another pid namespace is the engine's, or it ended."""
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return None
        with contextlib.suppress(OSError):
            if container_id in Path(f"/proc/{pid}/cgroup").read_text("utf-8"):
                return cls(fd)
        os.close(fd)
        return None

    def close(self) -> None:
        """Safe to call twice."""
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None
        if not self.ended.done():
            self.ended.set_result(None)


class RunningExec:
    """One exec under way. Made by `start_exec`; the owner awaits `exited`, then always `close`."""

    def __init__(self, engine: Engine, container_id: str, exec_id: str, streams: ExecStreams) -> None:
        self._engine = engine
        self._container_id = container_id
        self._id = exec_id
        self._watch: _PidWatch | None = None
        self.streams = streams
        self.last: ExecState | None = None
        """The engine's last word."""

    async def exited(self) -> Result[ExecState, SandboxFailure]:
        """Wait, without a bound, for the command's own end, whoever still holds its output.

        Failure when the engine does not know it any more, or does not answer.
        """
        await self.streams.drain(within_s=FIRST_LOOK_S)
        wait_s = FIRST_LOOK_S
        while True:
            state = await self.look()
            if not is_successful(state) or not state.unwrap().running:
                return state
            if self._watch is None and (pid := state.unwrap().pid) is not None:
                self._watch = _PidWatch.of(pid, self._container_id)
            await self._wait(wait_s)
            over = self._watch is not None and self._watch.ended.done()  # the engine learns it in a moment
            wait_s = FIRST_LOOK_S if over else min(LONGEST_WAIT_S, wait_s * 1.5)

    async def _wait(self, wait_s: float) -> None:
        signs = set() if self.streams.ended.done() else {self.streams.ended}
        if self._watch is not None and not self._watch.ended.done():
            await asyncio.wait({*signs, self._watch.ended}, timeout=WATCHED_WAIT_S)
        elif signs:
            await asyncio.wait(signs, timeout=wait_s)
        else:
            await asyncio.sleep(wait_s)

    async def look(self) -> Result[ExecState, SandboxFailure]:
        """Ask the engine."""
        found = await self._engine.call(
            "looking at a command", lambda api: api.exec_inspect(self._id), timeout_s=CONTROL_S
        )
        state = found.map(
            lambda seen: ExecState(bool(seen["Running"]), seen["ExitCode"], int(seen["Pid"]) or None)
        )
        self.last = state.value_or(self.last)
        return state

    def pid_inside(self) -> int | None:
        """The command's pid in its own namespace, if the engine's host is this one."""
        pid = None if self.last is None else self.last.pid
        if pid is None or self._watch is None:
            return None
        with contextlib.suppress(OSError, ValueError, IndexError):
            status = Path(f"/proc/{pid}/status").read_text("utf-8")
            line = next(each for each in status.splitlines() if each.startswith("NSpid:"))
            return int(line.split()[-1])
        return None

    def result(self, *, duration_s: float, timed_out: bool) -> ExecResult:
        """What there is of it by now."""
        out, err = self.streams.stdout, self.streams.stderr
        return ExecResult(
            exit_code=None if timed_out or self.last is None else self.last.exit_code,
            stdout=out.content,
            stderr=err.content,
            output_truncated=out.truncated or err.truncated,
            timed_out=timed_out,
            duration_s=duration_s,
        )

    async def close(self) -> None:
        """Leave it; safe to call twice."""
        if self._watch is not None:
            self._watch.close()
        await self.streams.close()


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """A command for a container, and what clinebox adds to it."""

    command: Command
    container_id: str
    workdir: str
    marker: str | None = None
    limit_bytes: int = 10 << 20

    def environment(self) -> dict[str, str]:
        """The command's own variables (the container has the sandbox's), and the marker."""
        marked = {} if self.marker is None else {"CLINEBOX_EXEC": self.marker}
        return {**self.command.env, **marked}


async def start_exec(
    engine: Engine, request: ExecRequest, *, timeout_s: float, started: Callable[[RunningExec], None]
) -> Result[RunningExec, SandboxFailure]:
    """Create and start an exec; `started` is told before anything of it can run unseen.

    Failure(LOST) when the container is gone or stopped.
    """
    deadline = time.monotonic() + timeout_s
    created = await engine.call(
        "starting a command",
        lambda api: api.exec_create(
            request.container_id,
            list(request.command.argv),
            stdin=True,
            environment=request.environment(),
            workdir=request.command.cwd or request.workdir,
        )["Id"],
        timeout_s=timeout_s,
    )
    if not is_successful(created):
        return Failure(_lost_if_unknown(created.failure()))
    try:
        async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - time.monotonic()):
            connection = await hijack(engine.address, f"/v{API_VERSION}/exec/{created.unwrap()}/start")
    except TimeoutError:
        return Failure(no_answer(engine.name, "starting a command", timeout_s))
    except RefusedError as error:
        return Failure(refused_start(request.command, str(error)))
    except OSError as error:
        return Failure(unreachable(engine.name, engine.address, error))
    streams = ExecStreams(connection, stdin=request.command.stdin, limit_bytes=request.limit_bytes)
    running = RunningExec(engine, request.container_id, created.unwrap(), streams)
    started(running)
    return Success(running)


def _lost_if_unknown(failure: SandboxFailure) -> SandboxFailure:
    if failure.trouble is SandboxTrouble.NOT_FOUND:
        return SandboxFailure(SandboxTrouble.LOST, failure.message)
    return failure


def refused_start(command: Command, words: str) -> SandboxFailure:
    """The runtime could not start a program; `words` are the engine's (runc 1.1, crun 1.8)."""
    if "chdir to cwd" in words:
        message = f"The working directory {command.cwd} is no directory in the sandbox."
        return SandboxFailure(SandboxTrouble.BAD_REQUEST, message)
    if "is not running" in words or "No such container" in words or "container state improper" in words:
        return SandboxFailure(SandboxTrouble.LOST, words.strip())
    message = f"{command.argv[0]!r} could not be started: {words.strip()}"
    return SandboxFailure(SandboxTrouble.UNAVAILABLE, message)
