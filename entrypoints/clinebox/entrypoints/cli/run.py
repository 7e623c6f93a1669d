"""`clinebox run`: one task, the real Cline, a sandbox, and how it ended."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clinebox.adapters.supervisor.plan import SurvivorPolicy
from clinebox.domain.budgets import DEFAULT_RUN_S, DEFAULT_VERIFIER_S
from clinebox.domain.cline.launch import checked_model_name, checked_model_url
from clinebox.domain.cline.pins import NEWEST, pinned
from clinebox.entrypoints.cli import run_options
from clinebox.entrypoints.cli.errors import CliError
from clinebox.entrypoints.cli.run_program import Program, run_program
from clinebox.entrypoints.run_request import ModelEndpoint, RunRequest, Verification

if TYPE_CHECKING:
    from clinebox.adapters.scripted_model.script import Script

SCRIPTED_MODEL = "scripted-model"


class SandboxName(StrEnum):
    """Which sandbox."""

    AUTO = "auto"
    """The strongest containment that works here."""
    LOCAL = "local"
    """A plain process tree: no isolation."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run)


def run(
    *,
    task: Annotated[
        str,
        typer.Argument(metavar="TASK", help="What to do: a text, @FILE, or - for stdin.", show_default=False),
    ],
    workdir: Annotated[Path, typer.Option(metavar="DIR", help="Where the agent works, in place.")],
    model_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="An OpenAI-compatible server, such as http://host:8000/v1."),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model's name there.")] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(metavar="VAR", help="The environment variable that holds the key, if one is needed."),
    ] = None,
    script: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A scripted model instead of a server (YAML or JSON).")
    ] = None,
    sandbox: Annotated[SandboxName, typer.Option(help="auto: the strongest there is; local: none.")] = (
        SandboxName.AUTO
    ),
    cline_version: Annotated[str, typer.Option(metavar="VERSION", help="A pinned Cline version.")] = NEWEST,
    cline_tarball: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Cline's npm tarball, instead of fetching it.")
    ] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="The run's deadline.")] = DEFAULT_RUN_S,
    verify: Annotated[
        str | None, typer.Option(metavar="CMD", help="A bash command that grades the work: exit 0 is 1.0.")
    ] = None,
    verify_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="The verifier's deadline.")
    ] = DEFAULT_VERIFIER_S,
    survivors: Annotated[
        SurvivorPolicy,
        typer.Option(help="What the task left running: keep for the verifier, or kill before it."),
    ] = SurvivorPolicy.KEEP,
    system: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A text that is added to Cline's own system prompt.")
    ] = None,
    copy_workdir: Annotated[
        bool, typer.Option("--copy-workdir", help="Work on a copy, kept in --out.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The run directory.", show_default="./clinebox-runs/<id>"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Run Cline on a task in a sandbox, and say how it ended.

    Exit code: 0 the run may be graded, 1 it failed (or its verifier did), 2 bad usage, 130 interrupted.
    """
    work = run_options.workdir(workdir)
    directory = run_options.run_directory(out, work)
    endpoint, played = _model(model_url, model, api_key_env, script)
    request = RunRequest(
        prompt=run_options.prompt(task),
        workdir=work,
        model=endpoint,
        cline_version=run_options.usable(pinned(cline_version), str),
        timeout_s=run_options.seconds("--timeout", timeout),
        system_text=None if system is None else run_options.task_text(f"@{system}"),
        verification=_verification(verify, run_options.seconds("--verify-timeout", verify_timeout)),
        survivors=survivors,
    )
    program = Program(
        request=request,
        directory=directory,
        script=played,
        containment="plain" if sandbox is SandboxName.LOCAL else "auto",
        tarball=run_options.tarball(cline_tarball),
        copy_workdir=copy_workdir,
    )
    raise typer.Exit(run_program(program, as_json=as_json))


def _model(
    url: str | None, name: str | None, key_variable: str | None, script: Path | None
) -> tuple[ModelEndpoint, Script | None]:
    if (url is None) == (script is None):
        raise CliError("give either --model-url URL with --model NAME, or --script FILE")
    if script is not None:
        return ModelEndpoint("http://127.0.0.1/v1", name or SCRIPTED_MODEL), read_script(script)
    if name is None:
        raise CliError("--model-url needs --model NAME: the model's name at that server")
    key = run_options.api_key(key_variable, os.environ)
    base_url = run_options.usable(checked_model_url(url or ""), str)
    return ModelEndpoint(base_url, run_options.usable(checked_model_name(name), str), key), None


def read_script(path: Path) -> Script:
    """The scripted model in a file, or a usage error that names its lines."""
    # pydantic takes 100 ms to import, and a run with a model server needs none of it
    from clinebox.adapters.scripted_model.script_file import load_script  # noqa: PLC0415

    return run_options.usable(load_script(path), str)


def _verification(command: str | None, timeout_s: float) -> Verification | None:
    if command is None:
        return None
    if not command.strip() or "\0" in command:
        raise CliError("--verify: the command is empty or holds a NUL character")
    return Verification(command, timeout_s)
