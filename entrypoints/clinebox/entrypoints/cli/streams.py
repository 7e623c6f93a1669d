"""The standard streams as they may be: closed, on a full disk, without a reader, a terminal that is gone."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import Final, NoReturn

from rich.console import Console

STANDARD_DESCRIPTORS: Final = (0, 1, 2)


def open_what_is_closed() -> None:
    """Give a closed standard stream (`2>&-`) /dev/null; else a file opened later would take its number."""
    for descriptor in STANDARD_DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def let_stderr_never_fail() -> None:
    """What is said to people is a courtesy: a run must not end because nobody can be told."""
    if isinstance(sys.stderr, io.TextIOWrapper) and not isinstance(sys.stderr, CourtesyStream):
        encoding = sys.stderr.encoding
        sys.stderr = CourtesyStream(sys.stderr.detach(), encoding=encoding, line_buffering=True)


class CourtesyStream(io.TextIOWrapper):
    """A text stream that drops what it cannot write."""

    def write(self, text: str, /) -> int:
        """Write, if it can be written."""
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, if it can be flushed."""
        with contextlib.suppress(OSError):
            super().flush()


class OutputConsole(Console):
    """rich, without its own end of the program at a broken pipe: exit 1 would say that the run failed."""

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to `main`, which has an exit code for it."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
