"""Finds the runs below a path: a run directory, a folder of them at any depth, or a stream file alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from clinebox.adapters.run_directory import names

_MARKS: Final = frozenset(
    {names.STDOUT, names.CLINE_LOG, names.CLINE_LOG_EXCERPT, names.STDERR, names.RECEIPT, names.OUTCOME}
)


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A directory that holds one run."""

    path: Path


@dataclass(frozen=True, slots=True)
class StreamFile:
    """Cline's stdout alone: a file, a pipe, or standard input (`-`)."""

    path: Path


@dataclass(frozen=True, slots=True)
class NoRun:
    """A path at which there is nothing to classify: `code` for programs, `message` for people."""

    path: Path
    code: str
    message: str


Found: TypeAlias = RunDirectory | StreamFile | NoRun

STDIN: Final = Path("-")
NOT_FOUND: Final = "not_found"
NO_RUN: Final = "no_run"
UNREADABLE: Final = "unreadable"


def find_runs(path: Path) -> Iterator[Found]:
    """Everything to classify at a path, in the order of names; at least one thing, if only a `NoRun`.

    A directory with any file of a run is one run and is not searched further. Symbolic links are followed,
    each directory is visited once, and one that cannot be read is a `NoRun` beside the others.
    """
    if path == STDIN or (_is_there(path) and not _is_directory(path)):
        # Also a pipe: `clinebox classify <(zcat run.ndjson.gz)`.
        yield StreamFile(path)
    elif not _is_there(path):
        yield NoRun(path, NOT_FOUND, f"there is no {str(path)!r}")
    else:
        yield from _below(path)


def _is_there(path: Path) -> bool:
    # Unlike Path.exists this is False, not an error, for a name that is too long or holds a NUL.
    return os.path.exists(path)  # noqa: PTH110


def _is_directory(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 (as above)


def _below(root: Path) -> Iterator[Found]:
    found = False
    seen: set[tuple[int, int]] = set()
    waiting = [root]
    while waiting:
        here = waiting.pop()
        for thing in _visit(here, seen, waiting):
            found = True
            yield thing
    if not found:
        yield NoRun(root, NO_RUN, f"{str(root)!r} holds no run: no {names.STDOUT} in it or below it")


def _visit(here: Path, seen: set[tuple[int, int]], waiting: list[Path]) -> Iterator[Found]:
    """This directory's run, or its subdirectories for later, in order."""
    try:
        status = here.stat()
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        entries = sorted(os.listdir(here))  # noqa: PTH208 (names are enough, and Path.iterdir makes objects)
        folders = [here / name for name in entries if _is_directory(here / name)]
    except OSError as error:
        yield NoRun(here, UNREADABLE, f"{str(here)!r} cannot be read: {error.strerror}")
        return
    # A meta.json may also describe the folder of runs that it stands in.
    if _MARKS.intersection(entries) or (names.META in entries and not folders):
        yield RunDirectory(here)
    else:
        waiting.extend(reversed(folders))
