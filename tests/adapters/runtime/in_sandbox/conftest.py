"""A registry on loopback that serves real tarballs; the real script, run by real bash on a chosen PATH."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import signal
import socket
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from clinebox.adapters.runtime.in_sandbox.install import install_script

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


@dataclass
class Registry:
    """What the next requests are answered with; `paths` are what was asked for."""

    tarball: bytes = SMALL
    status: int = 200
    does: str = "serve"
    """serve | truncate | hang | slow | endless | redirect | then_serve (one answer of `status` first)."""
    url: str = ""
    paths: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def sha512(self) -> str:
        return hashlib.sha512(self.tarball).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    registry: Registry

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass

    def do_GET(self) -> None:
        registry = self.registry
        registry.paths.append(self.path)
        with contextlib.suppress(ConnectionError):
            self._answer(registry)

    def _answer(self, registry: Registry) -> None:
        first = len(registry.paths) == 1
        if registry.does == "hang":
            registry.released.wait(BOUND_S)
        elif registry.does == "redirect" and not self.path.startswith("/moved"):
            self._head(302, 0, location=f"/moved{self.path}")
        elif registry.does == "endless":
            self._head(200, None)
            while not registry.released.is_set():
                self.wfile.write(bytes(1 << 20))
        elif registry.status != 200 and (registry.does != "then_serve" or first):
            self._head(registry.status, 0)
        else:
            self._body(registry)

    def _body(self, registry: Registry) -> None:
        self._head(200, len(registry.tarball))
        half = len(registry.tarball) // 2
        self.wfile.write(registry.tarball[:half])
        self.wfile.flush()
        if registry.does == "slow":
            registry.released.wait(BOUND_S)
        if registry.does == "truncate":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.wfile.write(registry.tarball[half:])

    def _head(self, status: int, length: int | None, *, location: str = "") -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if location:
            self.send_header("Location", location)
        self.end_headers()


@contextlib.contextmanager
def serving(registry: Registry) -> Iterator[ThreadingHTTPServer]:
    handler = type("Handler", (_Handler,), {"registry": registry})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        registry.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            registry.released.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    with serving(made):
        yield made


def wait_for(condition: Callable[[], object], what: str = "the condition") -> None:
    """Wait for a condition, with a bound; not for time to pass."""
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def kill_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


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
        return ended(self.start(env=env, **changes))

    def make_stale(self) -> None:
        """A partial runtime: half a binary, no `ready`."""
        self.target.mkdir()
        self.binary.write_bytes(BINARY[:20])
        self.binary.chmod(0o755)

    def assert_published(self) -> None:
        """Whole, alone, and nothing of an installation beside it but the lock."""
        assert self.binary.read_bytes() == BINARY
        assert sorted(each.name for each in self.target.iterdir()) == ["cline", "ready"]
        assert [each.name for each in self.workshop.iterdir()] in ([], ["lock"])


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=BOUND_S)
    return process.returncode, out, err


def tool_path(tool: str) -> str:
    found = next((f"{root}/{tool}" for root in ("/usr/bin", "/bin") if Path(root, tool).exists()), None)
    assert found is not None, f"the tests need {tool} on this machine"
    return found


@pytest.fixture
def installer(tmp_path: Path, registry: Registry) -> Iterator[Installer]:
    """The script with every tool that it can use on PATH, and nothing else there."""
    home = tmp_path / "in box"  # a space in every path
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
            kill_group(process)
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
