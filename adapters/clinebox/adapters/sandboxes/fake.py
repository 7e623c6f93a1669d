"""A sandbox in memory, for other people's tests: scripted answers, files, faults on demand.

It starts no process and touches no disk. A command is answered by the function given to the provider; without
one, every command is refused with BAD_REQUEST. Files, labels, the time to live, reaping, connecting and every
failure behave as the real providers' do: the conformance suite holds it to that.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.checks import problem_of_command, problem_of_environment, refused
from clinebox.adapters.sandboxes.fake_files import FakeFiles
from clinebox.domain.ports import (
    Command,
    ExecResult,
    GatewayRoute,
    NetworkMode,
    Reaped,
    ReapRule,
    ResourceUsage,
    Sandbox,
    SandboxDescription,
    SandboxDescriptor,
    SandboxFailure,
    SandboxSpec,
    SandboxState,
    SandboxStatus,
    SandboxTrouble,
)

PROVIDER: Final = "fake"
SESSION_ROOT: Final = "/fake/sessions"
LOGS_DIR: Final = "/logs"
LOOPBACK: Final = "127.0.0.1"


class Call(StrEnum):
    """Which call of the ports a fault is for."""

    START = "start"
    CONNECT = "connect"
    REAP = "reap"
    GATEWAY_ROUTE = "gateway_route"
    EXEC = "exec"
    UPLOAD = "upload"
    DOWNLOAD = "download"
    STOP = "stop"
    STATUS = "status"
    RESOURCE_USAGE = "resource_usage"


@dataclass(frozen=True, slots=True)
class Fault:
    """Fails the next `times` calls of one kind; the call then changes nothing."""

    call: Call
    trouble: SandboxTrouble
    message: str = "a fault of the test's own"
    times: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """How a scripted command ends. `takes_s` past the caller's timeout makes it time out, output kept."""

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    takes_s: float = 0.0
    output_truncated: bool = False


Script: TypeAlias = Callable[[Command, FakeFiles], Answer | SandboxFailure]
"""Answers a command; may read and write the sandbox's files."""


def no_programs(command: Command, files: FakeFiles) -> Answer | SandboxFailure:
    """Refuses every command."""
    del files
    message = f"This fake sandbox has no answer for {command.argv[0]!r}: give it a script."
    return SandboxFailure(SandboxTrouble.BAD_REQUEST, message)


@dataclass(slots=True, eq=False)
class _World:
    """What a provider and all its handles share of one sandbox."""

    sandbox_id: str
    spec: SandboxSpec
    started_s: float
    files: FakeFiles = field(default_factory=FakeFiles)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""

    @property
    def is_expired(self) -> bool:
        ttl_s = self.spec.ttl_s
        return ttl_s is not None and time.monotonic() >= self.started_s + ttl_s

    def end(self, reason: str) -> None:
        if not self.ended.is_set():
            self.reason = reason
            self.ended.set()

    def why_over(self) -> str | None:
        if self.is_expired:
            self.end("its time to live has passed")
        return f"Sandbox {self.sandbox_id} is over: {self.reason}." if self.ended.is_set() else None


class FakeSandbox:
    """A handle on a sandbox in memory."""

    def __init__(self, provider: FakeSandboxProvider, world: _World) -> None:
        self._provider = provider
        self.world = world
        self._is_disconnected = False
        self.commands: list[Command] = []
        """Every command that this handle was asked to run."""

    @property
    def description(self) -> SandboxDescription:
        """What it is: nothing that holds anything."""
        note = "in memory: no process is started and nothing is held"
        return SandboxDescription(PROVIDER, self.world.sandbox_id, PROVIDER, note, SESSION_ROOT, LOGS_DIR)

    @property
    def files(self) -> FakeFiles:
        """Its files, to be looked at and planted by a test."""
        return self.world.files

    async def exec(self, command: Command, *, timeout_s: float) -> Result[ExecResult, SandboxFailure]:
        """As the script says; LOST when the sandbox ends meanwhile."""
        problem = problem_of_command(command, timeout_s)
        if problem is not None:
            return refused(problem)
        if (unusable := self._unusable(Call.EXEC)) is not None:
            return Failure(unusable)
        self.commands.append(command)
        answer = self._provider.script(command, self.world.files)
        if isinstance(answer, SandboxFailure):
            return Failure(answer)
        timed_out = answer.takes_s > timeout_s
        if await self._ends_within(min(answer.takes_s, timeout_s)):
            return Failure(SandboxFailure(SandboxTrouble.LOST, self.world.why_over() or ""))
        return Success(
            ExecResult(
                exit_code=None if timed_out else answer.exit_code,
                stdout=answer.stdout,
                stderr=answer.stderr,
                output_truncated=answer.output_truncated,
                timed_out=timed_out,
                duration_s=min(answer.takes_s, timeout_s),
            )
        )

    async def _ends_within(self, seconds: float) -> bool:
        if seconds <= 0:
            return False
        spec = self.world.spec
        left_s = math.inf if spec.ttl_s is None else self.world.started_s + spec.ttl_s - time.monotonic()
        try:
            await asyncio.wait_for(self.world.ended.wait(), max(0.0, min(seconds, left_s)))
        except TimeoutError:
            return left_s < seconds
        return True

    async def upload(
        self, path: str, content: bytes, *, mode: int = 0o600, timeout_s: float
    ) -> Result[None, SandboxFailure]:
        """Keep a file."""
        del timeout_s
        unusable = self._unusable(Call.UPLOAD)
        return Failure(unusable) if unusable is not None else self.world.files.write(path, content, mode)

    async def download(
        self, path: str, *, offset_bytes: int = 0, limit_bytes: int, timeout_s: float
    ) -> Result[bytes, SandboxFailure]:
        """Give a part of a file."""
        del timeout_s
        unusable = self._unusable(Call.DOWNLOAD)
        if unusable is not None:
            return Failure(unusable)
        return self.world.files.read(path, offset_bytes, limit_bytes)

    async def stop(self, *, timeout_s: float) -> Result[None, SandboxFailure]:
        """End it; running commands answer LOST."""
        del timeout_s
        fault = self._provider.fault(Call.STOP) or self._refusal()
        if fault is not None:
            return Failure(fault)
        self._provider.remove(self.world, "it was stopped")
        return Success(None)

    async def disconnect(self) -> None:
        """Let go of it."""
        self._is_disconnected = True

    async def status(self, *, timeout_s: float) -> Result[SandboxStatus, SandboxFailure]:
        """RUNNING until it is stopped, reaped or expired."""
        del timeout_s
        failure = self._provider.fault(Call.STATUS) or self._refusal()
        if failure is not None:
            return Failure(failure)
        over = self.world.why_over()
        state = SandboxState.RUNNING if over is None else SandboxState.STOPPED
        return Success(SandboxStatus(state, over or ""))

    async def resource_usage(self, *, timeout_s: float) -> Result[ResourceUsage, SandboxFailure]:
        """Nothing is measured."""
        del timeout_s
        unusable = self._unusable(Call.RESOURCE_USAGE)
        return Success(ResourceUsage(None, None)) if unusable is None else Failure(unusable)

    def _refusal(self) -> SandboxFailure | None:
        if not self._is_disconnected:
            return None
        message = f"This handle on sandbox {self.world.sandbox_id} was disconnected; connect to it again."
        return SandboxFailure(SandboxTrouble.BAD_REQUEST, message)

    def _unusable(self, call: Call) -> SandboxFailure | None:
        failure = self._refusal()
        if failure is None and (over := self.world.why_over()) is not None:
            failure = SandboxFailure(SandboxTrouble.LOST, over)
        return failure or self._provider.fault(call)


class FakeSandboxProvider:
    """Starts sandboxes in memory; descriptors lead back to them within this provider."""

    def __init__(self, script: Script = no_programs, faults: Iterable[Fault] = ()) -> None:
        """`script` answers commands; `faults` are used up in their order. More may come by `fail_next`."""
        self.script = script
        self._faults: list[Fault] = [one for each in faults for one in itertools.repeat(each, each.times)]
        self._worlds: dict[str, _World] = {}
        self._numbers = itertools.count(1)

    def fail_next(
        self, call: Call, trouble: SandboxTrouble, message: str = "a fault of the test's own"
    ) -> None:
        """The next call of this kind, at any handle, fails so."""
        self._faults.append(Fault(call, trouble, message))

    def fault(self, call: Call) -> SandboxFailure | None:
        """The fault that waits for a call, used up by this."""
        found = next((each for each in self._faults if each.call is call), None)
        if found is None:
            return None
        self._faults.remove(found)
        return SandboxFailure(found.trouble, found.message)

    def lose(self, sandbox: Sandbox) -> None:
        """End a sandbox as a vanished engine would: every handle answers LOST."""
        world = self._worlds.get(sandbox.description.sandbox_id)
        if world is not None:
            self.remove(world, "its engine has vanished")

    def remove(self, world: _World, reason: str) -> None:
        """Forget a sandbox and wake what waits in it."""
        world.end(reason)
        self._worlds.pop(world.sandbox_id, None)

    @property
    def sandboxes(self) -> tuple[str, ...]:
        """The ids of all that are not ended."""
        return tuple(name for name, world in self._worlds.items() if world.why_over() is None)

    async def gateway_route(
        self, network: NetworkMode, *, timeout_s: float
    ) -> Result[GatewayRoute, SandboxFailure]:
        """The host's loopback, though nothing inside can connect."""
        del timeout_s
        if network is NetworkMode.NONE:
            return refused("Nothing can be reached with the network mode 'none'.")
        fault = self.fault(Call.GATEWAY_ROUTE)
        return Success(GatewayRoute(LOOPBACK, LOOPBACK)) if fault is None else Failure(fault)

    async def start(self, spec: SandboxSpec, *, timeout_s: float) -> Result[Sandbox, SandboxFailure]:
        """A new one, without a file in it."""
        del timeout_s
        problem = problem_of_environment(spec.env) or _problem_of(spec)
        if problem is not None:
            return refused(problem)
        if (fault := self.fault(Call.START)) is not None:
            return Failure(fault)
        world = _World(f"fake-{next(self._numbers)}", spec, time.monotonic())
        self._worlds[world.sandbox_id] = world
        return Success(FakeSandbox(self, world))

    def serialize(self, sandbox: Sandbox) -> Result[SandboxDescriptor, SandboxFailure]:
        """Its id."""
        if not isinstance(sandbox, FakeSandbox):
            return refused(f"{sandbox.description.sandbox_id} is no fake sandbox.")
        return Success(SandboxDescriptor(PROVIDER, {"id": sandbox.world.sandbox_id}))

    async def connect(
        self, descriptor: SandboxDescriptor, *, timeout_s: float
    ) -> Result[Sandbox, SandboxFailure]:
        """Another handle on one of this provider's sandboxes."""
        del timeout_s
        if descriptor.provider != PROVIDER:
            return refused(f"This descriptor of {descriptor.provider!r} is none of a fake sandbox.")
        if (fault := self.fault(Call.CONNECT)) is not None:
            return Failure(fault)
        world = self._worlds.get(descriptor.fields.get("id", ""))
        if world is None or world.why_over() is not None:
            message = f"There is no running sandbox {descriptor.fields.get('id', '')!r}."
            return Failure(SandboxFailure(SandboxTrouble.NOT_FOUND, message))
        return Success(FakeSandbox(self, world))

    async def reap(self, rule: ReapRule, *, timeout_s: float) -> Result[tuple[Reaped, ...], SandboxFailure]:
        """Remove this provider's sandboxes by label."""
        del timeout_s
        if (fault := self.fault(Call.REAP)) is not None:
            return Failure(fault)
        found = [each for each in self._worlds.values() if _answers(each, rule)]
        if not rule.dry_run:
            for each in found:
                self.remove(each, "it was reaped")
        return Success(tuple(Reaped(each.sandbox_id, each.spec.labels) for each in found))


def _answers(world: _World, rule: ReapRule) -> bool:
    labels: Mapping[str, str] = world.spec.labels
    carries = all(labels.get(name) == value for name, value in rule.labels.items())
    return carries and (world.is_expired or not rule.expired_only)


def _problem_of(spec: SandboxSpec) -> str | None:
    if spec.ttl_s is not None and not (math.isfinite(spec.ttl_s) and spec.ttl_s > 0):
        return f"The time to live must be a positive number, not {spec.ttl_s}."
    if spec.network is NetworkMode.GATEWAY and spec.gateway is None:
        return "The network mode 'gateway' needs the gateway's address."
    return None
