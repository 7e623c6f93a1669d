"""The supervisor from outside: prepared, run to a receipt, stopped, removed, over the `Sandbox` port."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.supervisor.aftermath import Aftermath, lost_receipt, read_aftermath, reaper_command
from clinebox.adapters.supervisor.plan import SupervisedPlan, plan_files
from clinebox.domain import session_files as names
from clinebox.domain.budgets import CLEANUP_PHASES, provider_budget_s
from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.ports import Command, ExecResult, Sandbox, SandboxFailure
from clinebox.domain.receipt import (
    RECEIPT_LIMIT_BYTES,
    CleanupReceipt,
    parse_cleanup_receipt,
    render_cleanup_receipt,
)
from clinebox.domain.shell import (
    SessionDirectory,
    ShellExit,
    StopAnswer,
    expire_text,
    launch_text,
    remove_text,
    stop_text,
    wake_text,
)

CONTROL_TIMEOUT_S: Final = 15.0
"""For each small step: an upload, a request, a look."""
FENCE_PATIENCE_S: Final = 5.0
"""Between a stop's claim and its receipt."""
POLL_S: Final = 0.1
WAKE_S: Final = 2.0
"""After the deadline, and again."""
DEADLINE_TOLERANCE_S: Final = 1.0
"""A receipt's times are the wall clock's, which may be set; the deadline itself is monotonic."""
STDERR_LIMIT_BYTES: Final = 2_000


class SupervisorTrouble(StrEnum):
    """Which step failed. None of them leaves a process of the run behind."""

    BAD_PLAN = "bad_plan"
    BOOTSTRAP = "bootstrap"
    """bash is missing or too old there, or cannot parse the supervisor."""
    NOT_WRITABLE = "not_writable"
    """The session directory is missing or cannot be written."""
    LAUNCHED_BEFORE = "launched_before"
    """Another launch made the claim; this session directory is used up."""
    SANDBOX = "sandbox"


@dataclass(frozen=True, slots=True)
class SupervisorFailure:
    """Why a step could not be done, in a sentence; `sandbox` is the provider's own failure."""

    trouble: SupervisorTrouble
    message: str
    sandbox: SandboxFailure | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """A run with its receipt. `provider_failure` was observed beside it: both facts stand."""

    receipt: CleanupReceipt
    provider_failure: SandboxFailure | None = None


class SupervisorClient:
    """One session directory's supervisor. `prepare`, then `run` once; `request_stop` at any time.

    Await `run` to its end: to stop early, call `request_stop` beside it. A cancelled `run` waits for no
    receipt; follow it with `request_stop` and `end_leftovers`.
    """

    def __init__(self, sandbox: Sandbox, session_dir: SessionDirectory) -> None:
        self._sandbox = sandbox
        self._dir = session_dir
        self._nonce = secrets.token_hex(16)
        self._marker = secrets.token_hex(16)
        self._plan: SupervisedPlan | None = None
        self._asked: set[StoppedBy] = set()
        self._uploads = asyncio.Lock()

    @property
    def marker(self) -> str:
        """What every process of the run carries as CLINEBOX_SUPERVISOR."""
        return self._marker

    async def prepare(self, plan: SupervisedPlan) -> Result[None, SupervisorFailure]:
        """Upload scripts, configuration, arguments, prompt and nonce. Failure: BAD_PLAN or SANDBOX."""
        files = plan_files(plan, marker=self._marker)
        if not is_successful(files):
            return Failure(SupervisorFailure(SupervisorTrouble.BAD_PLAN, files.failure()))
        async with self._uploads:
            for name, content in {**files.unwrap(), names.NONCE: self._nonce.encode() + b"\n"}.items():
                uploaded = await self._upload(name, content)
                if not is_successful(uploaded):
                    return uploaded
            self._plan = plan
        return Success(None)

    async def run(self) -> Result[Finished, SupervisorFailure]:
        """Launch, wait for the end, and read the receipt; where none came, find out and write a negative one.

        Failure only when nothing of the run was started.
        """
        plan = self._plan
        if plan is None:
            return Failure(SupervisorFailure(SupervisorTrouble.BAD_PLAN, "run: call prepare first"))
        budget = provider_budget_s(plan.run_timeout_s, plan.cleanup_timeout_s)
        if not is_successful(budget):
            return Failure(SupervisorFailure(SupervisorTrouble.BAD_PLAN, budget.failure().message))
        launched = await self._launch(plan, budget.unwrap())
        if is_successful(launched):
            return await self._after_exec(plan, launched.unwrap())
        return Success(await self._without_answer(plan, launched.failure(), timed_out=False))

    async def _launch(self, plan: SupervisedPlan, budget_s: float) -> Result[ExecResult, SandboxFailure]:
        waking = asyncio.create_task(self._wake_late(plan.run_timeout_s))
        try:
            return await self._sandbox.exec(self._bash(launch_text(self._dir)), timeout_s=budget_s)
        finally:
            waking.cancel()
            await asyncio.wait({waking})

    async def _wake_late(self, run_timeout_s: float) -> None:
        """Past the deadline, wake a supervisor that the agent stopped (SIGSTOP): it ends the run itself."""
        while True:
            await asyncio.sleep(run_timeout_s + WAKE_S)
            await self._control("wake", wake_text(self._dir))
            run_timeout_s = 0

    async def request_stop(self, by: StoppedBy) -> Result[StopAnswer, SupervisorFailure]:
        """Ask for the end, also before or during the launch. The receipt says what came of it."""
        self._asked.add(by)
        return await self._place_stop(by)

    async def _place_stop(self, by: StoppedBy) -> Result[StopAnswer, SupervisorFailure]:
        async with self._uploads:
            if self._plan is None:
                uploaded = await self._upload(names.NONCE, self._nonce.encode() + b"\n")
                if not is_successful(uploaded):
                    return Failure(uploaded.failure())
            answer = await self._control("stop", stop_text(self._dir, by))
        return answer.bind(_stop_answer)

    async def request_expire(self) -> Result[None, SupervisorFailure]:
        """Time the run out now, as its deadline would."""
        self._asked.add(StoppedBy.DEADLINE)
        return (await self._control("expire", expire_text(self._dir))).map(_nothing)

    async def read_receipt(self) -> Result[CleanupReceipt, str]:
        """The receipt that lies in the session directory, if it is the supervisor's own (by its nonce)."""
        downloaded = await self._download(names.RECEIPT, RECEIPT_LIMIT_BYTES + 1)
        return downloaded.alt(_sandbox_message).bind(self._parse)

    async def look(self) -> Result[Aftermath, SupervisorFailure]:
        """Whether the supervisor is alive, and what of the run is; ends nothing."""
        return await self._aftermath("look")

    async def end_leftovers(self) -> Result[Aftermath, SupervisorFailure]:
        """End the supervisor and everything that carries the marker: for close."""
        return await self._aftermath("end")

    async def remove(self) -> Result[None, SupervisorFailure]:
        """Retire the session directory by one rename, then delete it; what cannot be, stays retired."""
        return (await self._control("remove", remove_text(self._dir))).map(_nothing)

    async def _after_exec(
        self, plan: SupervisedPlan, launched: ExecResult
    ) -> Result[Finished, SupervisorFailure]:
        """The receipt from the supervisor's own stdout first: nothing else in the sandbox writes there."""
        printed = self._parse(launched.stdout.rstrip(b"\n").rpartition(b"\n")[2])
        if is_successful(printed):
            return Success(Finished(self._doubted(printed.unwrap())))
        match launched.exit_code:
            case ShellExit.BAD_BOOTSTRAP | 126 | 127:
                return Failure(
                    _refused(SupervisorTrouble.BOOTSTRAP, "bash cannot run the supervisor", launched)
                )
            case ShellExit.CANNOT_WRITE:
                return Failure(
                    _refused(
                        SupervisorTrouble.NOT_WRITABLE, f"nothing was launched in {self._dir!r}", launched
                    )
                )
            case ShellExit.FENCED:
                return await self._fenced()
            case _:
                return Success(await self._without_answer(plan, None, timed_out=launched.timed_out))

    async def _fenced(self) -> Result[Finished, SupervisorFailure]:
        """A stop won the claim: its receipt follows the claim by a moment. Or another launch did."""
        claim = (await self._download(names.LAUNCH_CLAIM, 64)).value_or(b"")
        receipt = await self._await_receipt(FENCE_PATIENCE_S) if claim.startswith(b"stop") else None
        if receipt is not None:
            return Success(Finished(receipt))
        message = f"{self._dir!r} was launched before: use a new session directory"
        return Failure(SupervisorFailure(SupervisorTrouble.LAUNCHED_BEFORE, message))

    async def _without_answer(
        self, plan: SupervisedPlan, provider: SandboxFailure | None, *, timed_out: bool
    ) -> Finished:
        """The exec call brought no receipt: a file may, or a live supervisor; else find out and say so."""
        on_disk = await self.read_receipt()
        if is_successful(on_disk):
            return Finished(self._doubted(on_disk.unwrap()), provider)
        seen = (await self.look()).value_or(None)
        if seen is not None and seen.supervisor_alive:
            # Without a timeout nobody of ours wants the end: the exec call broke, and the receipt must not
            # tell of a stop. So this stop is placed and not counted as asked for.
            await (self.request_expire() if timed_out else self._place_stop(StoppedBy.OPERATOR))
            receipt = await self._await_receipt(CLEANUP_PHASES * plan.cleanup_timeout_s + CONTROL_TIMEOUT_S)
            if receipt is not None:
                return Finished(self._doubted(receipt), provider)
        ended = await self.end_leftovers()
        receipt = lost_receipt(ended.alt(_failure_message), refused=on_disk.failure(), nonce=self._nonce)
        await self._upload(names.RECEIPT, render_cleanup_receipt(receipt))
        return Finished(receipt, provider)

    async def _await_receipt(self, patience_s: float) -> CleanupReceipt | None:
        give_up = time.monotonic() + patience_s
        while True:
            receipt = await self.read_receipt()
            if is_successful(receipt):
                return receipt.unwrap()
            if time.monotonic() >= give_up:
                return None
            await asyncio.sleep(POLL_S)

    async def _aftermath(self, mode: str) -> Result[Aftermath, SupervisorFailure]:
        """Runs the reaper from stdin, so that nothing in the sandbox can have changed it."""
        bound_s = self._plan.cleanup_timeout_s if self._plan is not None else CONTROL_TIMEOUT_S
        identity = (await self._download(names.SUPERVISOR_PID, 64)).value_or(b"")
        command = reaper_command(mode, marker=self._marker, bound_s=bound_s, identity=identity)
        answer = await self._sandbox.exec(command, timeout_s=bound_s + CONTROL_TIMEOUT_S)
        return answer.alt(_of_sandbox("reap")).bind(_aftermath_of)

    async def _control(self, step: str, text: str) -> Result[bytes, SupervisorFailure]:
        answer = await self._sandbox.exec(self._bash(text), timeout_s=CONTROL_TIMEOUT_S)
        return answer.alt(_of_sandbox(step)).bind(lambda result: _output(step, result))

    async def _upload(self, name: str, content: bytes) -> Result[None, SupervisorFailure]:
        uploaded = await self._sandbox.upload(f"{self._dir}/{name}", content, timeout_s=CONTROL_TIMEOUT_S)
        return uploaded.alt(_of_sandbox(f"upload of {name}"))

    async def _download(self, name: str, limit_bytes: int) -> Result[bytes, SandboxFailure]:
        path = f"{self._dir}/{name}"
        return await self._sandbox.download(path, limit_bytes=limit_bytes, timeout_s=CONTROL_TIMEOUT_S)

    def _parse(self, payload: bytes) -> Result[CleanupReceipt, str]:
        return parse_cleanup_receipt(payload, expected_nonce=self._nonce).alt(lambda failure: failure.message)

    def _doubted(self, receipt: CleanupReceipt) -> CleanupReceipt:
        """Without a stop that nobody asked for here: the agent can write a request, or signal the supervisor.

        It ended its own run then, and "nobody of ours ended it" is the truth (SPEC §2, no_run_result).
        """
        by = receipt.stopped_by
        if by is None or by is StoppedBy.OUTPUT_LIMIT or by in self._asked or self._was_due(receipt):
            return receipt
        note = f"the receipt names a stop ({by}) that this client did not ask for"
        return replace(receipt, stopped_by=None, timed_out=False, notes=(*receipt.notes, note))

    def _was_due(self, receipt: CleanupReceipt) -> bool:
        """Whether the deadline had come; a receipt without times is believed."""
        if receipt.stopped_by is not StoppedBy.DEADLINE or self._plan is None:
            return False
        if receipt.started_at is None or receipt.ended_at is None:
            return True
        return receipt.ended_at - receipt.started_at >= self._plan.run_timeout_s - DEADLINE_TOLERANCE_S

    @staticmethod
    def _bash(text: str) -> Command:
        return Command(argv=("bash", "-p", "-c", text))


def _stop_answer(output: bytes) -> Result[StopAnswer, SupervisorFailure]:
    word = output.decode("utf-8", "replace").strip()
    found = next((answer for answer in StopAnswer if answer.value == word), None)
    if found is not None:
        return Success(found)
    return Failure(SupervisorFailure(SupervisorTrouble.SANDBOX, f"stop: unexpected answer {word[:80]!r}"))


def _output(step: str, result: ExecResult) -> Result[bytes, SupervisorFailure]:
    if result.exit_code == 0:
        return Success(result.stdout)
    trouble = (
        SupervisorTrouble.NOT_WRITABLE
        if result.exit_code == ShellExit.CANNOT_WRITE
        else SupervisorTrouble.SANDBOX
    )
    return Failure(_refused(trouble, f"{step} did not succeed", result))


def _aftermath_of(result: ExecResult) -> Result[Aftermath, SupervisorFailure]:
    return _output("reap", result).bind(
        lambda output: read_aftermath(output).alt(
            lambda reason: SupervisorFailure(SupervisorTrouble.SANDBOX, f"reap: {reason}")
        )
    )


def _refused(trouble: SupervisorTrouble, what: str, result: ExecResult) -> SupervisorFailure:
    end = "timed out" if result.timed_out else f"exit code {result.exit_code}"
    why = result.stderr[:STDERR_LIMIT_BYTES].decode("utf-8", "replace").strip()
    return SupervisorFailure(trouble, f"{what} ({end}){': ' + why if why else ''}")


def _of_sandbox(step: str) -> Callable[[SandboxFailure], SupervisorFailure]:
    return lambda failure: SupervisorFailure(SupervisorTrouble.SANDBOX, f"{step}: {failure.message}", failure)


def _sandbox_message(failure: SandboxFailure) -> str:
    return failure.message


def _failure_message(failure: SupervisorFailure) -> str:
    return failure.message


def _nothing(_: object) -> None:
    return None
