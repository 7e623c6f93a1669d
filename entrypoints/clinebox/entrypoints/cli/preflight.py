"""`clinebox preflight`: may a run start, as far as one question to the model server can tell (SPEC §7)?"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from returns.pipeline import is_successful
from rich.text import Text

from clinebox.domain.ports import Sandbox, SandboxSpec
from clinebox.domain.preflight import Answered, Observation, Refuse, shown_url, verdict
from clinebox.domain.secrets.masker import Masker
from clinebox.entrypoints.cli import gateway_options, run_options
from clinebox.entrypoints.cli import run_parameters as options
from clinebox.entrypoints.cli.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, CliError, json_line
from clinebox.entrypoints.cli.gateway_options import ModelServer
from clinebox.entrypoints.cli.streams import OutputConsole
from clinebox.entrypoints.cli.terminal_text import shown
from clinebox.entrypoints.providers import ProviderName

PREFLIGHT_REFUSED: Final = "preflight_refused"
SANDBOX: Final = "sandbox"
HERE: Final = "this host"
START_S: Final = 60.0
STOP_S: Final = 30.0
_REJECTED: Final = 401


@dataclass(frozen=True, slots=True)
class Judged:
    """What one question told, in a sentence without secrets."""

    sentence: str
    refused: bool
    conclusive: bool
    asked_from: str


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(preflight)


def preflight(
    *,
    base_url: Annotated[
        str, typer.Option(metavar="URL", help="The model server, such as http://host:8000/v1.")
    ],
    model: Annotated[str, typer.Option(metavar="NAME", help="The model's name there.")],
    api_key_env: options.ApiKeyEnv = None,
    from_sandbox: Annotated[
        bool, typer.Option("--from-sandbox", help="Ask from inside a sandbox, as Cline would.")
    ] = False,
    sandbox: Annotated[
        ProviderName | None,
        typer.Argument(
            metavar="[NAME]", help="Which sandbox, after --from-sandbox: one that needs no image."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Ask a model server for one token, with the key: is anything wrong before the run begins?

    Exit code: 0 go on (also where the answer proves nothing, which is said), 1 the key was rejected (HTTP
    401), 2 bad usage.
    """
    if sandbox is not None and not from_sandbox:
        raise CliError(f"the sandbox {sandbox.value!r} needs --from-sandbox before it")
    if sandbox is not None:
        run_options.sandbox(sandbox, None)
    server = gateway_options.model_server("--base-url", base_url, model, api_key_env, os.environ)
    judged = _from_sandbox(server, sandbox or ProviderName.AUTO) if from_sandbox else ask_from_here(server)
    (_print_object if as_json else _print_for_people)(judged, server)
    raise typer.Exit(EXIT_FAILED if judged.refused else EXIT_OK)


def ask_first(server: ModelServer) -> str | None:
    """Ask before anything expensive (SPEC §7), if there is a key: what to note where nothing is proved.

    CliError when it rejects the key.
    """
    if server.key is None:
        return None
    judged = ask_from_here(server)
    if judged.refused:
        raise CliError(judged.sentence, code=PREFLIGHT_REFUSED, exit_code=EXIT_FAILED)
    return None if judged.conclusive else judged.sentence


def ask_from_here(server: ModelServer) -> Judged:
    """Ask from this host, within 10 s."""
    # httpx takes its time to import, and no other command needs it
    from clinebox.adapters.preflight_probe import probe_model_server  # noqa: PLC0415

    probe = probe_model_server(server.url, model=server.model, key=server.key, trust_env=server.by_proxy)
    seen = asyncio.run(probe)
    return _judged(seen, server, HERE)


def _from_sandbox(server: ModelServer, name: ProviderName) -> Judged:
    with tempfile.TemporaryDirectory(prefix="clinebox-preflight-") as workdir:
        return asyncio.run(_asked_inside(server, name, workdir))


async def _asked_inside(server: ModelServer, name: ProviderName, workdir: str) -> Judged:
    from clinebox.adapters.inside_probe import probe_from_inside  # noqa: PLC0415 - as above

    provider = run_options.provider_of(name)
    started = await provider.start(SandboxSpec(workdir=workdir), timeout_s=START_S)
    if not is_successful(started):
        raise CliError(started.failure().message, code=SANDBOX, exit_code=EXIT_USAGE)
    sandbox = started.unwrap()
    try:
        seen = await probe_from_inside(sandbox, server.url, model=server.model, key=server.key)
    finally:
        stopped = await sandbox.stop(timeout_s=STOP_S)
        if not is_successful(stopped):
            sys.stderr.write(f"clinebox preflight: {shown(stopped.failure().message)}\n")
    return _judged(seen, server, _where(sandbox))


def _where(sandbox: Sandbox) -> str:
    return f"inside the {sandbox.description.provider} sandbox ({sandbox.description.containment})"


def _judged(seen: Observation, server: ModelServer, asked_from: str) -> Judged:
    masker = Masker([] if server.key is None else [server.key])
    if server.key is None and seen == Answered(_REJECTED):
        return Judged(_wants_a_key(server), refused=True, conclusive=True, asked_from=asked_from)
    judged = verdict(
        seen,
        endpoint=server.url,
        model=server.model,
        key_variable=server.key_variable,
        mask=masker.mask_text,
    )
    if isinstance(judged, Refuse):
        return Judged(judged.sentence, refused=True, conclusive=True, asked_from=asked_from)
    return Judged(judged.note, refused=False, conclusive=judged.conclusive, asked_from=asked_from)


def _wants_a_key(server: ModelServer) -> str:
    return (
        f"The model server wants a credential (HTTP 401) at {shown_url(server.url)} for model "
        f"{server.model}, and none was sent. Give --api-key-env VAR: the environment variable with the key."
    )


def _print_for_people(judged: Judged, _server: ModelServer) -> None:
    word, style = ("refused", "red") if judged.refused else ("proceed", "green")
    if not judged.refused and not judged.conclusive:
        word, style = "proceed, inconclusive", "yellow"
    console = OutputConsole(file=sys.stdout, highlight=False, markup=False, emoji=False)
    head = Text.assemble(
        (f"{word}: ", f"bold {style}"), shown(judged.sentence), f" Asked from {judged.asked_from}."
    )
    console.print(head, soft_wrap=True)


def _print_object(judged: Judged, server: ModelServer) -> None:
    line = json_line(
        {
            "verdict": "refuse" if judged.refused else "proceed",
            "conclusive": judged.conclusive,
            "sentence": judged.sentence,
            "base_url": shown_url(server.url),
            "model": server.model,
            "key_variable": server.key_variable,
            "asked_from": judged.asked_from,
        }
    )
    sys.stdout.write(line + "\n")
