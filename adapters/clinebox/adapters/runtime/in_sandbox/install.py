"""Install the pinned Cline inside a sandbox, over the `Sandbox` port."""

from __future__ import annotations

import base64
import binascii
import math
import re
from dataclasses import dataclass, replace
from importlib import resources
from typing import Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.runtime.failure import RuntimeFailure, RuntimeTrouble
from clinebox.adapters.runtime.in_sandbox.exits import HOST_CACHE, MEANINGS, InstallExit, Meaning
from clinebox.adapters.runtime.in_sandbox.registry import checked_registry
from clinebox.domain.cline.pins import Pin
from clinebox.domain.one_line import excerpt
from clinebox.domain.ports import Command, ExecResult, Sandbox, SandboxFailure

DEFAULT_INSTALL_TIMEOUT_S: Final = 300.0
ANSWER_S: Final = 10.0
"""What the exec call has beyond the script's own deadline, so that the script can say what took so long."""
LEAST_TIMEOUT_S: Final = 1.0
MOST_TIMEOUT_S: Final = 86_400.0
LAST_LINES: Final = 12
LINE_CHARS: Final = 300
LOG_READ_BYTES: Final = 32 * 1024
PREFIX: Final = "install_cline_runtime: "

_DIRECTORY: Final = re.compile(r"(?:/(?!\.\.?(?:/|$))[^/\x00-\x1f\x7f]+)+")


@dataclass(frozen=True, slots=True)
class InstalledRuntime:
    """A Cline binary in a sandbox that any session there may run."""

    path: str
    """Inside the sandbox, absolute."""
    version: str
    integrity: str
    """Of the tarball that it came from: `sha512-…`, as pinned."""
    downloaded: bool
    """Whether this call published it; else it was there, or another installer was first."""


def default_directory(version: str) -> str:
    """Where a version is published in a sandbox (SPEC §9)."""
    return f"/tmp/clinebox-cline-{version}"  # noqa: S108 - the path inside the sandbox; the script checks owners


def install_script() -> bytes:
    """The whole script as it is fed to bash; written to a file it also runs alone, in a Dockerfile say."""
    package = resources.files(__package__)
    parts = (package.joinpath(name).read_bytes() for name in ("find_tools.sh", "install_cline_runtime.sh"))
    return b"\n".join((b"#!/bin/bash", *parts))


async def install_in_sandbox(
    sandbox: Sandbox,
    pin: Pin,
    registry_url: str,
    timeout_s: float = DEFAULT_INSTALL_TIMEOUT_S,
    *,
    directory: str | None = None,
) -> Result[InstalledRuntime, RuntimeFailure]:
    """The pinned binary inside the sandbox: reused, else downloaded there from `registry_url` and checked.

    The script is fed to bash through a pipe: no file of it is left, none can be changed before it is read. It
    ends within `timeout_s` (1 to 86,400), the call within 10 s more. `directory` is by default
    `/tmp/clinebox-cline-<version>`. Failure with the trouble that the script's exit code tells and the last
    lines of its log; SANDBOX when the sandbox itself fails. Nothing is published then.
    """
    target = directory or default_directory(pin.version)
    arguments = checked_registry(registry_url).bind(lambda url: _arguments(pin, url, timeout_s, target))
    if not is_successful(arguments):
        return Failure(arguments.failure())
    command = Command(argv=("bash", "-p", "-s", "--", *arguments.unwrap()), stdin=install_script())
    ran = await sandbox.exec(command, timeout_s=timeout_s + ANSWER_S)
    where = f"Cline {pin.version} is not installed in sandbox {sandbox.description.sandbox_id}"
    if not is_successful(ran):
        return Failure(_sandbox_failed(where, ran.failure()))
    return _read_answer(ran.unwrap(), pin, target).alt(
        lambda failure: replace(failure, message=f"{where}: {failure.message}")
    )


def _arguments(
    pin: Pin, registry: str, timeout_s: float, directory: str
) -> Result[tuple[str, ...], RuntimeFailure]:
    if not (math.isfinite(timeout_s) and LEAST_TIMEOUT_S <= timeout_s <= MOST_TIMEOUT_S):
        return _unusable(
            f"the install timeout must be {LEAST_TIMEOUT_S:g} to {MOST_TIMEOUT_S:g} s, not {timeout_s}"
        )
    if not _DIRECTORY.fullmatch(directory):
        return _unusable(
            f"the directory must be absolute, without . and .., not {excerpt(directory, LINE_CHARS)!r}"
        )
    try:
        sha512 = base64.b64decode(pin.sha512_base64, validate=True).hex()
    except binascii.Error:
        return _unusable(f"the pin of {pin.spec} is no base64")
    return Success(
        (
            f"version={pin.version}",
            f"platform={pin.platform}",
            f"sha512={sha512}",
            f"registry={registry}",
            f"directory={directory}",
            f"timeout_s={math.floor(timeout_s)}",
        )
    )


def _read_answer(ran: ExecResult, pin: Pin, directory: str) -> Result[InstalledRuntime, RuntimeFailure]:
    path = f"{directory}/cline"
    word, _, told = ran.stdout.decode("utf-8", "replace").rstrip("\n").partition(" ")
    if ran.exit_code == 0 and word in ("installed", "reused") and told == path:
        return Success(InstalledRuntime(path, pin.version, pin.integrity, downloaded=word == "installed"))
    lines = last_lines(ran.stderr)
    meaning = _meaning(ran)
    own = lines[-1] if lines else "it said nothing"
    message = f"{meaning.sentence} ({own.removeprefix(PREFIX)})"
    return Failure(RuntimeFailure(meaning.trouble, message, meaning.ways_on, lines))


def _meaning(ran: ExecResult) -> Meaning:
    if ran.timed_out:
        return MEANINGS[InstallExit.TIMED_OUT]
    strange = f"the installer ended in a way of its own, with exit code {ran.exit_code}"
    return MEANINGS.get(
        -1 if ran.exit_code is None else ran.exit_code,
        Meaning(RuntimeTrouble.SANDBOX, strange, ("look at the log", HOST_CACHE)),
    )


def last_lines(log: bytes) -> tuple[str, ...]:
    """The last 12 lines of a log that say something, each printable and of at most 300 characters."""
    lines = log[-LOG_READ_BYTES:].decode("utf-8", "replace").split("\n")
    told = [excerpt(line, LINE_CHARS) for line in lines[-LAST_LINES * 4 :]]
    return tuple(line for line in told if line)[-LAST_LINES:]


def _sandbox_failed(where: str, failure: SandboxFailure) -> RuntimeFailure:
    message = f"{where}: the sandbox failed ({failure.trouble}): {failure.message}"
    return RuntimeFailure(RuntimeTrouble.SANDBOX, message, ("try again in a new sandbox",))


def _unusable(message: str) -> Result[tuple[str, ...], RuntimeFailure]:
    return Failure(RuntimeFailure(RuntimeTrouble.TARGET_UNUSABLE, message, ("correct it",)))
