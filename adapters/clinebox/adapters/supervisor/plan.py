"""What a supervisor is told: the plan of a run, checked, and as the files of a session directory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from returns.result import Failure, Result, Success

from clinebox.adapters.supervisor.scripts import runner_script, supervisor_script
from clinebox.domain import session_files as names
from clinebox.domain.budgets import DEFAULT_CLEANUP_S, BudgetFailure, shell_seconds

DEFAULT_OUTPUT_LIMIT_BYTES: Final = 256 * 1024 * 1024
OUTPUT_LIMIT_CEILING_BYTES: Final = 10**18
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_READ_ONLY_VARIABLES: Final = frozenset(
    # bash(1), "Shell Variables": an assignment fails, so the harness would not be started.
    {"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"}
)


class SurvivorPolicy(StrEnum):
    """What becomes of services that the task left running when its harness ended by itself."""

    KEEP = "keep"
    """They are listed in the receipt, and die at close."""
    KILL = "kill"
    """They are ended before the receipt."""


@dataclass(frozen=True, slots=True)
class SupervisedPlan:
    """One run: what to start, and its bounds. `prompt` None gives the harness an empty stdin."""

    argv: tuple[str, ...]
    cwd: str
    run_timeout_s: float
    env: Mapping[str, str] = field(default_factory=dict)
    """Laid over the sandbox's own environment."""
    prompt: bytes | None = None
    cleanup_timeout_s: float = DEFAULT_CLEANUP_S
    """For each of the three phases."""
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES
    survivors: SurvivorPolicy = SurvivorPolicy.KEEP
    watched_files: tuple[str, ...] = ()
    """Further logs that count towards the output bound, where the sandbox has `stat` or `wc`."""


def plan_files(plan: SupervisedPlan, *, marker: str) -> Result[dict[str, bytes], str]:
    """The files of a session directory by name, all but the nonce.

    Failure(reason) when a value cannot be handed over: NUL anywhere, an empty argv, a variable whose name
    bash cannot export, a line end in a watched path, a budget or bound that is no usable number.
    """
    return _checked(plan).bind(
        lambda checked: _config(checked, marker).map(lambda config: _files(checked, config))
    )


def _files(plan: SupervisedPlan, config: bytes) -> dict[str, bytes]:
    files = {
        names.SUPERVISOR_SCRIPT: supervisor_script(),
        names.RUNNER_SCRIPT: runner_script(),
        names.SUPERVISOR_CONFIG: config,
        names.HARNESS_ARGV: _terminated(plan.argv),
        names.HARNESS_ENV: _terminated(f"{name}={value}" for name, value in plan.env.items()),
        names.HARNESS_CWD: _bytes(plan.cwd),
    }
    return files if plan.prompt is None else {**files, names.PROMPT: plan.prompt}


def _config(plan: SupervisedPlan, marker: str) -> Result[bytes, str]:
    return (
        shell_seconds("run timeout", plan.run_timeout_s)
        .bind(
            lambda run_s: shell_seconds("cleanup timeout", plan.cleanup_timeout_s).map(
                lambda cleanup_s: _config_lines(plan, marker, run_s, cleanup_s)
            )
        )
        .alt(_message)
    )


def _message(failure: BudgetFailure) -> str:
    return failure.message


def _config_lines(plan: SupervisedPlan, marker: str, run_s: str, cleanup_s: str) -> bytes:
    lines = [
        f"run_timeout_s={run_s}",
        f"cleanup_timeout_s={cleanup_s}",
        f"output_limit_bytes={plan.output_limit_bytes}",
        f"survivors={plan.survivors}",
        f"marker={marker}",
        *(f"watch={path}" for path in plan.watched_files),
    ]
    return _bytes("".join(f"{line}\n" for line in lines))


def _checked(plan: SupervisedPlan) -> Result[SupervisedPlan, str]:
    reason = next(_objections(plan), None)
    return Success(plan) if reason is None else Failure(reason)


def _objections(plan: SupervisedPlan) -> Iterator[str]:
    """Why the plan cannot be handed over; values of variables are never quoted, they may be secret."""
    if not plan.argv or not plan.argv[0]:
        yield "the harness's argv is empty: name a program"
    if not plan.cwd.startswith("/"):
        yield f"the harness's working directory is {plan.cwd!r}: give an absolute path"
    if any("\0" in text for text in (*plan.argv, plan.cwd)):
        yield "an argument or the working directory holds a NUL character"
    for name, value in plan.env.items():
        if not _VARIABLE_NAME.fullmatch(name) or name in _READ_ONLY_VARIABLES:
            yield f"the variable {name!r} cannot be exported by bash: leave it out"
        if "\0" in value:
            yield f"the value of the variable {name!r} holds a NUL character"
    if any("\0" in path or "\n" in path or not path.startswith("/") for path in plan.watched_files):
        yield "a watched file's path is not absolute, or holds a NUL or a line end"
    if not 0 < plan.output_limit_bytes < OUTPUT_LIMIT_CEILING_BYTES:
        yield f"the output bound is {plan.output_limit_bytes} bytes: give a number above 0 and below 10^18"


def _terminated(texts: Iterable[str]) -> bytes:
    return b"".join(_bytes(text) + b"\0" for text in texts)


def _bytes(text: str) -> bytes:
    """As the operating system names it: surrogates are the bytes that were not UTF-8 (PEP 383)."""
    return text.encode("utf-8", "surrogateescape")
