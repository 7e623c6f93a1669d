"""`clinebox classify`: judge recorded runs from what they left on disk."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from returns.pipeline import is_successful

from clinebox.adapters.run_directory.find import STDIN, Found, NoRun, find_runs
from clinebox.adapters.run_directory.reader import Overrides, RecordedRun, read_run
from clinebox.domain.outcome.classify import classify as judge
from clinebox.domain.outcome.endpoint import is_url
from clinebox.domain.outcome.model import Outcome
from clinebox.domain.outcome.policy import Verdict, decide
from clinebox.domain.outcome.render import outcome_to_json
from clinebox.entrypoints.cli.errors import EXIT_USAGE, CliError, error_object, json_line, report_error
from clinebox.entrypoints.cli.show import Row, render_head, render_outcome, render_row, render_totals
from clinebox.entrypoints.cli.slow_progress import SlowProgress
from clinebox.entrypoints.cli.streams import OutputConsole

UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class ClassifiedRun:
    """A run with its outcome, and what the policy says of a first attempt."""

    path: Path
    outcome: Outcome
    verdict: Verdict


Classified: TypeAlias = ClassifiedRun | NoRun


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(classify)


def classify(
    *,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="A run directory, a folder of run directories, Cline's NDJSON output, or - for stdin.",
            show_default=False,
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per run and line.")] = False,
    receipt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The cleanup receipt, instead of the recorded cleanup.json."),
    ] = None,
    model_calls: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The gateway's record, instead of the recorded model_calls.jsonl."),
    ] = None,
    cline_version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="The Cline version, instead of the recorded one.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The model server's address that Cline was to use.")
    ] = None,
) -> None:
    """Judge recorded runs: how each ended, by which line, and whether it may be graded or retried.

    The exit code is 0 whatever the runs' statuses, and 2 if a path is not there or holds no run.
    """
    overrides = _overrides(receipt, model_calls, cline_version, base_url)
    found = [thing for path in _checked(paths) for thing in find_runs(path)]
    show = _print_json if as_json else _print_for_people
    if not show(found, overrides):
        raise typer.Exit(EXIT_USAGE)


def _overrides(
    receipt: Path | None, model_calls: Path | None, cline_version: str | None, base_url: str | None
) -> Overrides:
    for option, path in (("--receipt", receipt), ("--model-calls", model_calls)):
        if path is not None and not path.is_file():
            raise CliError(f"{option}: there is no file {str(path)!r}")
    if base_url is not None and not is_url(base_url):
        raise CliError(f"--base-url: {base_url!r} is no http or https address such as http://host:8000/v1")
    return Overrides(receipt, model_calls, cline_version, base_url)


def _checked(paths: Sequence[str]) -> list[Path]:
    if "" in paths:
        raise CliError("an empty PATH was given; write . for the current directory")
    if paths.count(str(STDIN)) > 1:
        raise CliError("standard input (-) can be read only once")
    return [Path(path) for path in paths]


def _print_json(found: Sequence[Found], overrides: Overrides) -> bool:
    """One object a line as each run is judged; whether every path held a run."""
    complete = True
    # On a terminal the lines themselves are the progress.
    for run in _classified(found, overrides, show_progress=not sys.stdout.isatty()):
        if isinstance(run, NoRun):
            complete = False
            body = error_object(run.code, run.message)
        else:
            body = outcome_to_json(run.outcome, run.verdict)
        sys.stdout.write(json_line({"path": str(run.path), **body}) + "\n")
    return complete


def _print_for_people(found: Sequence[Found], overrides: Overrides) -> bool:
    """One panel for one run, a table for many, errors on stderr; whether every path held a run."""
    console = OutputConsole(file=sys.stdout, highlight=False, markup=False, emoji=False)
    rows: list[Row] = []
    errors: list[NoRun] = []
    for run in _classified(found, overrides, show_progress=True):
        if isinstance(run, NoRun):
            errors.append(run)
        elif len(found) == 1:
            console.print(render_outcome(run.outcome, run.verdict, extra=[("run", str(run.path))]))
        else:
            rows.append(Row.of(str(run.path), run.outcome, run.verdict))
    _print_table(console, rows)
    for error in errors:
        report_error(error.code, error.message, as_json=False)
    return not errors


def _print_table(console: OutputConsole, rows: Sequence[Row]) -> None:
    if not rows:
        return
    console.print(render_head())
    for row in rows:
        console.print(render_row(row), soft_wrap=True)
    console.print()
    console.print(render_totals(rows))


def _classified(found: Sequence[Found], overrides: Overrides, *, show_progress: bool) -> Iterator[Classified]:
    with SlowProgress("classifying runs", len(found), visible=show_progress) as bar:
        for thing in found:
            yield _classify_one(thing, overrides)
            bar.advance()


def _classify_one(found: Found, overrides: Overrides) -> Classified:
    read = read_run(found, overrides)
    if not is_successful(read):
        return read.failure()
    return _judge_one(read.unwrap())


def _judge_one(run: RecordedRun) -> Classified:
    judged = judge(run.evidence)
    if not is_successful(judged):
        return NoRun(run.path, UNUSABLE, f"{str(run.path)!r} cannot be judged: {judged.failure().message}")
    outcome = judged.unwrap()
    noted = replace(outcome, notes=(*run.notes, *outcome.notes))
    return ClassifiedRun(run.path, noted, decide(noted))
