"""The command `clinebox`: one line per command, and one place where every error becomes a sentence."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Final

import typer
from typer.main import get_command

from clinebox.entrypoints.cli import classify, demo, doctor, reap
from clinebox.entrypoints.cli import run as run_command
from clinebox.entrypoints.cli.errors import (
    EXIT_BROKEN_PIPE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    INTERRUPTED,
    IO,
    USAGE,
    CliError,
    report_error,
)
from clinebox.entrypoints.cli.streams import let_stderr_never_fail, open_what_is_closed

COMMANDS: Final[tuple[Callable[[typer.Typer], None], ...]] = (
    run_command.register,
    demo.register,
    classify.register,
    doctor.register,
    reap.register,
)
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
    as_json = "--json" in (argv[: argv.index("--")] if "--" in argv else argv)
    try:
        _invoke(list(argv) or ["--help"])
    except typer.Exit as end:
        return end.exit_code
    except CliError as error:
        report_error(error.code, error.message, as_json=as_json)
        return error.exit_code
    except typer.TyperException as error:
        report_error(USAGE, f"{error.format_message().rstrip('.')}. See 'clinebox --help'.", as_json=as_json)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        report_error(INTERRUPTED, "interrupted", as_json=as_json)
        return EXIT_INTERRUPTED
    return EXIT_OK


def _invoke(argv: list[str]) -> None:
    # Not the command's own `main`: typer 0.29 ends an interrupt and a broken pipe there without a word.
    command = get_command(build_app())
    with command.make_context("clinebox", argv) as context:
        command.invoke(context)


def main() -> None:
    """The console script."""
    open_what_is_closed()
    let_stderr_never_fail()
    _write_what_the_terminal_cannot_as_escapes()
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`head`) has gone.
        _write_no_more()
        code = EXIT_BROKEN_PIPE
    except OSError as error:
        # Stdout itself is full or gone; the commands' own files have their own sentences.
        _write_no_more()
        report_error(IO, f"the output could not be written: {error.strerror}", as_json=False)
        code = EXIT_USAGE
    sys.exit(code)


def _write_no_more() -> None:
    """Python flushes stdout once more at exit, and would complain again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_what_the_terminal_cannot_as_escapes() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_version(asked: bool) -> None:  # noqa: FBT001 (typer calls it with the option's value)
    if asked:
        from importlib.metadata import version  # noqa: PLC0415 - 20 ms that no other command needs

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
