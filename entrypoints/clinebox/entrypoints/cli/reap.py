"""`clinebox reap`: find sandboxes that were left, and remove them. A dry run unless told otherwise."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Final

import typer
from returns.pipeline import is_successful
from rich.table import Table

from clinebox.domain.json_value import JsonValue
from clinebox.domain.ports import Reaped, ReapRule
from clinebox.entrypoints.cli.errors import EXIT_FAILED, EXIT_OK, CliError, json_line
from clinebox.entrypoints.cli.run_options import provider_of
from clinebox.entrypoints.cli.streams import OutputConsole
from clinebox.entrypoints.cli.terminal_text import plain
from clinebox.entrypoints.providers import ProviderName

REAP_S: Final = 300.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reap)


def reap(
    *,
    sandbox: Annotated[ProviderName, typer.Option(help="Whose sandboxes to look for.")] = ProviderName.AUTO,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only what carries this label; may come again."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what is not past its time to live and still has an owner.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove what is found; else it is only told.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find sandboxes that are past their time to live or have lost their owner, and remove them with --yes.

    The exit code is 0 when all that was found is removed (or only told), and 1 when something is still there.
    """
    rule = ReapRule(labels=_labels(label or []), expired_only=not everything, dry_run=not yes)
    result = asyncio.run(provider_of(sandbox).reap(rule, timeout_s=REAP_S))
    if not is_successful(result):
        raise CliError(result.failure().message, code=result.failure().trouble, exit_code=EXIT_FAILED)
    found = result.unwrap()
    if as_json:
        _print_json(found, removed=yes)
    else:
        _print_for_people(found, removed=yes)
    raise typer.Exit(EXIT_FAILED if any(each.problem for each in found) else EXIT_OK)


def _labels(words: list[str]) -> dict[str, str]:
    labels = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise CliError(f"--label: {word!r} is no KEY=VALUE")
        labels[name] = value
    return labels


def _print_for_people(found: tuple[Reaped, ...], *, removed: bool) -> None:
    console = OutputConsole(file=sys.stdout, highlight=False, markup=False, emoji=False)
    if not found:
        console.print("Nothing to remove.")
        return
    table = Table("sandbox", "labels", "result", box=None, pad_edge=False)
    for each in found:
        labels = " ".join(f"{name}={value}" for name, value in sorted(each.labels.items()))
        told = each.problem or ("removed" if removed else "would be removed")
        table.add_row(plain(each.sandbox_id), plain(labels), plain(told))
    console.print(table)
    if not removed:
        console.print("\nNothing was removed. Run it again with --yes to remove them.")


def _print_json(found: tuple[Reaped, ...], *, removed: bool) -> None:
    sandboxes: list[JsonValue] = [
        {
            "sandbox_id": each.sandbox_id,
            "labels": dict(each.labels),
            "removed": removed and each.problem is None,
            "problem": each.problem,
        }
        for each in found
    ]
    sys.stdout.write(json_line({"dry_run": not removed, "sandboxes": sandboxes}) + "\n")
