"""A check, its three possible results, and the bench that it works at."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from returns.pipeline import is_successful
from returns.result import Result

from clinebox.domain.ports import (
    Command,
    ExecResult,
    ReapRule,
    Sandbox,
    SandboxFailure,
    SandboxProvider,
    SandboxSpec,
    SandboxTrouble,
)

T = TypeVar("T")
LABEL: Final = "clinebox.conformance"
POLL_S: Final = 0.05
NOT_OFFERED: Final = frozenset({SandboxTrouble.BAD_REQUEST, SandboxTrouble.UNAVAILABLE})


class Verdict(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_OFFERED = "not offered"
    """The provider refused with a sentence (BAD_REQUEST, UNAVAILABLE), or its note says so. Not a pass."""


class CheckFailedError(Exception):
    """Ends a check: the provider broke a promise. The text says which, with the value seen."""


class NotOfferedError(Exception):
    """Ends a check: the provider says that it cannot do this. The text is its own sentence."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check's result, for people and programs."""

    name: str
    proves: str
    verdict: Verdict
    message: str = ""
    """What was seen instead, or the provider's own sentence; "" for a pass."""
    advice: str = ""
    """What to do; "" for a pass."""
    duration_s: float = 0.0


def expect(truth: object, what: str) -> None:
    """Go on only if it holds; `what` tells what was seen instead."""
    if not truth:
        raise CheckFailedError(what)


def offered(result: Result[T, SandboxFailure]) -> T:
    """The value; a refusal means `not offered`, any other failure that the check failed."""
    if is_successful(result):
        return result.unwrap()
    failure = result.failure()
    if failure.trouble in NOT_OFFERED:
        raise NotOfferedError(failure.message)
    raise CheckFailedError(f"{failure.trouble}: {failure.message}")


def expect_trouble(result: Result[T, SandboxFailure], *wanted: SandboxTrouble) -> None:
    """Go on only if it failed in one of these ways, with a sentence."""
    expect(not is_successful(result), f"expected {' or '.join(wanted)}, got {result}")
    failure = result.failure()
    expect(failure.trouble in wanted, f"expected {' or '.join(wanted)}, got {failure}")
    expect(failure.message, f"{failure.trouble} came without a sentence")


@dataclass(frozen=True, slots=True)
class Bench:
    """What a check works with: the provider, a request that it can serve, and names of its own."""

    provider: SandboxProvider
    spec: SandboxSpec
    timeout_s: float = 60.0
    """For each single call."""
    is_full: bool = False
    token: str = field(default_factory=lambda: secrets.token_hex(6))

    @property
    def labels(self) -> dict[str, str]:
        """By which this bench's sandboxes are found again."""
        return {**self.spec.labels, LABEL: self.token}

    @contextlib.asynccontextmanager
    async def sandbox(self, spec: SandboxSpec | None = None) -> AsyncIterator[Sandbox]:
        """A started sandbox, stopped at the end whatever happens."""
        wanted = replace(spec or self.spec, labels=self.labels)
        sandbox = offered(await self.provider.start(wanted, timeout_s=self.timeout_s))
        try:
            yield sandbox
        finally:
            await sandbox.stop(timeout_s=self.timeout_s)

    async def run(
        self, sandbox: Sandbox, script: str, *words: str, stdin: bytes = b"", timeout_s: float | None = None
    ) -> ExecResult:
        """A script of the plain Bourne shell, to its end."""
        command = Command(("sh", "-c", script, "sh", *words), stdin=stdin)
        return offered(await sandbox.exec(command, timeout_s=timeout_s or self.timeout_s))

    def place(self, sandbox: Sandbox, name: str) -> str:
        """A path of this check's own."""
        return f"{sandbox.description.session_root}/check-{self.token}/{name}"

    async def put(self, sandbox: Sandbox, path: str, content: bytes, mode: int = 0o600) -> None:
        """Upload, or end the check."""
        offered(await sandbox.upload(path, content, mode=mode, timeout_s=self.timeout_s))

    async def get(self, sandbox: Sandbox, path: str, offset: int = 0, limit: int = 1 << 30) -> bytes:
        """Download, or end the check."""
        return offered(
            await sandbox.download(path, offset_bytes=offset, limit_bytes=limit, timeout_s=self.timeout_s)
        )

    async def appears(self, sandbox: Sandbox, path: str) -> bytes:
        """Wait until a file is there and holds a whole line; its content."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            got = await sandbox.download(path, limit_bytes=1 << 20, timeout_s=self.timeout_s)
            if is_successful(got) and got.unwrap().endswith(b"\n"):
                return got.unwrap()
            expect(time.monotonic() < deadline, f"{path} did not appear within {self.timeout_s:g} s")
            await asyncio.sleep(POLL_S)

    async def ends(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait until a condition holds, at most `timeout_s`."""
        deadline = time.monotonic() + self.timeout_s
        while not await condition():
            expect(time.monotonic() < deadline, f"still not after {self.timeout_s:g} s: {what}")
            await asyncio.sleep(POLL_S)

    async def lives(self, sandbox: Sandbox, pid: str) -> bool:
        """Whether a process inside runs; a zombie does not."""
        script = '[ -d "/proc/$1" ] && ! grep -q "^State:.Z" "/proc/$1/status" 2>/dev/null'
        return (await self.run(sandbox, script, pid)).exit_code == 0

    async def found(self) -> tuple[str, ...]:
        """The ids of this bench's sandboxes that the provider still knows."""
        rule = ReapRule(labels={LABEL: self.token}, expired_only=False, dry_run=True)
        return tuple(
            each.sandbox_id for each in offered(await self.provider.reap(rule, timeout_s=self.timeout_s))
        )


CheckFunction: TypeAlias = Callable[[Bench], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Check:
    """A small experiment: what it proves, and what to do when it fails."""

    name: str
    proves: str
    advice: str
    run: CheckFunction
    is_heavy: bool = False
    """Takes seconds or much memory; left out unless asked for."""
