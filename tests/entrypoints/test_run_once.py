"""A run that is cancelled late: what was judged is kept, and the close comes to its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from returns.result import Result, Success

from clinebox.adapters.run_directory.writer import RunDirectoryWriter
from clinebox.adapters.sandboxes.local import LocalSandboxProvider
from clinebox.adapters.sandboxes.process_table import find_tree
from clinebox.domain.cline.pins import NEWEST
from clinebox.domain.cline.prompt import prepare_prompt
from clinebox.domain.outcome.failed_step import FailedStep
from clinebox.domain.outcome.model import Reason
from clinebox.entrypoints.observer import SilentObserver
from clinebox.entrypoints.run_once import AgentRun, FinishedRun, Ports
from clinebox.entrypoints.run_request import ModelEndpoint, RunRequest, Verification

RESULT = json.dumps({"type": "run_result", "finishReason": "completed", "text": "done", "iterations": 1})
CLOSING = "closing the sandbox"


class Interrupting(SilentObserver):
    """Cancels the run's task, again and again, from the named phase on."""

    def __init__(self, at: str) -> None:
        self._at = at
        self.task: asyncio.Task[FinishedRun] | None = None

    def phase(self, text: str) -> None:
        if text == self._at:
            self._cancel(5)

    def _cancel(self, times: int) -> None:
        assert self.task is not None
        self.task.cancel()
        if times > 1:
            asyncio.get_running_loop().call_later(0.02, self._cancel, times - 1)


@dataclass(frozen=True)
class Bench:
    """A harness that ends at once with a result and leaves a process behind, in a plain sandbox."""

    path: Path
    mark: str
    out: str = "out"

    def run(self, at: str) -> FinishedRun:
        (self.path / "work").mkdir()
        (self.path / "roots").mkdir()
        harness = self.path / "harness"
        leave = f"MARK={self.mark} setsid sleep 4711 <&- >&- 2>&- &"
        harness.write_text(f"#!/bin/bash\ncat > /dev/null\n{leave}\necho '{RESULT}'\n")
        harness.chmod(0o755)
        return asyncio.run(self._story(at, str(harness)))

    def living(self) -> list[int]:
        return [process.pid for process in find_tree(markers=(f"MARK={self.mark}".encode(),))]

    def roots(self) -> list[Path]:
        return list((self.path / "roots").iterdir())

    async def _story(self, at: str, harness: str) -> FinishedRun:
        async def fetch(_: str, __: Callable[[int, int | None], None]) -> Result[str, FailedStep]:
            return Success(harness)

        request = RunRequest(
            prompt=prepare_prompt("go").unwrap(),
            workdir=self.path / "work",
            model=ModelEndpoint("http://127.0.0.1:9/v1", "m"),
            cline_version=NEWEST,
            timeout_s=60,
            verification=Verification("exit 0"),
        )
        ports = Ports(LocalSandboxProvider("plain", private_base=self.path / "roots"), fetch)
        writer = RunDirectoryWriter.create(self.path / self.out, mask=bytes).unwrap()
        observer = Interrupting(at)
        run = AgentRun(request, ports, writer, observer)
        observer.task = asyncio.create_task(run.execute())
        with contextlib.suppress(asyncio.CancelledError):
            await observer.task
        assert observer.task.cancelled()
        return run.abandoned()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, secrets.token_hex(8))


@pytest.mark.parametrize("phase", ["judging the run", "verifying", CLOSING])
def test_no_number_of_interrupts_keeps_the_close_from_its_end(bench: Bench, phase: str) -> None:
    bench.run(phase)
    assert bench.living() == []
    assert bench.roots() == []


def test_an_interrupt_while_closing_keeps_the_judgement_and_the_grade(bench: Bench) -> None:
    run = bench.run(CLOSING)
    assert run.judgement.outcome.reason is Reason.FINISHED
    assert run.receipt is not None
    assert run.reward == 1.0
    assert run.duration_s > 0


def test_an_interrupt_that_cuts_the_verifier_keeps_the_judgement_and_gives_no_grade(bench: Bench) -> None:
    run = bench.run("verifying")
    assert run.judgement.outcome.reason is Reason.FINISHED
    assert run.reward is None
    assert run.verifier_error == "the verifier was not run: a stop was asked for before it ended"


def test_a_run_that_was_cancelled_before_its_judgement_has_none(bench: Bench) -> None:
    run = bench.run("Cline is working")
    assert run.judgement.outcome.reason is not Reason.FINISHED
    assert run.reward is None
    assert run.receipt is None

    assert bench.roots() == []


def test_a_run_directory_may_have_any_name(tmp_path: Path) -> None:
    """Its name is the session's id, which stands in an HTTP header."""
    run = Bench(tmp_path, secrets.token_hex(8), out="l\u00e4uf\udcff e").run(CLOSING)
    assert run.judgement.outcome.reason is Reason.FINISHED
