"""The task's directory: what is checked before anything starts, and a copy of it for `--copy-workdir`."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.private_root import PREFIX
from clinebox.domain.ports import SandboxFailure, SandboxTrouble


def _refused(message: str) -> Failure[SandboxFailure]:
    return Failure(SandboxFailure(SandboxTrouble.BAD_REQUEST, message))


def checked_workdir(workdir: str, private_base: Path) -> Result[Path, SandboxFailure]:
    """The work directory with symlinks resolved, ready to be worked on in place.

    Failure(BAD_REQUEST) when it is not absolute, missing, no directory, not readable and writable for this
    user (the kernel's own access check), or holds `private_base`, where private directories are made (then
    it would hold the session's own files), or lies in one of them.
    """
    if not workdir.startswith("/") or "\0" in workdir:
        return _refused(f"The work directory must be an absolute path, not {workdir!r}.")
    try:
        path = Path(workdir).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        return _refused(
            f"The work directory {_shown(workdir)} cannot be reached: {_reason(error)}. Create it first."
        )
    if not path.is_dir():
        return _refused(f"The work directory {workdir} is not a directory.")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return _refused(f"The work directory {workdir} is not readable and writable for this user.")
    return _away_from_private_roots(path, private_base)


def _away_from_private_roots(path: Path, base: Path) -> Result[Path, SandboxFailure]:
    if base.is_relative_to(path):
        return _refused(
            f"The work directory {path} holds {base}, where clinebox keeps the session's own files. "
            "Use a directory below it, or set TMPDIR to another place."
        )
    inside = path.relative_to(base).parts[0] if path.is_relative_to(base) else ""
    if inside.startswith(PREFIX):
        return _refused(f"The work directory {path} lies in a sandbox's private directory. Use another one.")
    return Success(path)


def _reason(error: OSError | RuntimeError | ValueError) -> str:
    """Pathlib (3.11) raises RuntimeError for a loop, ValueError for what no file name can hold."""
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return "a loop of symbolic links" if isinstance(error, RuntimeError) else "no file can have such a name"


def _shown(path: str) -> str:
    """Printable whatever is in it."""
    return path.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class WorkdirCopy:
    """A copy, and what was left out of it: sockets, FIFOs and devices, relative to the source."""

    path: Path
    skipped: tuple[str, ...]


def copy_of_workdir(source: Path, destination_root: Path) -> Result[WorkdirCopy, SandboxFailure]:
    """Copy a work directory below `destination_root` under its own name; symlinks stay symlinks.

    Failure(BAD_REQUEST) when something cannot be read or the copy is there already; Failure(DISK_FULL).
    On failure nothing of the copy is left.
    """
    target = destination_root / source.name
    if target.is_relative_to(source):
        return _refused(f"A copy of {source} cannot lie inside of it ({target}).")
    if target.exists():
        return _refused(f"{target} is there already; the copy needs a new place.")
    skipped: list[str] = []

    def special(directory: str, names: list[str]) -> set[str]:
        found = {name for name in names if _is_special(Path(directory, name))}
        skipped.extend(str(Path(directory, name).relative_to(source)) for name in sorted(found))
        return found

    try:
        shutil.copytree(source, target, symlinks=True, ignore=special)
    except (OSError, shutil.Error) as error:
        shutil.rmtree(target, ignore_errors=True)
        return Failure(_copy_failure(source, error))
    return Success(WorkdirCopy(target, tuple(skipped)))


def _is_special(path: Path) -> bool:
    mode = path.lstat().st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


def _copy_failure(source: Path, error: OSError) -> SandboxFailure:
    """`shutil.Error` holds a list of (source, target, reason); the first one tells enough."""
    nested = error.args[0] if isinstance(error, shutil.Error) else None
    first = nested[0][2] if isinstance(nested, list) and nested else str(error)
    full = error.errno in {errno.ENOSPC, errno.EDQUOT} or os.strerror(errno.ENOSPC) in str(first)
    trouble = SandboxTrouble.DISK_FULL if full else SandboxTrouble.BAD_REQUEST
    return SandboxFailure(trouble, f"The work directory {source} could not be copied: {first}")
