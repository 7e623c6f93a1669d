"""One started container: commands, files, what it used, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.checks import problem_of_command, refused
from clinebox.adapters.sandboxes.docker import scripts
from clinebox.adapters.sandboxes.docker.container_files import ContainerFiles
from clinebox.adapters.sandboxes.docker.engine import Engine
from clinebox.adapters.sandboxes.docker.exec_judgement import judged, not_encodable, too_long
from clinebox.adapters.sandboxes.docker.measures import (
    measured_usage,
    oom_kills_command,
    oom_kills_of,
    seen_status,
)
from clinebox.adapters.sandboxes.docker.removal import remove_container
from clinebox.adapters.sandboxes.docker.running_exec import (
    CONTROL_S,
    ExecRequest,
    ExecState,
    RunningExec,
    start_exec,
)
from clinebox.adapters.sandboxes.exec_bounds import DRAIN_S, IDLE_POLL_S, KILLED, OUTPUT_LIMIT_BYTES
from clinebox.adapters.sandboxes.jail import finished
from clinebox.adapters.sandboxes.private_root import PrivateRoot, remove_private_root
from clinebox.domain.ports import (
    Command,
    ExecResult,
    ResourceUsage,
    SandboxDescription,
    SandboxFailure,
    SandboxState,
    SandboxStatus,
    SandboxTrouble,
)

KILL_S: Final = 20.0
START_S: Final = 60.0
"""For a command's start, before its own time begins: dozens at once keep an engine busy."""
ENDING_LOOKS: Final = 5
ENDING_POLL_S: Final = 0.1
"""For a container that a foreign hand removes: the engine kills its processes one by one, pid 1 at any place
among them (runc 1.1, `kill --all`), and calls it running until the last."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container as the engine knows it."""

    id: str
    name: str
    workdir: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class DockerSandbox:
    """A started container; made by `DockerSandboxProvider` alone. One event loop owns it."""

    description: SandboxDescription
    engine: Engine
    container: Container
    root: PrivateRoot
    files: ContainerFiles = field(init=False)
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES
    handle: str = field(default_factory=lambda: secrets.token_hex(4))
    """Tells the execs of one handle from another's on the same container."""
    _execs: set[asyncio.Task[Any] | None] = field(default_factory=set)
    _count: int = 0
    _oom_kills: int = 0
    _over: SandboxFailure | None = None
    """Why nothing more can be done here; set once."""
    _disconnected: bool = False
    _removed: bool = False
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def exec(self, command: Command, *, timeout_s: float) -> Result[ExecResult, SandboxFailure]:
        """Run a command to its own end, whoever still holds its output; cancelled, its tree is killed.

        Failure(BAD_REQUEST) for a command that cannot be passed on, or a `cwd` that is no directory;
        Failure(LOST) when the container was removed or ended; Failure(OUT_OF_MEMORY) when its memory limit
        killed the command; Failure(UNAVAILABLE) when the engine does not answer.
        """
        problem = problem_of_command(command, timeout_s)
        problem = problem or not_encodable(command) or too_long(command)
        if problem is not None:
            return refused(problem)
        if (unusable := self._unusable()) is not None:
            return Failure(unusable)
        task = asyncio.current_task()
        self._execs.add(task)
        try:
            return await self._exec(command, timeout_s)
        finally:
            self._execs.discard(task)
            if self._disconnected:
                self._release()

    async def _exec(self, command: Command, timeout_s: float) -> Result[ExecResult, SandboxFailure]:
        self._count += 1
        request = ExecRequest(
            command=command,
            container_id=self.container.id,
            workdir=self.container.workdir,
            marker=f"{self.container.name}.{self.handle}{self._count}.",
            limit_bytes=self.output_limit_bytes,
        )
        running: list[RunningExec] = []
        try:
            # A start that was cancelled half way may have started it all the same: wait, then end it.
            opened = await finished(
                start_exec(self.engine, request, timeout_s=START_S, started=running.append)
            )
            if not is_successful(opened):
                return Failure(await self._explained(opened.failure()))
            return await self._to_end(command, request, opened.unwrap(), timeout_s)
        except asyncio.CancelledError:
            if running:
                await finished(self._end(request, running[0]))
            raise
        finally:
            for each in running:
                await finished(each.close())

    async def _to_end(
        self, command: Command, request: ExecRequest, running: RunningExec, timeout_s: float
    ) -> Result[ExecResult, SandboxFailure]:
        started = time.monotonic()
        ending = asyncio.ensure_future(running.exited())
        try:
            done, _ = await asyncio.wait({ending}, timeout=timeout_s)
        finally:
            if not ending.done():
                ending.cancel()
                await finished(asyncio.wait({ending}))
        if not done:
            await finished(self._end(request, running))
        await running.streams.drain(within_s=DRAIN_S)
        result = running.result(duration_s=time.monotonic() - started, timed_out=not done)
        if not done:
            return Success(result)
        state = ending.result()
        if not is_successful(state):
            return Failure(await self._explained(state.failure()))
        return await self._judged(command, state.unwrap(), result)

    async def _judged(
        self, command: Command, state: ExecState, result: ExecResult
    ) -> Result[ExecResult, SandboxFailure]:
        if state.exit_code != 0 and self._over is not None:
            return Failure(self._over)
        if state.exit_code == KILLED:
            killed = await self._why_lost() or await self._who_killed(command) or await self._lost_soon()
            if killed is not None:
                return Failure(killed)
        return judged(command, state, result)

    async def _lost_soon(self) -> SandboxFailure | None:
        """Look again for a moment: see ENDING_POLL_S. What clinebox itself removes is marked beforehand."""
        for _ in range(ENDING_LOOKS):
            await asyncio.sleep(ENDING_POLL_S)
            if (lost := await self._why_lost()) is not None:
                return lost
        return None

    async def _who_killed(self, command: Command) -> SandboxFailure | None:
        """Memory, if the kernel's count of such kills has grown; or the container's own end, under way."""
        answer = await self._helper(oom_kills_command(), 65_536, CONTROL_S)
        if answer.map(lambda seen: seen.exit_code).value_or(KILLED) != 0:
            failed = answer.failure() if not is_successful(answer) else None
            return failed if failed and failed.trouble is SandboxTrouble.LOST else await self._why_lost()
        kills = oom_kills_of(answer.unwrap().stdout)
        grown, self._oom_kills = kills > self._oom_kills, kills
        name = f"{command.argv[0]!r} was killed"
        message = f"{name}: sandbox {self.container.name} ran out of its memory."
        return SandboxFailure(SandboxTrouble.OUT_OF_MEMORY, message) if grown else None

    async def _end(self, request: ExecRequest, running: RunningExec) -> None:
        """Kill what an exec started; where that cannot be done, the container goes, and all with it."""
        marker = request.marker or ""
        command = scripts.end_exec(marker, running.pid_inside())
        answer = await self._helper(command, 4096, KILL_S)
        if answer.map(lambda result: result.stdout.strip()).value_or(b"") == b"0":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KILL_S):
                    await running.exited()
                    return
        if self._over is None:
            message = (
                f"Sandbox {self.container.name} was removed: a command in it could not be ended otherwise."
            )
            self._over = SandboxFailure(SandboxTrouble.LOST, message)
            await remove_container(self.engine, self.container.id, timeout_s=KILL_S)

    async def _helper(
        self, command: Command, limit_bytes: int, timeout_s: float
    ) -> Result[ExecResult, SandboxFailure]:
        """A program of our own inside; it carries no marker, and is left alone past its time."""
        request = ExecRequest(
            command=command,
            container_id=self.container.id,
            workdir="/",
            limit_bytes=limit_bytes,
        )
        running: list[RunningExec] = []
        started = time.monotonic()
        try:
            opened = await start_exec(self.engine, request, timeout_s=timeout_s, started=running.append)
            if not is_successful(opened):
                return Failure(await self._explained(opened.failure()))
            async with asyncio.timeout(max(0.0, started + timeout_s - time.monotonic())):
                state = await running[0].exited()
                await running[0].streams.drain(within_s=timeout_s)
            took_s = time.monotonic() - started
            if not is_successful(state):
                return Failure(await self._explained(state.failure()))
            return Success(running[0].result(duration_s=took_s, timed_out=False))
        except TimeoutError:
            return Success(running[0].result(duration_s=timeout_s, timed_out=True))
        finally:
            for each in running:
                await finished(each.close())

    async def upload(
        self, path: str, content: bytes, *, mode: int = 0o600, timeout_s: float
    ) -> Result[None, SandboxFailure]:
        """Write a file whole, by rename, parents made 0700; see `ContainerFiles`."""
        if (unusable := self._unusable()) is not None:
            return Failure(unusable)
        return await self.files.write(path, content, mode, timeout_s)

    async def download(
        self, path: str, *, offset_bytes: int = 0, limit_bytes: int, timeout_s: float
    ) -> Result[bytes, SandboxFailure]:
        """Read a part of a regular file; see `ContainerFiles`."""
        if (unusable := self._unusable()) is not None:
            return Failure(unusable)
        return await self.files.read(path, offset_bytes, limit_bytes, timeout_s)

    async def stop(self, *, timeout_s: float) -> Result[None, SandboxFailure]:
        """Remove the container, with everything in it, and the private directory; safe to call twice.

        Failure(TIMED_OUT) when the engine has not removed it in time; it may be tried again.
        """
        if self._disconnected:
            return Failure(self._refusal())
        if self._over is None:
            message = f"Sandbox {self.container.name} was stopped."
            self._over = SandboxFailure(SandboxTrouble.LOST, message)
        self.root.mark_ended()
        return await finished(self._stop(timeout_s))

    async def _stop(self, timeout_s: float) -> Result[None, SandboxFailure]:
        deadline = time.monotonic() + timeout_s
        async with self._lock:
            if self._removed:
                return Success(None)
            removed = await remove_container(self.engine, self.container.id, timeout_s=timeout_s)
            if not is_successful(removed):
                return removed
            while self._execs or self.files.operations:
                if time.monotonic() >= deadline:
                    message = f"An operation of sandbox {self.container.name} has not ended in time."
                    return Failure(SandboxFailure(SandboxTrouble.TIMED_OUT, message))
                await asyncio.sleep(IDLE_POLL_S)
            return await self._remove_root()

    async def _remove_root(self) -> Result[None, SandboxFailure]:
        try:
            await asyncio.to_thread(remove_private_root, self.root)
        except OSError as error:
            message = f"The private directory {self.root.path} could not be removed: {error}."
            return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))
        self.files.close()
        self._removed = True
        return Success(None)

    async def disconnect(self) -> None:
        """Let go of it: the container lives until its time is over, or another handle stops it."""
        if not self._disconnected:
            self._disconnected = True
            self._release()

    def _release(self) -> None:
        """Give the descriptors back once nothing uses them any more."""
        if not self._removed and not self._execs and not self.files.operations:
            self._removed = True
            os.close(self.root.lock_fd)
            self.files.close()

    async def status(self, *, timeout_s: float) -> Result[SandboxStatus, SandboxFailure]:
        """What the engine says. A container that ended is removed by the engine, so it is GONE then."""
        if self._disconnected:
            return Failure(self._refusal())
        if self._removed and self._over is not None:
            return Success(SandboxStatus(SandboxState.STOPPED, self._over.message))
        return await seen_status(self.engine, self.container.id, timeout_s=timeout_s)

    async def resource_usage(self, *, timeout_s: float) -> Result[ResourceUsage, SandboxFailure]:
        """By the engine's count of its control group; ask before `stop`."""
        if (unusable := self._unusable()) is not None:
            return Failure(unusable)
        used = await measured_usage(self.engine, self.container.id, timeout_s=timeout_s)
        return used if is_successful(used) else Failure(await self._explained(used.failure()))

    def _unusable(self) -> SandboxFailure | None:
        return self._refusal() if self._disconnected else self._over

    def _refusal(self) -> SandboxFailure:
        message = f"This handle on sandbox {self.container.name} was disconnected; connect to it again."
        return SandboxFailure(SandboxTrouble.BAD_REQUEST, message)

    async def _explained(self, failure: SandboxFailure) -> SandboxFailure:
        """An engine that knows the exec or container no more means that the sandbox is lost."""
        if self._over is not None:
            return self._over
        if failure.trouble not in {SandboxTrouble.NOT_FOUND, SandboxTrouble.LOST}:
            return failure
        return await self._why_lost() or SandboxFailure(SandboxTrouble.LOST, failure.message)

    async def _why_lost(self) -> SandboxFailure | None:
        """Why the container serves no more; None while it runs, or when the engine does not answer."""
        if self._over is not None:
            return self._over
        if self.root.is_ended:
            message = f"Sandbox {self.container.name} was stopped or removed by another hand."
            return SandboxFailure(SandboxTrouble.LOST, message)
        status = await self.status(timeout_s=CONTROL_S)
        seen = status.value_or(None)
        if seen is None or seen.state is SandboxState.RUNNING:
            return None
        message = f"Sandbox {self.container.name} died. {seen.message}"
        return SandboxFailure(SandboxTrouble.LOST, message)
