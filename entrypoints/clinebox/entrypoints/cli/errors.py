"""How the command line says that it cannot: a sentence on stderr, or `{error: {code, message}}` on stdout."""

from __future__ import annotations

import json
import sys
from typing import Final

from clinebox.domain.json_value import JsonValue
from clinebox.entrypoints.cli.terminal_text import shown

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141
"""128 + SIGPIPE, as any program that the shell's pipe ends."""

USAGE: Final = "usage"
INTERRUPTED: Final = "interrupted"
IO: Final = "io"


class CliError(Exception):
    """What the user asked for cannot be done; `code` is for programs, `message` a sentence for people."""

    def __init__(self, message: str, *, code: str = USAGE, exit_code: int = EXIT_USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.exit_code = exit_code


def error_object(code: str, message: str) -> dict[str, JsonValue]:
    """`{error: {code, message}}`, the shape of every error that a program reads."""
    return {"error": {"code": code, "message": message}}


def json_line(value: JsonValue) -> str:
    """One line of ASCII JSON: any terminal and any encoding carries it, lone surrogates too."""
    return json.dumps(value, ensure_ascii=True)


def report_error(code: str, message: str, *, as_json: bool) -> None:
    """Say it once: to people on stderr, to programs on stdout."""
    if as_json:
        sys.stdout.write(json_line(error_object(code, message)) + "\n")
        sys.stdout.flush()
    else:
        sys.stderr.write(f"clinebox: {shown(message, lines=True)}\n")
