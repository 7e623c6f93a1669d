"""One session over the ports: prepare, one activation, verify, close (SPEC §1). No HTTP, no terminal."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.supervisor.client import Finished, SupervisorClient, SupervisorFailure
from clinebox.adapters.supervisor.plan import SupervisedPlan
from clinebox.domain import grading, session_files
from clinebox.domain.cline.launch import CLINE_LOG, LaunchPlan
from clinebox.domain.cline.stream import StreamDecoder
from clinebox.domain.outcome.failed_step import FailedStep, sandbox_step, step_of
from clinebox.domain.outcome.model import Reason, StoppedBy
from clinebox.domain.ports import Command, ExecResult, Sandbox, SandboxFailure, SandboxTrouble
from clinebox.domain.shell import SessionDirectory
from clinebox.entrypoints.observer import Progress, RunObserver
from clinebox.entrypoints.run_request import RunRequest, Verification

SMALL_STEP_S: Final = 30.0
STOP_SANDBOX_S: Final = 30.0
POLL_S: Final = 0.3
POLL_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Verified:
    """What the verifier said: a reward or why there is none, and what it printed."""

    grade: Result[float, grading.VerifierError]
    output: bytes


class AgentSession:
    """A session in a started sandbox: `prepare`, `activate` once, `verify`, `close`."""

    def __init__(self, sandbox: Sandbox, directory: SessionDirectory, observer: RunObserver) -> None:
        self._sandbox = sandbox
        self._directory = directory
        self._observer = observer
        self._client = SupervisorClient(sandbox, directory)

    @property
    def sandbox(self) -> Sandbox:
        """Where the session lives."""
        return self._sandbox

    def path(self, name: str) -> str:
        """A file of the session directory, inside the sandbox."""
        return f"{self._directory}/{name}"

    async def prepare(self, request: RunRequest, launch: LaunchPlan) -> Result[None, FailedStep]:
        """Write Cline's settings and the supervisor's files, and read the settings back.

        Failure when the sandbox refuses a file, or gives back other settings than were written.
        """
        for file in launch.files:
            uploaded = await self._sandbox.upload(
                file.path, file.content, mode=file.mode, timeout_s=SMALL_STEP_S
            )
            if not is_successful(uploaded):
                return Failure(sandbox_step(uploaded.failure()))
        checked = await self._settings_arrived(launch)
        if not is_successful(checked):
            return checked
        log = self.path(CLINE_LOG)
        prepared = await self._client.prepare(_plan(request, launch, log))
        return prepared.alt(_supervisor_step)

    async def activate(self) -> Result[Finished, FailedStep]:
        """Run the harness to its receipt, telling the observer what its stream shows.

        Failure only when nothing was started.
        """
        watching = asyncio.create_task(self._watch())
        try:
            return (await self._client.run()).alt(_supervisor_step)
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def request_stop(self, by: StoppedBy) -> bool:
        """Ask the supervisor for the end; False when the request could not be placed."""
        return is_successful(await self._client.request_stop(by))

    async def verify(self, request: Verification, cwd: str) -> Verified:
        """Run the operator's command after a confirmed cleanup; the reward path is emptied first."""
        rewards = f"{self._sandbox.description.logs_dir}/verifier"
        emptied = await self._sandbox.exec(
            Command(argv=("bash", "-c", 'rm -rf -- "$1" && mkdir -p -- "$1"', "reward-path", rewards)),
            timeout_s=SMALL_STEP_S,
        )
        problem = _problem(emptied, "the reward path could not be emptied")
        if problem is not None:
            return Verified(grading.grade(grading.NotRun(problem)), b"")
        command = Command(argv=("bash", "-c", request.command), cwd=cwd, env={"CLINEBOX_LOGS_DIR": rewards})
        ended = await self._sandbox.exec(command, timeout_s=request.timeout_s)
        grade = grading.grade(
            _verifier_end(ended, request.timeout_s),
            reward_txt=await self._reward_file(f"{rewards}/reward.txt"),
            reward_json=await self._reward_file(f"{rewards}/reward.json"),
        )
        output = ended.map(lambda result: result.stdout + result.stderr).value_or(b"")
        return Verified(grade, output)

    async def close(self) -> tuple[str, ...]:
        """Remove the session directory and stop the sandbox; what could not be done, in sentences."""
        removed = await self._client.remove()
        stopped = await self._sandbox.stop(timeout_s=STOP_SANDBOX_S)
        problems = [] if is_successful(removed) else [removed.failure().message]
        if not is_successful(stopped):
            problems.append(stopped.failure().message)
        return tuple(problems) if not is_successful(stopped) else ()

    async def _settings_arrived(self, launch: LaunchPlan) -> Result[None, FailedStep]:
        """Cline takes a settings file that it cannot read for an empty one, and calls another provider."""
        for file in launch.files:
            read = await self._sandbox.download(
                file.path, limit_bytes=len(file.content) + 1, timeout_s=SMALL_STEP_S
            )
            if read.value_or(None) != file.content:
                name = file.path.rpartition("/")[2]
                return Failure(
                    step_of(Reason.HARNESS_SETUP, f"{name} was written and not read back as written")
                )
        return Success(None)

    async def _watch(self) -> None:
        decoder, progress, offset = StreamDecoder(), Progress(), 0
        while True:
            read = await self._sandbox.download(
                self.path(session_files.STDOUT),
                offset_bytes=offset,
                limit_bytes=POLL_BYTES,
                timeout_s=SMALL_STEP_S,
            )
            chunk = read.value_or(b"")
            offset += len(chunk)
            for record in decoder.feed(chunk):
                progress = progress.after(record)
            self._observer.progress(progress)
            if len(chunk) < POLL_BYTES:
                await asyncio.sleep(POLL_S)

    async def _reward_file(self, path: str) -> bytes | None:
        limit = grading.REWARD_LIMIT_BYTES + 1
        read = await self._sandbox.download(path, limit_bytes=limit, timeout_s=SMALL_STEP_S)
        return _reward_content(read)


def _plan(request: RunRequest, launch: LaunchPlan, cline_log: str) -> SupervisedPlan:
    return SupervisedPlan(
        argv=launch.argv,
        cwd=str(request.workdir),
        run_timeout_s=request.timeout_s,
        env=launch.env,
        prompt=launch.prompt,
        cleanup_timeout_s=request.cleanup_timeout_s,
        survivors=request.survivors,
        watched_files=(cline_log,),
    )


def _supervisor_step(failure: SupervisorFailure) -> FailedStep:
    if failure.sandbox is not None:
        return sandbox_step(failure.sandbox)
    return step_of(Reason.SANDBOX, failure.message)


def _reward_content(read: Result[bytes, SandboxFailure]) -> bytes | None:
    """No file is no reward; a file that cannot be read (a pipe, a link) is a malformed one."""
    if is_successful(read):
        return read.unwrap()
    return None if read.failure().trouble is SandboxTrouble.NOT_FOUND else b""


def _verifier_end(ended: Result[ExecResult, SandboxFailure], limit_s: float) -> grading.VerifierEnd:
    if not is_successful(ended):
        return grading.NotRun(ended.failure().message)
    result = ended.unwrap()
    if result.timed_out or result.exit_code is None:
        return grading.TimedOut(limit_s)
    return grading.Exited(result.exit_code)


def _problem(ended: Result[ExecResult, SandboxFailure], what: str) -> str | None:
    if not is_successful(ended):
        return f"{what}: {ended.failure().message}"
    result = ended.unwrap()
    if result.exit_code == 0:
        return None
    return f"{what}: {result.stderr.decode('utf-8', 'replace').strip()}"
