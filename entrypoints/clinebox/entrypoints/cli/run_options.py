"""From the words on the command line to checked values; each mistake is one sentence and exit code 2."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from returns.pipeline import is_successful
from returns.result import Result

from clinebox.adapters.sandboxes.private_root import base_directory
from clinebox.adapters.sandboxes.workdir import checked_workdir
from clinebox.domain.budgets import DEFAULT_CLEANUP_S, checked_budget_s, provider_budget_s
from clinebox.domain.cline.prompt import DEFAULT_PROMPT_LIMIT_BYTES, PreparedPrompt, prepare_prompt
from clinebox.domain.ports import NetworkMode, SandboxProvider
from clinebox.entrypoints.cli.errors import CliError
from clinebox.entrypoints.providers import ProviderName, make_provider

_Value = TypeVar("_Value")
_Error = TypeVar("_Error")

NO_SANDBOX: Final = "no_sandbox"
TEXT_LIMIT_BYTES: Final = 2 * DEFAULT_PROMPT_LIMIT_BYTES
"""More is not read (`@/dev/zero`); what is told to Cline is bounded after its ends were trimmed."""


def usable(result: Result[_Value, _Error], say: Callable[[_Error], str]) -> _Value:
    """The value, or the failure as a usage error."""
    if not is_successful(result):
        raise CliError(say(result.failure()))
    return result.unwrap()


def prompt(task: str) -> PreparedPrompt:
    """The task as Cline is told it: nothing in it is expanded, nothing is too long."""
    return usable(prepare_prompt(task_text(task)), lambda failure: f"TASK: {failure.message}")


def task_text(task: str) -> str:
    """The task: a text, `@file`, or `-` for standard input."""
    if task == "-":
        return _decoded("TASK", sys.stdin.buffer.read(TEXT_LIMIT_BYTES + 1), "standard input")
    if not task.startswith("@"):
        return task
    return text_file("TASK", Path(task[1:]))


def text_file(option: str, path: Path) -> str:
    """The text of a UTF-8 file that an option names."""
    try:
        with path.open("rb") as file:
            return _decoded(option, file.read(TEXT_LIMIT_BYTES + 1), str(path))
    except OSError as error:
        raise CliError(
            f"{option}: the file {str(path)!r} cannot be read: {error.strerror or error}"
        ) from error


def _decoded(option: str, content: bytes, where: str) -> str:
    if len(content) > TEXT_LIMIT_BYTES:
        raise CliError(f"{option}: {where} is longer than {TEXT_LIMIT_BYTES:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CliError(f"{option}: {where} is not UTF-8 text (byte {error.start})") from error


def seconds(option: str, value_s: float) -> float:
    """A usable number of seconds."""
    return usable(checked_budget_s(option, value_s), lambda failure: failure.message)


def run_seconds(value_s: float) -> float:
    """A run's deadline that leaves room for the cleanup behind it."""
    budget = provider_budget_s(seconds("--timeout", value_s), DEFAULT_CLEANUP_S)
    usable(budget, lambda failure: f"--timeout: {failure.message}")
    return value_s


def workdir(path: Path) -> Path:
    """The work directory, resolved: there, a directory, readable and writable."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - not resolved: a loop of links has its own sentence
    return usable(
        checked_workdir(str(absolute), base_directory()), lambda failure: f"--workdir: {failure.message}"
    )


def run_directory(out: Path | None, work: Path) -> Path:
    """Where the run's files go; refused inside the work directory, where the agent could write them."""
    path = (out or Path("clinebox-runs") / new_run_id()).resolve()
    if path.is_relative_to(work):
        hint = "give --out a place outside of it"
        raise CliError(f"--out: {str(path)!r} lies in the work directory {str(work)!r}: {hint}")
    return path


def sandbox(name: ProviderName, image: str | None) -> ProviderName:
    """A sandbox that something can run in, with an image exactly where one is needed."""
    if name is ProviderName.FAKE:
        raise CliError("--sandbox fake starts nothing: it is for tests of programs that use clinebox")
    if name.needs_image and not (image and image.strip()):
        raise CliError(f"--sandbox {name} needs --image IMAGE: what its container is made of")
    if image is not None and not name.needs_image:
        raise CliError(f"--image is for docker and podman; --sandbox {name} has none")
    return name


def provider_of(name: ProviderName) -> SandboxProvider:
    """The provider, or the sentence why there is none."""
    made = make_provider(name)
    if not is_successful(made):
        raise CliError(made.failure(), code=NO_SANDBOX)
    return made.unwrap()


def network(mode: NetworkMode, *, gateway: bool) -> NetworkMode:
    """A network that the model can be reached by."""
    if mode is NetworkMode.NONE:
        raise CliError("--network none: Cline could not reach its model; take --network gateway")
    if mode is NetworkMode.GATEWAY and not gateway:
        raise CliError("--network gateway needs the gateway: leave out --no-gateway")
    return mode


def tarball(path: Path | None) -> Path | None:
    """A given tarball that is a file; what is in it, the cache checks."""
    if path is not None and not path.is_file():
        raise CliError(f"--cline-tarball: there is no file {str(path)!r}")
    return path


def new_run_id() -> str:
    """A name that sorts by time and is not met twice."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def api_key(variable: str | None, environment: Mapping[str, str]) -> str | None:
    """The model's key from the environment variable that the user named; never from the command line."""
    if variable is None:
        return None
    key = environment.get(variable, "")
    if not key.strip():
        raise CliError(f"--api-key-env: the environment variable {variable!r} is not set, or is empty")
    if not (key.strip().isascii() and key.strip().isprintable()):
        raise CliError(f"--api-key-env: what {variable!r} holds cannot stand in an HTTP header")
    return key.strip()
