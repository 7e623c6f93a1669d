"""`clinebox doctor`: does a sandbox keep its promises on this machine, and what to do where it does not."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from clinebox.adapters.conformance import CHECKS, CheckResult, Verdict, check_provider
from clinebox.domain.json_value import JsonValue
from clinebox.domain.ports import SandboxProvider, SandboxSpec
from clinebox.entrypoints.cli.errors import EXIT_FAILED, EXIT_OK, CliError, json_line
from clinebox.entrypoints.cli.run_options import provider_of
from clinebox.entrypoints.cli.slow_progress import SlowProgress
from clinebox.entrypoints.cli.streams import OutputConsole
from clinebox.entrypoints.cli.terminal_text import plain
from clinebox.entrypoints.providers import ProviderName

COLOURS: Final = {Verdict.PASSED: "green", Verdict.FAILED: "bold red", Verdict.NOT_OFFERED: "yellow"}
MESSAGE_LIMIT_CHARS: Final = 400


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    *,
    sandbox: Annotated[ProviderName, typer.Option(help="Which sandbox to try.")] = ProviderName.AUTO,
    image: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="The image, for a sandbox that needs one.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also what takes long: 32 at once, 64 MiB, every exit code.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Try a sandbox: every promise that clinebox relies on, and what to do where one is not kept.

    The exit code is 0 when no check failed, and 1 when one did. What a sandbox says that it does not offer is
    told, and is no failure.
    """
    provider = provider_of(sandbox)
    if sandbox.needs_image and image is None:
        raise CliError(f"--sandbox {sandbox} needs an image: add --image IMAGE")
    with tempfile.TemporaryDirectory(prefix="sandbox-check-") as place:
        spec = SandboxSpec(str(Path(place).resolve()), image=image)
        results = asyncio.run(_try_out(provider, spec, is_full=full, as_json=as_json))
    show = _print_json if as_json else _print_for_people
    show(sandbox, results)
    failed = any(each.verdict is Verdict.FAILED for each in results)
    raise typer.Exit(EXIT_FAILED if failed else EXIT_OK)


async def _try_out(
    provider: SandboxProvider, spec: SandboxSpec, *, is_full: bool, as_json: bool
) -> list[CheckResult]:
    results = []
    count = sum(is_full or not each.is_heavy for each in CHECKS)
    with SlowProgress("trying the sandbox", count, visible=not as_json) as bar:
        async for result in check_provider(provider, spec, is_full=is_full):
            results.append(result)
            bar.advance()
    return results


def _print_for_people(name: ProviderName, results: list[CheckResult]) -> None:
    console = OutputConsole(file=sys.stdout, highlight=False, markup=False, emoji=False)
    table = Table("check", "result", "what it proves, and what to do", box=None, pad_edge=False)
    for each in results:
        table.add_row(each.name, plain(each.verdict, style=COLOURS[each.verdict]), _told(each))
    console.print(table)
    counts = Counter(each.verdict for each in results)
    console.print()
    console.print(f"{name}: " + ", ".join(f"{counts[each]} {each}" for each in Verdict))


def _told(result: CheckResult) -> Text:
    text = plain(result.proves)
    if result.verdict is not Verdict.PASSED:
        text.append("\n").append_text(plain(result.message, limit=MESSAGE_LIMIT_CHARS))
    if result.verdict is Verdict.FAILED:
        text.append("\n").append_text(plain(result.advice, style="bold"))
    return text


def _print_json(name: ProviderName, results: list[CheckResult]) -> None:
    checks: list[JsonValue] = [
        {
            "check": each.name,
            "proves": each.proves,
            "result": each.verdict,
            "message": each.message,
            "advice": each.advice,
            "duration_s": each.duration_s,
        }
        for each in results
    ]
    counts: dict[str, JsonValue] = {each: sum(one.verdict is each for one in results) for each in Verdict}
    sys.stdout.write(json_line({"sandbox": name, **counts, "checks": checks}) + "\n")
