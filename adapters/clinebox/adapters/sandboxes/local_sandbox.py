"""One started sandbox on this host: commands, files, and the end of both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT
from typing import Any, Final, TypeVar

from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes import files
from clinebox.adapters.sandboxes.checks import not_started, problem_of_command, refused
from clinebox.adapters.sandboxes.child import Child
from clinebox.adapters.sandboxes.containment import command_argv
from clinebox.adapters.sandboxes.environment import EXEC_MARKER
from clinebox.adapters.sandboxes.exec_bounds import DRAIN_S, IDLE_POLL_S, KILLED, OUTPUT_LIMIT_BYTES
from clinebox.adapters.sandboxes.hold import Hold
from clinebox.adapters.sandboxes.jail import Jail, finished
from clinebox.adapters.sandboxes.private_root import PrivateRoot, remove_private_root
from clinebox.adapters.sandboxes.process_table import (
    Process,
    end_tree,
    living_processes,
    read_process,
    send_signal,
)
from clinebox.adapters.sandboxes.running_exec import KILL_S, REAP_S, RunningExec
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

T = TypeVar("T")
CHDIR_FAILED: Final = 125
"""env(1): its own failure, so also a directory that is not there."""


@dataclass(slots=True, eq=False)
class LocalSandbox:
    """A handle on a local sandbox; made by `LocalSandboxProvider` alone. One event loop owns it."""

    description: SandboxDescription
    workdir: Path
    env: Mapping[str, str]
    areas: tuple[files.Area, ...]
    hold: Hold
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES
    handle: str = ""
    """Told apart in the markers of the commands, where several handles are on one sandbox."""
    is_owner: bool = True
    """Whether this process started it; then it ends with this process."""
    _execs: set[RunningExec] = field(default_factory=set)
    _sessions: dict[int, Process] = field(default_factory=dict)
    """Plain only: leaders whose session outlived them, by session id."""
    _operations: set[asyncio.Future[Any]] = field(default_factory=set)
    _count: int = 0
    _stopping: bool = False
    _removed: bool = False
    _disconnected: bool = False
    _closing: asyncio.Task[None] | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def root(self) -> PrivateRoot:
        """Its private directory."""
        return self.hold.root

    @property
    def jail(self) -> Jail | None:
        """Its namespaces; None for a plain process tree."""
        return self.hold.jail

    async def exec(self, command: Command, *, timeout_s: float) -> Result[ExecResult, SandboxFailure]:
        """Run a command to its own end, whoever still holds its output; cancelled, its tree is killed.

        Failure(BAD_REQUEST) for a command that cannot be passed on, or a `cwd` that is no directory;
        Failure(LOST) when the sandbox was stopped or died; Failure(OUT_OF_MEMORY) when the sandbox's memory
        limit killed it; Failure(UNAVAILABLE) when the host has no process or descriptor left.
        """
        problem = problem_of_command(command, timeout_s)
        if problem is not None:
            return refused(problem)
        if (unusable := self._unusable()) is not None:
            return Failure(unusable)
        started, oom_kills = time.monotonic(), self.hold.cgroup.oom_kills()
        try:
            running = self._spawn(command)
        except (OSError, ValueError) as error:
            return not_started(command, error)
        timed_out = await self._run_to_end(running, timeout_s)
        if not timed_out and self._code(running) == KILLED and self.hold.cgroup.oom_kills() > oom_kills:
            return self._out_of_memory(command)
        return await self._judged(
            command, running, timed_out=timed_out, duration_s=time.monotonic() - started
        )

    def _spawn(self, command: Command) -> RunningExec:
        self._count += 1
        marker = f"{self.root.sandbox_id}.{self.handle}{self._count}."
        env = {**self.env, **command.env, EXEC_MARKER: marker}
        child = Child(
            command_argv(self.hold.prefix(env), command.cwd or str(self.workdir), command.argv),
            env=env,
            stdin=command.stdin,
            limit_bytes=self.output_limit_bytes,
            new_session=self.jail is not None,
        )
        running = RunningExec(child, f"{EXEC_MARKER}={marker}".encode(), self.jail is not None)
        self._execs.add(running)
        return running

    async def _run_to_end(self, running: RunningExec, timeout_s: float) -> bool:
        """True when the time ran out; then, as after a cancellation, nothing of the exec lives any more."""
        try:
            timed_out = not await running.exited(within_s=timeout_s)
            if timed_out:
                await finished(running.end())
            await running.child.drain(within_s=DRAIN_S)
        except asyncio.CancelledError:
            await finished(running.end())
            raise
        finally:
            self._forget(running)
        return timed_out

    def _forget(self, running: RunningExec) -> None:
        running.child.close()
        self._execs.discard(running)
        if self._disconnected:
            self._release()
        leader = running.child.process
        if self.jail is None and any(each.session == leader.pid for each in living_processes().values()):
            self._sessions[leader.pid] = leader

    async def _judged(
        self, command: Command, running: RunningExec, *, timed_out: bool, duration_s: float
    ) -> Result[ExecResult, SandboxFailure]:
        code = self._code(running)
        if not timed_out and code != 0 and (over := self._why_over()) is not None:
            return Failure(over)
        if code == CHDIR_FAILED and not timed_out and not await self._can_enter(command.cwd):
            return refused(f"The working directory {command.cwd} is no directory in the sandbox.")
        return Success(
            ExecResult(
                exit_code=None if timed_out else code,
                stdout=running.child.stdout.content,
                stderr=running.child.stderr.content,
                output_truncated=running.child.stdout.truncated or running.child.stderr.truncated,
                timed_out=timed_out,
                duration_s=duration_s,
            )
        )

    @staticmethod
    def _code(running: RunningExec) -> int | None:
        code = running.child.return_code
        return 128 - code if code is not None and code < 0 else code

    def _out_of_memory(self, command: Command) -> Result[ExecResult, SandboxFailure]:
        message = f"{command.argv[0]!r} was killed: sandbox {self.root.sandbox_id} ran out of its memory."
        return Failure(SandboxFailure(SandboxTrouble.OUT_OF_MEMORY, message))

    async def _can_enter(self, cwd: str | None) -> bool:
        """Asked only after 125, which a command may give as well."""
        directory = cwd or str(self.workdir)
        if directory == "/":
            return True
        running = self._spawn(Command(("test", "-d", directory, "-a", "-x", directory), cwd="/"))
        timed_out = await self._run_to_end(running, KILL_S)
        return timed_out or running.child.return_code != 1

    async def upload(
        self, path: str, content: bytes, *, mode: int = 0o600, timeout_s: float
    ) -> Result[None, SandboxFailure]:
        """Write a file whole, by rename, parents made 0700; see `files.write_file` for the failures."""
        return await self._file_operation(
            lambda: files.write_file(self.areas, path, content, mode), path, timeout_s
        )

    async def download(
        self, path: str, *, offset_bytes: int = 0, limit_bytes: int, timeout_s: float
    ) -> Result[bytes, SandboxFailure]:
        """Read a part of a regular file; see `files.read_file` for the failures."""
        if offset_bytes < 0 or limit_bytes < 0:
            return refused(f"Offset and limit must not be negative: {offset_bytes}, {limit_bytes}.")
        return await self._file_operation(
            lambda: files.read_file(self.areas, path, offset_bytes, limit_bytes), path, timeout_s
        )

    async def _file_operation(
        self, work: Callable[[], Result[T, SandboxFailure]], path: str, timeout_s: float
    ) -> Result[T, SandboxFailure]:
        """Run file work in a thread. A thread cannot be ended: `stop` waits for one that overran."""
        if (unusable := self._unusable()) is not None:
            return Failure(unusable)
        task = asyncio.ensure_future(asyncio.to_thread(work))
        self._operations.add(task)
        task.add_done_callback(self._operations.discard)
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
        if not done:
            message = f"{path}: the file operation took more than {timeout_s:g} s."
            return Failure(SandboxFailure(SandboxTrouble.TIMED_OUT, message))
        return task.result()

    async def stop(self, *, timeout_s: float) -> Result[None, SandboxFailure]:
        """End everything in it, wait until nothing lives, and remove the private root; safe to call twice.

        A cancellation waits for the end of it. Failure(TIMED_OUT) when something still lives after
        `timeout_s`; Failure(UNAVAILABLE) when the root cannot be removed. Either may be tried again.
        """
        if self._disconnected:
            return Failure(self._refusal())
        self._stopping = True
        return await finished(self._stop(timeout_s))

    async def _stop(self, timeout_s: float) -> Result[None, SandboxFailure]:
        deadline = time.monotonic() + timeout_s
        async with self._lock:
            if self._removed:
                return Success(None)
            await self.hold.end(deadline)
            await self._wake_what_waits(deadline)
            left = await end_tree(self._everything, within_s=deadline - time.monotonic())
            if left or not await self._is_idle(deadline):
                return self._overrun(left, timeout_s)
            await self.hold.remove_cgroup()
            return await self._remove()

    async def _wake_what_waits(self, deadline: float) -> None:
        """All inside is killed at once; each `nsenter` then reaps its command (`RunningExec.tree`)."""
        if self.jail is not None:
            for running in self._execs:
                send_signal(running.child.process, SIGCONT)
            await self._is_idle(min(deadline, time.monotonic() + REAP_S))

    def _everything(self) -> list[Process]:
        return self.hold.processes(
            [each.child.process for each in self._execs],
            frozenset(filter(self._is_own_session, self._sessions)),
        )

    def _is_own_session(self, session: int) -> bool:
        """A session keeps its id from being given away while it has members; a later leader is a stranger."""
        now = read_process(session)
        return now is None or now.start_ticks == self._sessions[session].start_ticks

    async def _is_idle(self, deadline: float) -> bool:
        """Wait for the execs and file operations of other tasks to take note of the end."""
        while self._execs or self._operations:
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(IDLE_POLL_S)
        return True

    def _overrun(self, left: list[Process], timeout_s: float) -> Result[None, SandboxFailure]:
        what = f"processes {', '.join(str(each.pid) for each in left)}" if left else "an operation"
        message = f"{what} of sandbox {self.root.sandbox_id} still there after {timeout_s:g} s."
        return Failure(SandboxFailure(SandboxTrouble.TIMED_OUT, message))

    async def _remove(self) -> Result[None, SandboxFailure]:
        try:
            await asyncio.to_thread(remove_private_root, self.root)
        except OSError as error:
            message = f"The private directory {self.root.path} could not be removed: {error}."
            return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))
        files.close_areas(self.areas)
        self._removed = True
        return Success(None)

    async def disconnect(self) -> None:
        """Let go of it without ending it; one that this process started still ends with this process."""
        if self._disconnected or self._stopping:
            return
        self._disconnected = True
        if self._operations:
            await asyncio.wait(set(self._operations))
        self._release()

    def _release(self) -> None:
        """Give back what this handle alone needs, once the last of its commands has ended.

        The pipe that the namespaces end by, and the lock that says that their owner lives, stay open in the
        process that started them, until they have ended.
        """
        if self._execs or self._removed:
            return
        self._removed = True
        files.close_areas(self.areas)
        self._closing = asyncio.get_running_loop().create_task(self.hold.let_go(is_owner=self.is_owner))

    async def status(self, *, timeout_s: float) -> Result[SandboxStatus, SandboxFailure]:
        """What is seen of it from here: a look at two files, so `timeout_s` is never reached."""
        del timeout_s
        if self._disconnected:
            return Failure(self._refusal())
        over = self._why_over()
        if over is None:
            return Success(SandboxStatus(SandboxState.RUNNING))
        gone = not self._stopping and not self.root.path.exists()
        return Success(SandboxStatus(SandboxState.GONE if gone else SandboxState.STOPPED, over.message))

    async def resource_usage(self, *, timeout_s: float) -> Result[ResourceUsage, SandboxFailure]:
        """By its control groups; None where this user may not make any."""
        del timeout_s
        if (unusable := self._unusable()) is not None:
            return Failure(unusable)
        return Success(self.hold.cgroup.usage())

    def _unusable(self) -> SandboxFailure | None:
        return self._refusal() if self._disconnected else self._why_over()

    def _refusal(self) -> SandboxFailure:
        message = f"This handle on sandbox {self.root.sandbox_id} was disconnected; connect to it again."
        return SandboxFailure(SandboxTrouble.BAD_REQUEST, message)

    def _why_over(self) -> SandboxFailure | None:
        if self._stopping:
            return SandboxFailure(SandboxTrouble.LOST, f"Sandbox {self.root.sandbox_id} was stopped.")
        return self.hold.why_over()
