"""`clinebox demo`: the real Cline fixes a small broken program in a sandbox; only the model is a script."""

from __future__ import annotations

import shutil
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import typer

from clinebox.domain.cline.pins import NEWEST, pinned
from clinebox.entrypoints.cli import run_options
from clinebox.entrypoints.cli import run_parameters as options
from clinebox.entrypoints.cli.run import SCRIPTED_MODEL, read_script
from clinebox.entrypoints.cli.run_model import ModelMeans
from clinebox.entrypoints.cli.run_program import Program, run_program
from clinebox.entrypoints.providers import ProviderName
from clinebox.entrypoints.run_request import ModelEndpoint, RunRequest, Verification

ASSETS: Final = "clinebox.entrypoints"
VERIFY: Final = "bash test.sh"
DEMO_TIMEOUT_S: Final = 300.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    *,
    sandbox: options.Sandbox = ProviderName.AUTO,
    image: options.Image = None,
    gateway: options.Gateway = True,
    cline_version: options.ClineVersion = NEWEST,
    cline_tarball: options.ClineTarball = None,
    out: options.Out = None,
    as_json: options.AsJson = False,
) -> None:
    """See it work: Cline reads a broken program, fixes it, runs its test, and is graded.

    The agent and the sandbox are real; the model's words are a script, so nothing needs a key.
    """
    version = run_options.usable(pinned(cline_version), str)
    with (
        as_file(files(ASSETS) / "demo_assets") as assets,
        tempfile.TemporaryDirectory(prefix="sum-demo-") as place,
    ):
        work = Path(place).resolve() / "work"
        shutil.copytree(assets / "program", work)
        request = RunRequest(
            prompt=run_options.prompt(f"@{assets / 'task.txt'}"),
            workdir=work,
            model=ModelEndpoint("http://127.0.0.1/v1", SCRIPTED_MODEL),
            cline_version=version,
            timeout_s=DEMO_TIMEOUT_S,
            verification=Verification(VERIFY),
            image=image,
        )
        program = Program(
            request=request,
            directory=run_options.run_directory(out, work),
            model=ModelMeans(read_script(assets / "fix_the_bug.yaml"), gateway),
            sandbox=run_options.sandbox(sandbox, image),
            tarball=run_options.tarball(cline_tarball),
        )
        code = run_program(program, as_json=as_json)
    raise typer.Exit(code)
