"""A small release of "Cline" (a bash script in a real npm-shaped tarball), and a real program named npm."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import os
import socket
import ssl
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from returns.result import Result, Success

from clinebox.adapters.runtime.cache import RuntimeCache
from clinebox.domain.cline.pins import Pin, Platform

VERSION = "9.9.9"
CONTENT = b"#!/bin/bash\necho small cline\n"

NPM = """#!/bin/bash
echo "$*" >>"$FAKE_NPM/calls"
echo "$$" >"$FAKE_NPM/pid"
while (($#)); do [[ $1 == --pack-destination ]] && into=$2; shift; done
source "$FAKE_NPM/does"
"""


@dataclass(frozen=True)
class Npm:
    """The program on PATH: notes how it was called, then does what it is told in bash, `$into` at hand."""

    home: Path

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": f"{self.home / 'bin'}:{os.environ['PATH']}", "FAKE_NPM": str(self.home)}

    @property
    def calls(self) -> list[str]:
        log = self.home / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def does(self, script: str) -> None:
        (self.home / "does").write_text(script)

    def packs(self, tarball: Path) -> None:
        self.does(f"cp {tarball} $into/cline-{VERSION}.tgz")


@pytest.fixture
def npm(tmp_path: Path) -> Npm:
    home = tmp_path / "npm"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "npm"
    program.write_text(NPM)
    program.chmod(0o755)
    return Npm(home)


def pack(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def member(name: str, *, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, 0o755
    return info


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    """What npm would give for the small release."""
    return pack(
        tmp_path / "small.tgz",
        (member("package/package.json"), b"{}"),
        (member("package/bin/cline"), CONTENT),
        (member("package/webview/big.js"), b"x" * 10_000),
    )


@pytest.fixture
def pack_members() -> Callable[..., Path]:
    return pack


@pytest.fixture
def tar_member() -> Callable[..., tarfile.TarInfo]:
    return member


def pin(tarball: Path) -> Pin:
    digest = hashlib.sha512(tarball.read_bytes()).digest()
    return Pin(VERSION, Platform.LINUX_X64, base64.b64encode(digest).decode())


@pytest.fixture
def pin_for() -> Callable[[Path], Pin]:
    return pin


@pytest.fixture
def cache_of(tmp_path: Path, npm: Npm) -> Callable[..., RuntimeCache]:
    """A cache in which the small release is the only pinned one: `cache_of(tarball)`."""

    def cache(tarball: Path, *, env: Mapping[str, str] | None = None, **bounds: float) -> RuntimeCache:
        pinned = pin(tarball)

        def pins(_version: str, _platform: Platform) -> Result[Pin, str]:
            return Success(pinned)

        return RuntimeCache(
            root=tmp_path / "cache",
            env=npm.env if env is None else env,
            pins=pins,
            host=lambda: Success(Platform.LINUX_X64),
            **{"needed_bytes": 0, **bounds},  # type: ignore[arg-type]  # sizes and seconds by name
        )

    return cache


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool]], None]:
    """Wait for a condition, with a bound; not for time to pass."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.01)

    return wait


# --- a registry on loopback

HELD_S = 60.0
"""How long a server that does not answer holds on, unless the test ends."""


@dataclass
class Registry:
    """What the next requests are answered with; `paths` are what was asked for."""

    tarball: bytes = b""
    status: int = 200
    does: str = "serve"
    """serve, truncate, hang, slow, endless, redirect, signed, or then_serve (`status` once, then serve)."""
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
            registry.released.wait(HELD_S)
        elif registry.does == "signed":
            self._head(403 if "?" in self.path else 302, 0, location="/moved?signature=s3cret")
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
            registry.released.wait(HELD_S)
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
def serving(registry: Registry, context: ssl.SSLContext | None = None) -> Iterator[ThreadingHTTPServer]:
    handler = type("Handler", (_Handler,), {"registry": registry})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
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
def empty_registry() -> Iterator[Registry]:
    made = Registry()
    with serving(made):
        yield made


@pytest.fixture
def secure(empty_registry: Registry) -> Iterator[Callable[[ssl.SSLContext], str]]:
    """The same registry behind TLS: gives its address."""
    with contextlib.ExitStack() as servers:

        def serve(context: ssl.SSLContext) -> str:
            twin = Registry(empty_registry.tarball)
            server = servers.enter_context(serving(twin, context))
            return f"https://127.0.0.1:{server.server_port}"

        yield serve
