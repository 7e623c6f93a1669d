"""One run from request to outcome: fetch, start, activate, judge, verify, close; nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar
from urllib.parse import quote

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.run_directory.writer import RunDirectoryWriter
from clinebox.adapters.sandboxes.jail import finished as to_its_end
from clinebox.adapters.supervisor.client import Finished
from clinebox.domain import grading
from clinebox.domain.outcome.evidence import RequestedStop
from clinebox.domain.outcome.failed_step import FailedStep, sandbox_step, step_of
from clinebox.domain.outcome.model import Reason, StoppedBy
from clinebox.domain.outcome.policy import Verdict, decide
from clinebox.domain.ports import (
    ReadOnlyMount,
    SandboxDescription,
    SandboxFailure,
    SandboxProvider,
    SandboxSpec,
)
from clinebox.domain.receipt import CleanupReceipt
from clinebox.domain.shell import session_directory
from clinebox.entrypoints.agent_session import AgentSession, Verified
from clinebox.entrypoints.judge import Judgement, judge_run, judge_step
from clinebox.entrypoints.launching import launch_plan
from clinebox.entrypoints.model_access import DirectAccess, ModelAccess
from clinebox.entrypoints.observer import RunObserver
from clinebox.entrypoints.run_request import RunRequest

START_SANDBOX_S: Final = 60.0
LAST_LOOK_S: Final = 5.0
REACH_GATEWAY_S: Final = 10.0

_Value = TypeVar("_Value")

FetchRuntime: TypeAlias = Callable[
    [str, Callable[[int, int | None], None]], Awaitable[Result[str, FailedStep]]
]
"""The path of a Cline binary on this host, by version; reports bytes done and bytes in all."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What a run needs from the outside; wired in `bootstrap`."""

    provider: SandboxProvider
    fetch_runtime: FetchRuntime


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that ended, however it did; `verified` is None when no verifier ran."""

    request: RunRequest
    judgement: Judgement
    verdict: Verdict
    receipt: CleanupReceipt | None = None
    sandbox: SandboxDescription | None = None
    verified: Verified | None = None
    duration_s: float = 0.0
    requested_stop: RequestedStop | None = None
    """The stop that was asked for while anything of the run, its verifier included, went on."""
    notes: tuple[str, ...] = ()

    @property
    def reward(self) -> float | None:
        """The grade of a gradable run; None when there is none. Never a zero in place of one."""
        return None if self.verified is None else self.verified.grade.value_or(None)

    @property
    def verifier_error(self) -> str | None:
        """Why the verifier gave no reward."""
        if self.verified is None or is_successful(self.verified.grade):
            return None
        return self.verified.grade.failure().message


class AgentRun:
    """One request, run once. `request_stop` may be called at any time from the event loop."""

    def __init__(
        self,
        request: RunRequest,
        ports: Ports,
        writer: RunDirectoryWriter,
        observer: RunObserver,
        access: ModelAccess | None = None,
    ) -> None:
        """`access` is the run's way to its model (`gateway_host`); None: the model server itself."""
        self._request = replace(request, workdir=request.workdir.absolute())
        self._access = DirectAccess(request.model) if access is None else access
        self._ports = ports
        self._writer = writer
        self._observer = observer
        # It stands in an HTTP header and a label, and a directory may have any name.
        self._session_id = quote(writer.path.name, errors="surrogateescape")
        self._stop: RequestedStop | None = None
        self._stopping = asyncio.Event()
        self._session: AgentSession | None = None
        self._requests: set[asyncio.Task[bool]] = set()
        self._began = time.monotonic()
        self._judged: FinishedRun | None = None
        self._sandbox: SandboxDescription | None = None

    def request_stop(self, by: StoppedBy) -> None:
        """End the run as soon as it can be ended cleanly: with a receipt and a judgement."""
        if self._stop is not None:
            return
        self._stop = RequestedStop(by, time.time())
        self._stopping.set()
        if self._session is not None:
            task = asyncio.create_task(self._session.request_stop(by))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)

    async def execute(self) -> FinishedRun:
        """Run to the end; the sandbox is gone when this returns or raises."""
        self._began = time.monotonic()
        return self._ended(await self._fetch_and_run())

    def abandoned(self) -> FinishedRun:
        """What is left to say when `execute` was cancelled: the judgement if there is one, else the stop."""
        judged = self._judged or replace(self._not_activated(None), sandbox=self._sandbox)
        return self._ended(judged)

    def _ended(self, run: FinishedRun) -> FinishedRun:
        took_s = round(time.monotonic() - self._began, 3)
        return replace(run, duration_s=took_s, requested_stop=self._stop)

    async def _fetch_and_run(self) -> FinishedRun:
        version = self._request.cline_version
        self._observer.phase(f"getting Cline {version} ready")
        fetching = self._ports.fetch_runtime(version, self._observer.fetching)
        fetched = await self._unless_stopped(fetching)
        if fetched is None:
            return self._not_activated(None)
        if not is_successful(fetched):
            return self._not_activated(fetched.failure())
        self._observer.phase("starting the sandbox")
        spec = _sandbox_spec(self._request, self._session_id, fetched.unwrap(), self._access)
        started = await self._ports.provider.start(spec, timeout_s=START_SANDBOX_S)
        if not is_successful(started):
            return self._not_activated(sandbox_step(started.failure()))
        path = f"{started.unwrap().description.session_root}/s-{secrets.token_hex(6)}"
        session = AgentSession(started.unwrap(), session_directory(path).unwrap(), self._observer)
        return await self._run_and_close(session, path, fetched.unwrap())

    async def _run_and_close(self, session: AgentSession, path: str, binary: str) -> FinishedRun:
        """The close comes whatever happens, and is not cut short by any further interrupt.

        Not `asyncio.shield`: it gives way at once, and the end of the event loop then cancels the close.
        """
        closing: tuple[str, ...] = ()
        self._sandbox = session.sandbox.description
        try:
            self._judged = await self._in_session(session, path, binary)
        finally:
            launched, self._session = self._session is not None, None
            try:
                self._observer.phase("closing the sandbox")
            finally:
                closing = await to_its_end(self._close(session, launched=launched))
        return replace(self._judged, notes=(*self._judged.notes, *closing))

    async def _in_session(self, session: AgentSession, path: str, binary: str) -> FinishedRun:
        activated = await self._activate(session, path, binary)
        if not is_successful(activated):
            return replace(self._not_activated(activated.failure()), sandbox=session.sandbox.description)
        finished = activated.unwrap()
        self._observer.phase("judging the run")
        judgement = await self._judged_by(session, finished)
        verdict = decide(judgement.outcome)
        judged = FinishedRun(
            self._request,
            judgement,
            verdict,
            receipt=finished.receipt,
            sandbox=session.sandbox.description,
            notes=(*judgement.notes, *_beside(finished)),
        )
        return replace(judged, verified=await self._verify(session, judged, finished.receipt))

    async def _judged_by(self, session: AgentSession, finished: Finished | None) -> Judgement:
        return await judge_run(session, finished, self._writer, self._request, self._access, stop=self._stop)

    async def _close(self, session: AgentSession, *, launched: bool) -> tuple[str, ...]:
        try:
            if launched and self._judged is None:
                await self._judge_what_is_left(session)
        finally:
            self._access.end()
            problems = await session.close()
        return problems

    async def _judge_what_is_left(self, session: AgentSession) -> None:
        """A run that was cut off has no receipt; what its streams tell is kept, for a bounded time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_LOOK_S):
                judgement = await self._judged_by(session, None)
                verdict = decide(judgement.outcome)
                self._judged = FinishedRun(
                    self._request, judgement, verdict, sandbox=self._sandbox, notes=judgement.notes
                )

    async def _activate(self, session: AgentSession, path: str, binary: str) -> Result[Finished, FailedStep]:
        launch = launch_plan(
            self._request, self._access, session_dir=path, session_id=self._session_id, binary=binary
        )
        if not is_successful(launch):
            return Failure(launch.failure())
        reached = await self._gateway_reached(session)
        if not is_successful(reached):
            return Failure(reached.failure())
        prepared = await session.prepare(self._request, launch.unwrap())
        if not is_successful(prepared):
            return Failure(prepared.failure())
        self._session = session
        if self._stop is not None:
            await session.request_stop(self._stop.by)
        self._observer.phase("Cline is working")
        return await session.activate()

    async def _gateway_reached(self, session: AgentSession) -> Result[None, FailedStep]:
        """Asked from inside: what stands between is no fault of the model's (SPEC §11)."""
        url = self._access.gateway_url
        if url is None:
            return Success(None)
        # It brings the gateway, and so uvicorn and httpx, which a direct run need not import.
        from clinebox.adapters.gateway_reachability import reachable_from_inside  # noqa: PLC0415

        reached = await reachable_from_inside(session.sandbox, url, timeout_s=REACH_GATEWAY_S)
        if is_successful(reached):
            return Success(None)
        failure = reached.failure()
        if isinstance(failure, SandboxFailure):
            return Failure(sandbox_step(failure))
        return Failure(step_of(Reason.GATEWAY_UNREACHABLE, str(failure)))

    async def _verify(
        self, session: AgentSession, judged: FinishedRun, receipt: CleanupReceipt
    ) -> Verified | None:
        """Only a gradable run is graded, and only after its cleanup was confirmed (SPEC §13)."""
        self._judged = judged
        wanted = self._request.verification
        if wanted is None or not judged.verdict.gradable or not receipt.cleanup_confirmed:
            return None
        cut = Verified(grading.grade(grading.NotRun("a stop was asked for before it ended")), b"")
        self._judged = replace(judged, verified=cut)
        self._observer.phase("verifying")
        return await self._unless_stopped(session.verify(wanted, str(self._request.workdir))) or cut

    def _not_activated(self, step: FailedStep | None) -> FinishedRun:
        judgement = judge_step(step, self._request, self._stop)
        return FinishedRun(self._request, judgement, decide(judgement.outcome))

    async def _unless_stopped(self, work: Awaitable[_Value]) -> _Value | None:
        """The result, or None when a stop came first; what was going on is then cancelled and awaited."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            for task in (stopping, working):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working


def _sandbox_spec(request: RunRequest, session_id: str, binary: str, access: ModelAccess) -> SandboxSpec:
    return SandboxSpec(
        workdir=str(request.workdir),
        env=request.env,
        network=request.network,
        mounts=(ReadOnlyMount(binary, binary),),
        labels={**request.labels, "clinebox.agent": "cline", "clinebox.session": session_id},
        image=request.image,
        resources=request.resources,
        ttl_s=request.time_to_live_s,
        gateway=access.listens_at,
    )


def _beside(finished: Finished) -> tuple[str, ...]:
    failure = finished.provider_failure
    return () if failure is None else (f"beside the receipt, the sandbox reported: {failure.message}",)
