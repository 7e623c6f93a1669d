"""The fault matrix's bench: one story a sandbox, on each engine, over the domain's ports alone.

A new engine is one more entry of ENGINES. What is left is read from the host's own /proc, without the scripts
under test: by marker, by the file-lock limit, by the namespace, and by a word in the command line.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest

from clinebox.adapters.sandboxes.local import LocalSandboxProvider
from clinebox.adapters.supervisor.client import Finished, SupervisorClient
from clinebox.adapters.supervisor.plan import SupervisedPlan
from clinebox.domain.ports import Command, ExecResult, Sandbox, SandboxProvider, SandboxSpec
from clinebox.domain.receipt import CleanupReceipt
from clinebox.domain.shell import session_directory

T = TypeVar("T")
Story: TypeAlias = Callable[["Place"], Awaitable[T]]
MakeProvider: TypeAlias = Callable[[Path], SandboxProvider]
Wrap: TypeAlias = Callable[[Sandbox], Sandbox]
PATIENCE_S = 60.0
CLONE_NEWNS = 0x00020000
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Engine:
    """How one engine's provider is made, over a private directory of the test's own."""

    make: MakeProvider
    marks: tuple[pytest.MarkDecorator, ...] = ()


ENGINES: Mapping[str, Engine] = {
    "local": Engine(lambda base: LocalSandboxProvider("plain", private_base=base)),
    "bubblewrap": Engine(
        lambda base: LocalSandboxProvider("bubblewrap", private_base=base), (pytest.mark.bubblewrap,)
    ),
}
SLOW_ENGINE = "bubblewrap"
"""Where a slow row runs without `--full`: with its own processes, it tells more than `local`."""


@dataclass
class Place:
    """One sandbox with one session, and what a story asks of them."""

    engine: str
    sandbox: Sandbox
    client: SupervisorClient
    directory: str
    workdir: Path
    tag: str
    namespace: str = ""
    """The sandbox's pid namespace as the host names it; empty where it is the host's own."""

    def plan(self, *argv: str, **fields: Any) -> SupervisedPlan:
        given: dict[str, Any] = {"run_timeout_s": PATIENCE_S, "cleanup_timeout_s": 5.0, **fields}
        return SupervisedPlan(argv=argv, cwd=str(self.workdir), **given)

    def script(self, text: str) -> str:
        """For bash: `$LONG` is a sleep that the host knows by its tag, `$S` the session directory."""
        return f"LONG='sleep 86400.{self.tag}' S='{self.directory}'\n{text}"

    async def start(self, text: str, **fields: Any) -> asyncio.Task[Finished]:
        """Prepare a bash script as the harness, and run it in the background."""
        argv = fields.pop("argv", ("bash", "-c", self.script(text)))
        (await self.client.prepare(self.plan(*argv, **fields))).unwrap()
        return self.launch()

    def launch(self) -> asyncio.Task[Finished]:
        async def finish() -> Finished:
            return (await self.client.run()).unwrap()

        return asyncio.create_task(finish())

    async def run(self, text: str, **fields: Any) -> CleanupReceipt:
        """Prepare and run to the receipt."""
        return (await (await self.start(text, **fields))).receipt

    async def made(self, name: str) -> Path:
        """A file that something in the sandbox makes in the work directory, as soon as it is there."""
        path = self.workdir / name
        await until(path.exists, f"{name} in the work directory")
        return path

    async def inside(self, text: str) -> ExecResult:
        """Run a bash text in the sandbox, beside the run."""
        answer = await self.sandbox.exec(Command(("bash", "-c", text), cwd="/"), timeout_s=PATIENCE_S)
        return answer.unwrap()

    async def stdout(self) -> str:
        path = f"{self.directory}/stdout.ndjson"
        content = await self.sandbox.download(path, limit_bytes=1 << 20, timeout_s=PATIENCE_S)
        return content.unwrap().decode(errors="replace")

    def living(self) -> dict[int, str]:
        """What lives of the run, seen from the host: pid and command line."""
        return {pid: command_line(pid) for pid in live_pids() if self._belongs(pid)}

    def in_namespace(self) -> dict[int, str]:
        """What lives in the sandbox's own pid namespace but its pid 1; empty where it has none."""
        if not self.namespace:
            return {}
        found = (pid for pid in live_pids() if namespace_of(pid) == self.namespace and inner_pid(pid) != 1)
        return {pid: command_line(pid) for pid in found}

    def _belongs(self, pid: int) -> bool:
        fence = int(self.client.marker[:12], 16) | 1 << 48
        with contextlib.suppress(OSError):
            proc = Path(f"/proc/{pid}")
            return (
                self.tag in command_line(pid)
                or self.client.marker.encode() in (proc / "environ").read_bytes()
                or f" {fence} " in (proc / "limits").read_text()
            )
        return False

    async def nothing_is_left(self) -> None:
        """At once nothing of the run; and, as soon as the controls have ended, nothing in the namespace."""
        assert self.living() == {}
        await until(lambda: not self.in_namespace(), "an empty namespace")

    def supervisors(self) -> list[int]:
        """The host's pids of processes called cb-supervisor that belong to this run."""
        return [pid for pid in live_pids() if name_of(pid) == "cb-supervisor" and self._is_ours(pid)]

    def runners(self) -> list[int]:
        return [pid for pid in self.living() if name_of(pid) == "cb-runner"]

    def sizers(self) -> list[int]:
        return [pid for pid in self.living() if name_of(pid) == "cb-sizer"]

    def inner(self, pid: int) -> int:
        return inner_pid(pid)

    def end(self, pids: Iterable[int]) -> None:
        """What a story found escaped, by pid."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _is_ours(self, pid: int) -> bool:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cwd").readlink().name == Path(self.directory).name
        return False


def _as_it_is(sandbox: Sandbox) -> Sandbox:
    return sandbox


class Stage:
    """Plays stories on one engine, each in a sandbox of its own, of which nothing is left afterwards."""

    def __init__(self, name: str, root: Path) -> None:
        self.engine = name
        self.root = root

    def __call__(self, story: Story[T], *, env: Mapping[str, str] | None = None, wrap: Wrap = _as_it_is) -> T:
        return asyncio.run(self.play(story, env=env or {}, wrap=wrap))

    def in_private_mounts(self, story: Story[T], *, mount: Sequence[str], wrap: Wrap = _as_it_is) -> T:
        """The same in a thread with a mount namespace of its own, after `mount`, which may say {base}."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self._behind, mount, story, wrap).result()

    def _behind(self, mount: Sequence[str], story: Story[T], wrap: Wrap) -> T:
        """mount_namespaces(7): a namespace of the thread, inherited by what it starts."""
        base = self.root / "base"
        base.mkdir(mode=0o700, exist_ok=True)
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.unshare(CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run([word.replace("{base}", str(base)) for word in mount], check=True)
        return self(story, wrap=wrap)

    async def play(
        self,
        story: Story[T],
        *,
        env: Mapping[str, str],
        wrap: Wrap,
    ) -> T:
        workdir, base, tag = self.root / "desk", self.root / "base", f"{secrets.randbelow(10**9):09}"
        workdir.mkdir(mode=0o755, exist_ok=True)
        base.mkdir(mode=0o700, exist_ok=True)
        provider = ENGINES[self.engine].make(base)
        spec = SandboxSpec(workdir=str(workdir), env={"CLINEBOX_MATRIX": tag, **env})
        sandbox = wrap((await provider.start(spec, timeout_s=PATIENCE_S)).unwrap())
        directory = f"{sandbox.description.session_root}/m{tag}"
        client = SupervisorClient(sandbox, session_directory(directory).unwrap())
        place = Place(self.engine, sandbox, client, directory, workdir, tag)
        with contextlib.ExitStack() as held:
            try:
                place.namespace = await _own_namespace(place)
                _hold_namespace(place.namespace, held)
                return await story(place)
            finally:
                (await sandbox.stop(timeout_s=PATIENCE_S)).unwrap()
                _end_by_pid(place)


def _end_by_pid(place: Place) -> None:
    """After the sandbox's own end: what still lives is ended, and the test fails for it."""
    left = {**place.living(), **place.in_namespace()}
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == {}


async def _own_namespace(place: Place) -> str:
    seen = (await place.inside("readlink /proc/self/ns/pid")).stdout.decode().strip()
    return "" if seen == namespace_of(os.getpid()) else seen


def _hold_namespace(name: str, held: contextlib.ExitStack) -> None:
    """Keep its number from being given to another one, which would be another test's."""
    if name:
        pid = next(pid for pid in live_pids() if namespace_of(pid) == name)
        held.callback(os.close, os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC))


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, with a generous bound."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, f"still not: {what}"
        await asyncio.sleep(0.01)


def live_pids() -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - hundreds a look
        if name.isdigit() and state_of(int(name)) not in "ZX":
            yield int(name)


def state_of(pid: int) -> str:
    """The letter of /proc/PID/stat; X for one that is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "X"
    return stat.rpartition(")")[2].split()[0]


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def command_line(pid: int) -> str:
    return _text(pid, "cmdline").replace("\0", " ").strip()


def name_of(pid: int) -> str:
    return _text(pid, "comm").strip()


def inner_pid(pid: int) -> int:
    """The number that a process has in its own namespace (proc(5), NSpid)."""
    lines = [line for line in _text(pid, "status").splitlines() if line.startswith("NSpid:")]
    return int(lines[0].split()[-1]) if lines else 0


def namespace_of(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def _params(*, slow: bool) -> list[Any]:
    """Every engine; of a slow row all but one are a part of `--full`."""
    return [
        pytest.param(
            name, marks=[*engine.marks, *([pytest.mark.full] if slow and name != SLOW_ENGINE else [])]
        )
        for name, engine in ENGINES.items()
    ]


@pytest.fixture(params=_params(slow=False))
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """Plays a story on each engine."""
    return Stage(request.param, tmp_path)


@pytest.fixture(params=_params(slow=True))
def play_slow(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """Plays a slow story on one engine, and on each with `--full`."""
    return Stage(request.param, tmp_path)


@pytest.fixture
def play_local(tmp_path: Path) -> Stage:
    """For what only the host's own namespaces and root's rights show."""
    return Stage("local", tmp_path)


@pytest.fixture
def play_bubblewrap(tmp_path: Path) -> Stage:
    """For what a pid namespace of the sandbox's own guarantees."""
    return Stage("bubblewrap", tmp_path)
