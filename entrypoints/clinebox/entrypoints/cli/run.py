"""`clinebox run`: one task, the real Cline, a sandbox, and how it ended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from clinebox.adapters.supervisor.plan import SurvivorPolicy
from clinebox.domain.budgets import DEFAULT_RUN_S, DEFAULT_VERIFIER_S
from clinebox.domain.cline.launch import checked_model_name, checked_model_url
from clinebox.domain.cline.pins import NEWEST, pinned
from clinebox.domain.ports import NetworkMode
from clinebox.entrypoints.cli import run_options
from clinebox.entrypoints.cli import run_parameters as options
from clinebox.entrypoints.cli.errors import CliError
from clinebox.entrypoints.cli.run_model import ModelMeans
from clinebox.entrypoints.cli.run_program import Program, run_program
from clinebox.entrypoints.providers import ProviderName
from clinebox.entrypoints.run_request import ModelEndpoint, RunRequest, Verification

if TYPE_CHECKING:
    from clinebox.adapters.scripted_model.script import Script

SCRIPTED_MODEL = "scripted-model"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run)


def run(
    *,
    task: options.Task,
    workdir: options.Workdir,
    model_url: options.ModelUrl = None,
    model: options.ModelName = None,
    api_key_env: options.ApiKeyEnv = None,
    script: options.ScriptFile = None,
    gateway: options.Gateway = True,
    capture_bodies: options.CaptureBodies = False,
    preflight: options.Preflight = True,
    sandbox: options.Sandbox = ProviderName.AUTO,
    image: options.Image = None,
    network: options.Network = NetworkMode.FULL,
    cline_version: options.ClineVersion = NEWEST,
    cline_tarball: options.ClineTarball = None,
    timeout: options.Timeout = DEFAULT_RUN_S,
    verify: options.Verify = None,
    verify_timeout: options.VerifyTimeout = DEFAULT_VERIFIER_S,
    survivors: options.Survivors = SurvivorPolicy.KEEP,
    system: options.SystemFile = None,
    copy_workdir: options.CopyWorkdir = False,
    out: options.Out = None,
    as_json: options.AsJson = False,
) -> None:
    """Run Cline on a task in a sandbox, and say how it ended.

    Exit code: 0 the run may be graded, 1 it failed (or its verifier did), 2 bad usage, 130 interrupted.
    """
    work = run_options.workdir(workdir)
    endpoint, played = _model(model_url, model, api_key_env, script)
    if capture_bodies and not gateway:
        raise CliError("--capture-bodies needs the gateway, which sees them: leave out --no-gateway")
    request = RunRequest(
        prompt=run_options.prompt(task),
        workdir=work,
        model=endpoint,
        cline_version=run_options.usable(pinned(cline_version), str),
        timeout_s=run_options.run_seconds(timeout),
        system_text=None if system is None else run_options.text_file("--system", system),
        verification=_verification(verify, run_options.seconds("--verify-timeout", verify_timeout)),
        survivors=survivors,
        image=image,
        network=run_options.network(network, gateway=gateway),
    )
    program = Program(
        request=request,
        directory=run_options.run_directory(out, work),
        model=ModelMeans(played, gateway, capture_bodies, preflight, key_variable=api_key_env),
        sandbox=run_options.sandbox(sandbox, image),
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
