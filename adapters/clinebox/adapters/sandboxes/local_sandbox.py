"""One started sandbox on this host: commands, files, and the end of both."""

from __future__ import annotations

import asyncio
import errno
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL
from typing import Any, Final, TypeVar

from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes import files
from clinebox.adapters.sandboxes.child import Child
from clinebox.adapters.sandboxes.containment import command_argv
from clinebox.adapters.sandboxes.environment import EXEC_MARKER
from clinebox.adapters.sandboxes.jail import Jail, finished
from clinebox.adapters.sandboxes.private_root import PrivateRoot, remove_private_root
from clinebox.adapters.sandboxes.process_table import (
    Process,
    end_tree,
    find_tree,
    living_processes,
    read_process,
    send_signal,
)
from clinebox.domain.ports import Command, ExecResult, SandboxDescription, SandboxFailure, SandboxTrouble

T = TypeVar("T")
OUTPUT_LIMIT_BYTES: Final = 10 << 20
"""Default bound of each of stdout and stderr."""
DRAIN_S: Final = 0.3
"""How long the pipes are read on after the command itself ended (BUGS 33, 34)."""
KILL_S: Final = 10.0
"""How long the kill of an exec's tree may take; only a process in uninterruptible sleep needs more."""
REAP_S: Final = 2.0
WAKE_S: Final = 1.0
STOPPED: Final = "T"
IDLE_POLL_S: Final = 0.01
CHDIR_FAILED: Final = 125
"""env(1): its own failure, so also a directory that is not there."""


def refused(message: str) -> Failure[SandboxFailure]:
    """The caller asked for what cannot be."""
    return Failure(SandboxFailure(SandboxTrouble.BAD_REQUEST, message))


@dataclass(frozen=True, slots=True)
class _Exec:
    """One exec under way: its child, and the marker that everything it starts carries.

    With namespaces the child is `nsenter`, outside, whose only task is to wait for the command inside.
    """

    child: Child
    marker: bytes
    is_outside: bool

    def tree(self) -> list[Process]:
        """Everything that it started and that lives, but not `nsenter` itself.

        A dead command stays as a zombie until its parent waits for it, and keeps the whole namespace from
        ending until then. Were `nsenter` killed as well, that would be left to the host's init, which may
        take seconds.
        """
        found = find_tree(roots=[self.child.process], markers=(self.marker,))
        return [each for each in found if not (self.is_outside and each.pid == self.child.process.pid)]

    async def end(self) -> None:
        """Kill what it started and see its child reaped."""
        await end_tree(self.tree, within_s=KILL_S)
        send_signal(self.child.process, SIGCONT)
        if not await self.child.exited(within_s=REAP_S):
            send_signal(self.child.process, SIGKILL)
            await self.child.exited(within_s=KILL_S)

    async def exited(self, *, within_s: float) -> bool:
        """Wait for the command's end; False when it still runs after `within_s`."""
        deadline = time.monotonic() + within_s
        while True:
            left_s = deadline - time.monotonic()
            if await self.child.exited(within_s=max(0.0, min(left_s, WAKE_S))):
                return True
            if left_s <= WAKE_S:
                return False
            self._wake()

    def _wake(self) -> None:
        """`nsenter` stops with the command, but does not go on with it (util-linux 2.38): help it."""
        waiting = read_process(self.child.process.pid)
        if self.is_outside and waiting is not None and waiting.state == STOPPED:
            commands = [each for each in living_processes().values() if each.parent_pid == waiting.pid]
            if all(each.state != STOPPED for each in commands):
                send_signal(waiting, SIGCONT)


@dataclass(slots=True, eq=False)
class LocalSandbox:
    """A started local sandbox; made by `LocalSandboxProvider.start` alone. One event loop owns it."""

    description: SandboxDescription
    root: PrivateRoot
    workdir: Path
    env: Mapping[str, str]
    areas: tuple[files.Area, ...]
    jail: Jail | None
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES
    _execs: set[_Exec] = field(default_factory=set)
    _sessions: dict[int, Process] = field(default_factory=dict)
    """Plain only: leaders whose session outlived them, by session id."""
    _operations: set[asyncio.Future[Any]] = field(default_factory=set)
    _count: int = 0
    _stopping: bool = False
    _jail_ended: bool = False
    _removed: bool = False
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def exec(self, command: Command, *, timeout_s: float) -> Result[ExecResult, SandboxFailure]:
        """Run a command to its own end, whoever still holds its output; cancelled, its tree is killed.

        Failure(BAD_REQUEST) for a command that cannot be passed on, or a `cwd` that is no directory;
        Failure(LOST) when the sandbox was stopped or died; Failure(UNAVAILABLE) when the host has no
        process or descriptor left.
        """
        problem = _problem_of(command, timeout_s)
        if problem is not None:
            return refused(problem)
        if self._is_lost():
            return self._lost()
        started = time.monotonic()
        try:
            running = self._spawn(command)
        except (OSError, ValueError) as error:
            return _not_started(command, error)
        timed_out = await self._run_to_end(running, timeout_s)
        return await self._judged(
            command, running, timed_out=timed_out, duration_s=time.monotonic() - started
        )

    def _spawn(self, command: Command) -> _Exec:
        self._count += 1
        marker = f"{self.root.sandbox_id}.{self._count}."
        prefix = () if self.jail is None else self.jail.prefix
        child = Child(
            command_argv(prefix, command.cwd or str(self.workdir), command.argv),
            env={**self.env, **command.env, EXEC_MARKER: marker},
            stdin=command.stdin,
            limit_bytes=self.output_limit_bytes,
            new_session=self.jail is not None,
        )
        running = _Exec(child, f"{EXEC_MARKER}={marker}".encode(), self.jail is not None)
        self._execs.add(running)
        return running

    async def _run_to_end(self, running: _Exec, timeout_s: float) -> bool:
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

    def _forget(self, running: _Exec) -> None:
        running.child.close()
        self._execs.discard(running)
        leader = running.child.process
        if self.jail is None and any(each.session == leader.pid for each in living_processes().values()):
            self._sessions[leader.pid] = leader

    async def _judged(
        self, command: Command, running: _Exec, *, timed_out: bool, duration_s: float
    ) -> Result[ExecResult, SandboxFailure]:
        code = running.child.return_code
        if code is not None and code < 0:
            code = 128 - code
        if not timed_out and code != 0 and self._is_lost():
            return self._lost()
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
        if self._is_lost():
            return self._lost()
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
        self._stopping = True
        return await finished(self._stop(timeout_s))

    async def _stop(self, timeout_s: float) -> Result[None, SandboxFailure]:
        deadline = time.monotonic() + timeout_s
        async with self._lock:
            if self._removed:
                return Success(None)
            if self.jail is not None and not self._jail_ended:
                self._jail_ended = True
                await self._end_jail(self.jail, deadline)
            left = await end_tree(self._everything, within_s=deadline - time.monotonic())
            if left or not await self._is_idle(deadline):
                return self._overrun(left, timeout_s)
            return await self._remove()

    async def _end_jail(self, jail: Jail, deadline: float) -> None:
        """All inside is killed at once; each `nsenter` then reaps its command and ends (see `_Exec.tree`)."""
        await jail.end(within_s=deadline - time.monotonic())
        for running in self._execs:
            send_signal(running.child.process, SIGCONT)
        await self._is_idle(min(deadline, time.monotonic() + REAP_S))

    def _everything(self) -> list[Process]:
        """All that lives of this sandbox. The private HOME and TMPDIR tell what hid its marker."""
        sandbox_id, root = self.root.sandbox_id, self.root
        markers = (f"{EXEC_MARKER}={sandbox_id}.", f"HOME={root.home}", f"TMPDIR={root.temporary}")
        roots = [each.child.process for each in self._execs]
        if self.jail is not None:
            roots.append(self.jail.init)
        return find_tree(
            roots=roots,
            markers=tuple(marker.encode() for marker in markers),
            sessions=frozenset(filter(self._is_own_session, self._sessions)),
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

    def _is_lost(self) -> bool:
        return self._stopping or (self.jail is not None and not self.jail.is_alive)

    def _lost(self) -> Result[T, SandboxFailure]:
        what = "was stopped" if self._stopping else "died: its first process is gone"
        return Failure(SandboxFailure(SandboxTrouble.LOST, f"Sandbox {self.root.sandbox_id} {what}."))


def _problem_of(command: Command, timeout_s: float) -> str | None:
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


def _not_started(command: Command, error: OSError | ValueError) -> Result[ExecResult, SandboxFailure]:
    name = command.argv[0]
    if isinstance(error, ValueError):
        return refused(f"The command {name!r} holds a NUL or text that cannot be encoded.")
    if error.errno == errno.E2BIG:
        return refused(f"The command {name!r} and its environment are too long for the kernel.")
    message = f"The command {name!r} could not be started: {error}."
    return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))
