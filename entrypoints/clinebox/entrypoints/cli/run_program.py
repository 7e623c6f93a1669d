"""What `run` and `demo` do alike: the run directory, the scripted model, interrupts, what is printed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from returns.pipeline import is_successful
from rich.console import Console

from clinebox.adapters.run_directory.names import OUTCOME
from clinebox.adapters.run_directory.writer import RunDirectoryWriter
from clinebox.adapters.sandboxes.workdir import copy_of_workdir
from clinebox.domain.outcome.masked import masked_outcome
from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.secrets.environment import secrets_from_environment
from clinebox.domain.secrets.masker import Masker
from clinebox.entrypoints.bootstrap import ports_with, run_directory
from clinebox.entrypoints.cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, CliError, json_line
from clinebox.entrypoints.cli.interrupts import interrupts
from clinebox.entrypoints.cli.live import LiveRun
from clinebox.entrypoints.cli.run_model import (
    ModelMeans,
    model_access,
    model_server,
    preflight,
    session_token,
)
from clinebox.entrypoints.cli.run_options import provider_of
from clinebox.entrypoints.cli.run_view import print_run
from clinebox.entrypoints.cli.streams import OutputConsole
from clinebox.entrypoints.providers import ProviderName
from clinebox.entrypoints.run_once import AgentRun, FinishedRun
from clinebox.entrypoints.run_report import run_to_json, write_run
from clinebox.entrypoints.run_request import RunRequest


@dataclass(frozen=True, slots=True)
class Program:
    """One checked run, and the means that the command line chose for it."""

    request: RunRequest
    directory: Path
    model: ModelMeans = field(default_factory=ModelMeans)
    sandbox: ProviderName = ProviderName.AUTO
    tarball: Path | None = None
    copy_workdir: bool = False


def run_program(program: Program, *, as_json: bool) -> int:
    """Run, write, print; the exit code."""
    secrets = secrets_from_environment(os.environ, model_key=program.request.model.api_key)
    token = session_token(program.model)
    masker = Masker(secrets.values if token is None else (*secrets.values, token))
    noted = preflight(program.request.model, program.model)
    created = run_directory(program.directory, masker)
    if not is_successful(created):
        raise CliError(f"--out: {created.failure().message}")
    writer = created.unwrap()
    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    observer = LiveRun(console, masker.mask_text)
    finished = asyncio.run(_run(program, writer, masker, observer, token))
    unmasked = (*secrets.notes, *masker.notes)
    notes = (*noted, *finished.notes, *unmasked, *(failure.message for failure in writer.failures))
    _show(replace(finished, notes=notes), writer, masker, as_json=as_json)
    return _exit_code(finished, writer)


async def _run(
    program: Program, writer: RunDirectoryWriter, masker: Masker, live: LiveRun, token: str | None
) -> FinishedRun:
    request = _on_a_copy(program) if program.copy_workdir else program.request
    provider = provider_of(program.sandbox)
    async with (
        model_server(request, program.model, provider) as served,
        model_access(served, program.model, provider, token=token, writer=writer, masker=masker) as access,
    ):
        with live as observer:
            run = AgentRun(served, ports_with(provider, program.tarball), writer, observer, access)
            with _interrupts(run, observer):
                try:
                    finished = await run.execute()
                except asyncio.CancelledError:  # the second interrupt; the sandbox is gone by now
                    finished = run.abandoned()
                finished = _without_secrets(finished, masker)
                write_run(finished, writer)  # while no interrupt can cut it short
                return finished


def _without_secrets(run: FinishedRun, masker: Masker) -> FinishedRun:
    """The judgement is made; from here on its texts go to people, programs and files."""
    outcome = masked_outcome(run.judgement.outcome, masker.mask_text, masker.mask_cut_text)
    return replace(run, judgement=replace(run.judgement, outcome=outcome))


def _on_a_copy(program: Program) -> RunRequest:
    copied = copy_of_workdir(program.request.workdir, program.directory / "workdir")
    if not is_successful(copied):
        raise CliError(f"--copy-workdir: {copied.failure().message}")
    return replace(program.request, workdir=copied.unwrap().path)


@contextlib.contextmanager
def _interrupts(run: AgentRun, observer: LiveRun) -> Iterator[None]:
    """The first one asks for a clean stop with a receipt; the second kills the sandbox at once."""
    task = asyncio.current_task()
    asked = 0

    def interrupt() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            run.request_stop(StoppedBy.OPERATOR)
            observer.phase("stopping cleanly; once more to kill")
        elif task is not None:
            task.cancel()

    with interrupts(interrupt):
        yield


def _show(run: FinishedRun, writer: RunDirectoryWriter, masker: Masker, *, as_json: bool) -> None:
    stream = sys.stderr if as_json else sys.stdout
    console = OutputConsole(file=stream, highlight=False, markup=False, emoji=False)
    print_run(console, run, writer.path, masker.mask_text)
    if as_json:
        line = json_line(run_to_json(run, writer.path))
        sys.stdout.write(masker.mask(line.encode("ascii")).decode("ascii") + "\n")


def _exit_code(run: FinishedRun, writer: RunDirectoryWriter) -> int:
    if run.requested_stop is not None:
        return EXIT_INTERRUPTED
    kept = all(failure.name != OUTCOME for failure in writer.failures)
    return EXIT_OK if kept and run.verdict.gradable and run.verifier_error is None else EXIT_FAILED
