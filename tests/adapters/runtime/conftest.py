"""A small release of "Cline" (a bash script in a real npm-shaped tarball), and a real program named npm."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import tarfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
