"""A bench for the real scripts: real bash, real processes, over the smallest possible sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from returns.result import Failure, Result, Success

from clinebox.adapters.supervisor.client import Finished, SupervisorClient
from clinebox.adapters.supervisor.plan import SupervisedPlan
from clinebox.domain import session_files as names
from clinebox.domain.ports import Command, ExecResult, SandboxDescription, SandboxFailure, SandboxTrouble
from clinebox.domain.shell import session_directory

PATIENCE_S = 60.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
T = TypeVar("T")


class HostSandbox:
    """The `Sandbox` port over plain processes of this host. `leader`: exec makes a process-group leader."""

    def __init__(self, root: Path, *, leader: bool = True, path: str = PATH) -> None:
        self.root = root
        self.leader = leader
        self.env = {"PATH": path, "HOME": str(root), "LANG": "C.UTF-8"}
        self.started: list[asyncio.subprocess.Process] = []
        self.commands: list[Command] = []

    @property
    def description(self) -> SandboxDescription:
        return SandboxDescription("host", "test", "none", "", str(self.root), str(self.root))

    async def exec(self, command: Command, *, timeout_s: float) -> Result[ExecResult, SandboxFailure]:
        self.commands.append(command)
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self.env, **command.env},
            cwd=command.cwd or self.root,
            process_group=0 if self.leader else None,
        )
        self.started.append(process)
        try:
            out, err = await asyncio.wait_for(process.communicate(command.stdin), timeout_s)
        except TimeoutError:
            process.kill()
            await process.wait()
            return Success(_exec_result(None, b"", b"", began))
        code = process.returncode
        assert code is not None
        return Success(_exec_result(code if code >= 0 else 128 - code, out, err, began))

    async def upload(
        self, path: str, content: bytes, *, mode: int = 0o600, timeout_s: float
    ) -> Result[None, SandboxFailure]:
        assert timeout_s > 0
        return _write(Path(path), content, mode)

    async def download(
        self, path: str, *, offset_bytes: int = 0, limit_bytes: int, timeout_s: float
    ) -> Result[bytes, SandboxFailure]:
        assert timeout_s > 0
        return _read(Path(path)).map(lambda whole: whole[offset_bytes : offset_bytes + limit_bytes])

    async def stop(self, *, timeout_s: float) -> Result[None, SandboxFailure]:
        assert timeout_s > 0
        return Success(None)


def _exec_result(code: int | None, out: bytes, err: bytes, began: float) -> ExecResult:
    return ExecResult(
        exit_code=code,
        stdout=out,
        stderr=err,
        output_truncated=False,
        timed_out=code is None,
        duration_s=time.monotonic() - began,
    )


def _write(path: Path, content: bytes, mode: int) -> Result[None, SandboxFailure]:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    except OSError as error:
        return Failure(SandboxFailure(SandboxTrouble.BAD_REQUEST, str(error)))
    return Success(None)


def _read(path: Path) -> Result[bytes, SandboxFailure]:
    try:
        return Success(path.read_bytes())
    except OSError as error:
        return Failure(SandboxFailure(SandboxTrouble.NOT_FOUND, str(error)))


@dataclass
class Session:
    """One session directory with its client, and what a test wants to see of it."""

    sandbox: HostSandbox
    client: SupervisorClient
    dir: Path

    def plan(self, *argv: str, **fields: Any) -> SupervisedPlan:
        given: dict[str, Any] = {"run_timeout_s": PATIENCE_S, "cleanup_timeout_s": 5.0, **fields}
        return SupervisedPlan(argv=argv, cwd=given.pop("cwd", str(self.sandbox.root)), **given)

    async def start(self, *argv: str, **fields: Any) -> asyncio.Task[Finished]:
        """Prepare, and run in the background."""
        (await self.client.prepare(self.plan(*argv, **fields))).unwrap()

        async def finish() -> Finished:
            return (await self.client.run()).unwrap()

        return asyncio.create_task(finish())

    def run(self, *argv: str, **fields: Any) -> Finished:
        """Prepare and run to the end."""

        async def whole() -> Finished:
            return await (await self.start(*argv, **fields))

        return asyncio.run(whole())

    def bash(self, script: str, **fields: Any) -> Finished:
        return self.run("bash", "-c", script, **fields)

    def read(self, name: str) -> bytes:
        return (self.dir / name).read_bytes()

    @property
    def stdout(self) -> str:
        return self.read(names.STDOUT).decode()

    def made(self, name: str) -> Path:
        """A file that the harness makes in the sandbox's root to say that it got somewhere."""
        return self.sandbox.root / name

    def marked(self) -> list[int]:
        """Live processes that carry the marker or the limit, found without the scripts under test."""
        return [pid for pid in _pids() if _alive(pid) and self._is_marked(pid)]

    def _is_marked(self, pid: int) -> bool:
        fence = (int(self.client.marker[:12], 16) | 1 << 48) if self.client.marker else 0
        with contextlib.suppress(OSError):
            if self.client.marker.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                return True
            return f" {fence} " in Path(f"/proc/{pid}/limits").read_text()
        return False

    def supervisor_pid(self) -> int:
        return int(self.read(names.SUPERVISOR_PID).split()[0])


class Bench:
    """Makes sessions, and at the end ends by pid what their tests left on purpose."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sessions: list[Session] = []

    def session(self, *, leader: bool = True, path: str = PATH, directory: str | None = None) -> Session:
        root = self.root / f"s{len(self.sessions)}"
        root.mkdir()
        where = directory if directory is not None else str(root / "session")
        sandbox = HostSandbox(root, leader=leader, path=path)
        client = SupervisorClient(sandbox, session_directory(where).unwrap())
        session = Session(sandbox, client, Path(where))
        self.sessions.append(session)
        return session

    @staticmethod
    async def until(condition: Callable[[], T]) -> T:
        """The condition's value as soon as it is true; fails after a generous bound."""
        give_up = time.monotonic() + PATIENCE_S
        while not (value := condition()):
            assert time.monotonic() < give_up, "the condition did not come true"
            await asyncio.sleep(0.01)
        return value

    @staticmethod
    def alive(pid: int) -> bool:
        return _alive(pid)

    @staticmethod
    def state(pid: int) -> str:
        """The process state's letter, as in /proc/PID/stat."""
        return _state(pid)

    @staticmethod
    def signal(pid: int, name: str) -> None:
        os.kill(pid, signal.Signals[f"SIG{name}"])

    def close(self) -> None:
        for session in self.sessions:
            for process in session.sandbox.started:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGKILL)
            for pid in session.marked():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def python() -> str:
    return sys.executable


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _state(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "X"
    return stat.rpartition(")")[2].split()[0]


def _alive(pid: int) -> bool:
    return _state(pid) not in "ZX"
