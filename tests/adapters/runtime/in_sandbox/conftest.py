"""The real script, run by real bash on a chosen PATH."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clinebox.adapters.runtime.in_sandbox.install import install_script

if TYPE_CHECKING:
    from tests.adapters.runtime.conftest import Registry

VERSION = "9.9.9"
BINARY = b'#!/bin/bash\n[[ $1 == --version ]] && echo 9.9.9 || echo "small cline"\n'
BOUND_S = 60.0
TOOLS = (
    "bash",
    "ls",
    "mv",
    "rm",
    "rmdir",
    "mkdir",
    "chmod",
    "cat",
    "sleep",
    "uname",
    "flock",
    "curl",
    "wget",
)
TOOLS = (*TOOLS, "tar", "gzip", "sha512sum")


def pack(*members: tuple[str, bytes], link: str = "") -> bytes:
    """A tarball as npm makes one."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.mode, info.size = 0o644, len(content)
            if link:
                info.type, info.linkname, info.size = tarfile.SYMTYPE, link, 0
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


SMALL = pack(("package/package.json", b"{}"), ("package/bin/cline", BINARY), ("package/big.js", b"x" * 9_000))


def wait_for(condition: Callable[[], object], what: str = "the condition") -> None:
    """Wait for a condition, with a bound; not for time to pass."""
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def session_of(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[3])


def session_members(leader: int) -> list[int]:
    pids = [int(each.name) for each in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if session_of(pid) == leader]


def kill_session(leader: int) -> None:
    """End all that an installer started: each of its steps leads a process group of its own."""
    while members := session_members(leader):
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@dataclass
class Installer:
    """One way of running the script: a PATH of chosen tools, a target, a registry."""

    home: Path
    registry: Registry
    bin: Path
    script: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)
    prefix: tuple[str, ...] = ()
    """What bash is started by: setpriv, unshare."""

    @property
    def target(self) -> Path:
        return self.home / "box" / "cline-9.9.9"

    @property
    def binary(self) -> Path:
        return self.target / "cline"

    @property
    def workshop(self) -> Path:
        return self.home / "box" / f"cline-9.9.9.install-{os.geteuid()}"

    def without(self, *tools: str) -> None:
        for tool in tools:
            (self.bin / tool).unlink()

    def shim(self, tool: str, text: str) -> None:
        """Put a program of the test's own on PATH."""
        path = self.bin / tool
        path.unlink(missing_ok=True)
        path.write_text(f"#!{Path('/bin/bash')}\n{text}\n")
        path.chmod(0o755)

    def arguments(self, **changes: str) -> list[str]:
        named = {
            "version": VERSION,
            "platform": "linux-x64",
            "sha512": self.registry.sha512,
            "registry": self.registry.url,
            "directory": str(self.target),
            "timeout_s": "60",
            **changes,
        }
        return [f"{name}={value}" for name, value in named.items()]

    def start(self, *, env: Mapping[str, str] | None = None, **changes: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*self.prefix, str(self.bin / "bash"), "-p", str(self.script), *self.arguments(**changes)],
            env={"PATH": str(self.bin), "HOME": str(self.home), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.running.append(process)
        return process

    def run(self, *, env: Mapping[str, str] | None = None, **changes: str) -> tuple[int, str, str]:
        """Its exit code, what it answered, and its log."""
        return self.ended(self.start(env=env, **changes))

    def ended(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        """The same of one that was started."""
        out, err = process.communicate(timeout=BOUND_S)
        return process.returncode, out, err

    def as_user(self, uid: int) -> None:
        """Run the next ones as an ordinary user."""
        self.prefix = ("/usr/bin/setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups")

    def mounted(self, options: str) -> None:
        """Run the next ones on a file system of their own, in a mount namespace that goes with them."""
        box = shlex.quote(str(self.home / "box"))
        mount = f'/bin/mount -t tmpfs -o {options} tmpfs {box} && exec "$@"'
        self.prefix = ("/usr/bin/unshare", "--mount", "/bin/bash", "-c", mount, "mounted")

    def make_stale(self) -> None:
        """A partial runtime: half a binary, no `ready`."""
        self.target.mkdir()
        self.binary.write_bytes(BINARY[:20])
        self.binary.chmod(0o755)

    def publish_by_hand(self) -> None:
        """What another installer would publish."""
        self.binary.write_bytes(BINARY)
        self.binary.chmod(0o555)
        (self.target / "ready").write_text(f"sha512={self.registry.sha512} bytes={len(BINARY)}\n")

    def wait_for(self, condition: Callable[[], object]) -> None:
        wait_for(condition)

    def has_published(self) -> bool:
        return (self.target / "ready").exists()

    def assert_nothing_published(self) -> None:
        """Neither the target nor anything of an installation beside it but the lock."""
        assert not self.target.exists()
        assert not self.workshop.exists() or [each.name for each in self.workshop.iterdir()] in ([], ["lock"])

    def assert_published(self) -> None:
        """Whole, alone, and nothing of an installation beside it but the lock."""
        assert self.binary.read_bytes() == BINARY
        assert sorted(each.name for each in self.target.iterdir()) == ["cline", "ready"]
        assert not self.workshop.exists() or [each.name for each in self.workshop.iterdir()] in ([], ["lock"])


def tool_path(tool: str) -> str:
    found = next((f"{root}/{tool}" for root in ("/usr/bin", "/bin") if Path(root, tool).exists()), None)
    assert found is not None, f"the tests need {tool} on this machine"
    return found


GATE = """
[[ ${{GATES-}} ]] || exec {real} "$@"
for ((n = 1; ; n++)); do {mkdir} "$GATES/$WHO.{tool}.$n" 2> /dev/null && break; done
if [[ $STOP_AT == {tool}.$n ]]; then
  : > "$GATES/$WHO.at"
  read -r _ < "$GATES/$WHO.go"
fi
{real} "$@"
status=$?
[[ {tool} == flock && $status != 0 ]] && : > "$GATES/$WHO.waits"
exit $status
"""


@dataclass
class Gates:
    """Tools that stop one installer before a chosen call of a chosen one, until it is let go."""

    installer: Installer
    directory: Path

    def start(self, who: str, stop_at: str = "", **changes: str) -> subprocess.Popen[str]:
        os.mkfifo(self.directory / f"{who}.go")
        env = {"GATES": str(self.directory), "WHO": who, "STOP_AT": stop_at}
        return self.installer.start(env=env, **changes)

    def stopped(self, who: str, process: subprocess.Popen[str]) -> bool:
        """Wait until it stands before its step; False when it ended without getting there."""
        at = self.directory / f"{who}.at"
        wait_for(lambda: at.exists() or process.poll() is not None, f"{who} at its step")
        return at.exists()

    def ended_or_waiting(self, who: str, process: subprocess.Popen[str]) -> bool:
        """Wait until it has ended, or asked for a lock that another holds; whether it ended."""
        waits = self.directory / f"{who}.waits"
        wait_for(lambda: waits.exists() or process.poll() is not None, f"{who} to end or wait")
        return process.poll() is not None

    def wait_for_any(self, who: str, process: subprocess.Popen[str]) -> None:
        """Wait until it stands before its step, waits for a lock, or has ended."""
        at, waits = self.directory / f"{who}.at", self.directory / f"{who}.waits"
        wait_for(lambda: at.exists() or waits.exists() or process.poll() is not None, f"{who} anywhere")

    def kill_all(self, process: subprocess.Popen[str]) -> None:
        kill_session(process.pid)
        process.wait()

    def orphans_end(self, process: subprocess.Popen[str]) -> None:
        """Wait until nothing lives of an installer that was killed."""
        wait_for(lambda: not session_members(process.pid), "the orphans' end")

    def go(self, who: str) -> None:
        with (self.directory / f"{who}.go").open("w") as fifo:
            fifo.write("go\n")

    def steps(self, who: str) -> set[str]:
        """Every call of a tool so far, as `tool.number`; sleep apart, which only passes time."""
        named = {each.name.partition(".")[2] for each in self.directory.glob(f"{who}.*.*")}
        return {each for each in named if not each.startswith("sleep")}


@pytest.fixture
def gates(installer: Installer) -> Gates:
    directory = installer.home / "gates"
    directory.mkdir()
    for tool in TOOLS:
        if tool not in ("bash", "sleep"):
            installer.shim(tool, GATE.format(tool=tool, real=tool_path(tool), mkdir=tool_path("mkdir")))
    return Gates(installer, directory)


@pytest.fixture
def registry(empty_registry: Registry) -> Registry:
    """It serves the small release."""
    empty_registry.tarball = SMALL
    return empty_registry


@pytest.fixture
def packed() -> Callable[..., bytes]:
    return pack


@pytest.fixture
def lives() -> Callable[[str], bool]:
    """Whether a process with this word in its arguments lives."""

    def look(word: str) -> bool:
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if word.encode() in each.read_bytes() and int(each.parent.name) != os.getpid():
                    return True
        return False

    return look


@contextlib.contextmanager
def installing(home: Path, registry: Registry) -> Iterator[Installer]:
    (home / "bin").mkdir(parents=True)
    (home / "box").mkdir()
    for tool in TOOLS:
        (home / "bin" / tool).symlink_to(tool_path(tool))
    script = home / "script.sh"
    script.write_bytes(install_script())
    made = Installer(home, registry, home / "bin", script)
    try:
        yield made
    finally:
        for process in made.running:
            kill_session(process.pid)
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture
def installer(tmp_path: Path, registry: Registry) -> Iterator[Installer]:
    """The script with every tool that it can use on PATH, and nothing else there."""
    with installing(tmp_path / "in box", registry) as made:  # a space in every path
        yield made


@pytest.fixture
def shared(registry: Registry) -> Iterator[Installer]:
    """The same where every user may look, and write into a sticky directory as in /tmp."""
    with tempfile.TemporaryDirectory(prefix="clinebox test ", dir="/tmp") as home:
        Path(home).chmod(0o755)
        with installing(Path(home) / "open", registry) as made:
            (made.home / "box").chmod(0o1777)
            yield made
