"""The command `clinebox`: one line per command, and one place where every error becomes a sentence."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated, Final

import typer
from typer.main import get_command

from clinebox.entrypoints.cli import classify
from clinebox.entrypoints.cli.errors import (
    EXIT_BROKEN_PIPE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    INTERRUPTED,
    USAGE,
    CliError,
    report_error,
)

COMMANDS: Final[tuple[Callable[[typer.Typer], None], ...]] = (classify.register,)
"""Each adds one command; a new one is one line here."""


def build_app() -> typer.Typer:
    """The application with all its commands."""
    app = typer.Typer(
        name="clinebox",
        help="Run the Cline coding agent in a sandbox, and say the truth about how the run ended.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_clinebox)
    for register in COMMANDS:
        register(app)
    return app


def run(argv: Sequence[str]) -> int:
    """Run one command line; its exit code. Errors have been said when it returns; no words are `--help`."""
    as_json = "--json" in argv
    try:
        result = get_command(build_app()).main(
            list(argv) or ["--help"], prog_name="clinebox", standalone_mode=False
        )
    except CliError as error:
        report_error(error.code, error.message, as_json=as_json)
        return error.exit_code
    except typer.TyperException as error:
        report_error(USAGE, f"{error.format_message()} See 'clinebox --help'.", as_json=as_json)
        return error.exit_code
    except SystemExit:
        # typer 0.29 turns a broken pipe into sys.exit(1), and nothing else; our commands raise typer.Exit.
        return EXIT_BROKEN_PIPE
    except (KeyboardInterrupt, typer.Abort):
        report_error(INTERRUPTED, "interrupted", as_json=as_json)
        return EXIT_INTERRUPTED
    return result if isinstance(result, int) else EXIT_OK


def main() -> None:
    """The console script."""
    _write_what_the_terminal_cannot_as_escapes()
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`head`) has gone. Python flushes stdout again at exit and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_BROKEN_PIPE
    sys.exit(code)


def _write_what_the_terminal_cannot_as_escapes() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_version(asked: bool) -> None:  # noqa: FBT001 (typer calls it with the option's value)
    if asked:
        typer.echo(f"clinebox {version('clinebox')}")
        raise typer.Exit


def _clinebox(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Run the Cline coding agent in a sandbox, and say the truth about how the run ended."""


if __name__ == "__main__":
    main()
