"""Files of a local sandbox, read and written from the host without ever being led outside.

The agent can write where these files lie, so every path is walked by directory descriptors from an area's
own root, opened before the agent started, and no symlink is followed at any step (openat(2), O_NOFOLLOW).
Only regular files are opened: a FIFO or a device would block, or do something by being opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from returns.result import Failure, Result, Success

from clinebox.domain.ports import SandboxFailure, SandboxTrouble

DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Area:
    """A part of the sandbox's file system: where it is seen inside, and the host directory behind it."""

    inside: PurePosixPath
    host: Path | None
    """None: nothing behind it is shown (a hidden home)."""
    writable_fd: int | None = None
    """The directory itself, opened before the agent started; None where the sandbox may not write."""


class _RefusedError(Exception):
    """Ends a walk with a typed failure; never leaves this module."""

    def __init__(self, trouble: SandboxTrouble, message: str) -> None:
        super().__init__(message)
        self.failure = SandboxFailure(trouble, message)


def open_areas(wanted: Iterable[tuple[Path, Path | None, bool]]) -> tuple[Area, ...]:
    """Areas from (path inside, host directory, writable); a later one replaces one of the same path.

    Raises OSError, with nothing left open, when a directory to be written to cannot be opened.
    """
    areas: dict[Path, Area] = {}
    try:
        for inside, host, writable in wanted:
            if (replaced := areas.pop(inside, None)) is not None:
                close_areas((replaced,))
            fd = os.open(host, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if host and writable else None
            areas[inside] = Area(PurePosixPath(inside), host, fd)
    except OSError:
        close_areas(areas.values())
        raise
    return tuple(areas.values())


def close_areas(areas: Iterable[Area]) -> None:
    """Give back the descriptors."""
    for area in areas:
        if area.writable_fd is not None:
            os.close(area.writable_fd)


def write_file(areas: tuple[Area, ...], path: str, content: bytes, mode: int) -> Result[None, SandboxFailure]:
    """Put a whole file in place by rename, parents made 0700.

    Failure(BAD_REQUEST) when the path is not absolute, lies in no writable area, leads through a symlink or
    a file, or names something that is no regular file; Failure(DISK_FULL) with the old file untouched.
    """
    try:
        area, parts = _locate(areas, path, to_write=True)
        with _parent_directory(area, parts, make=True) as parent:
            _refuse_odd_target(parts[-1], parent, path)
            _publish(parts[-1], parent, content, mode)
    except _RefusedError as refused:
        return Failure(refused.failure)
    except OSError as error:
        return Failure(_translated(error, path, "written"))
    return Success(None)


def read_file(
    areas: tuple[Area, ...], path: str, offset_bytes: int, limit_bytes: int
) -> Result[bytes, SandboxFailure]:
    """Read at most `limit_bytes` of a regular file from `offset_bytes`; beyond its end there is nothing.

    Failure(NOT_FOUND); Failure(BAD_REQUEST) for a symlink on the way, or anything but a regular file.
    """
    try:
        area, parts = _locate(areas, path, to_write=False)
        with (
            _parent_directory(area, parts, make=False) as parent,
            _regular_file(parts[-1], parent, path) as fd,
        ):
            return Success(_read(fd, offset_bytes, limit_bytes))
    except _RefusedError as refused:
        return Failure(refused.failure)
    except OSError as error:
        return Failure(_translated(error, path, "read"))


def _bad(message: str) -> _RefusedError:
    return _RefusedError(SandboxTrouble.BAD_REQUEST, message)


def _locate(areas: tuple[Area, ...], path: str, *, to_write: bool) -> tuple[Area, tuple[str, ...]]:
    """The innermost area that a path lies in, and the path's parts below it."""
    if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise _bad(f"A path in the sandbox must be absolute and without '..', not {path!r}.")
    wanted = PurePosixPath("/", path.lstrip("/"))
    around = [area for area in areas if wanted.is_relative_to(area.inside)]
    area = max(around, key=lambda each: len(each.inside.parts), default=None)
    if area is None or area.host is None:
        raise _bad(f"{path} is not visible in this sandbox.")
    if to_write and area.writable_fd is None:
        raise _bad(f"{path} is read-only here; writable are: {_writable_places(areas)}.")
    parts = wanted.relative_to(area.inside).parts
    if not parts:
        raise _bad(f"{path} is a directory.")
    return area, parts


def _writable_places(areas: tuple[Area, ...]) -> str:
    return ", ".join(sorted(str(area.inside) for area in areas if area.writable_fd is not None))


@contextlib.contextmanager
def _parent_directory(area: Area, parts: tuple[str, ...], *, make: bool) -> Iterator[int]:
    """The directory that holds the last part, reached step by step from the area's root."""
    root = area.host if area.writable_fd is None else Path(f"/proc/self/fd/{area.writable_fd}")
    fd = os.open(root or "/dev/null", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, part in enumerate(parts[:-1], start=1):
            deeper = _step(fd, part, str(area.inside.joinpath(*parts[:number])), make=make)
            os.close(fd)
            fd = deeper
        yield fd
    finally:
        os.close(fd)


def _step(fd: int, part: str, shown: str, *, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, 0o700, dir_fd=fd)
    try:
        return os.open(part, DIRECTORY_FLAGS, dir_fd=fd)
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP}:  # a symlink gives ENOTDIR beside O_DIRECTORY
            raise _bad(f"{shown} is no directory (symbolic links are not followed).") from error
        raise


def _refuse_odd_target(name: str, parent: int, path: str) -> None:
    """Rename would replace a symlink or FIFO itself, never what it points at; refused all the same."""
    with contextlib.suppress(FileNotFoundError):
        _refuse_unless_regular(os.lstat(name, dir_fd=parent).st_mode, path)


def _refuse_unless_regular(mode: int, path: str) -> None:
    if not stat.S_ISREG(mode):
        raise _bad(f"{path} is {_kind(mode)}, not a regular file.")


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for test, name in kinds if test(mode)), "a device")


def _publish(name: str, parent: int, content: bytes, mode: int) -> None:
    temporary = f".{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o600, dir_fd=parent)
    try:
        try:
            _write_all(fd, content)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)
        raise


def _write_all(fd: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(fd, left) :]


@contextlib.contextmanager
def _regular_file(name: str, parent: int, path: str) -> Iterator[int]:
    """Open for reading what was first looked at through a handle that opens nothing (O_PATH)."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        _refuse_unless_regular(os.fstat(handle).st_mode, path)
        fd = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(handle)
    try:
        yield fd
    finally:
        os.close(fd)


def _read(fd: int, offset_bytes: int, limit_bytes: int) -> bytes:
    kept = bytearray()
    while len(kept) < limit_bytes:
        chunk = os.pread(fd, min(READ_BYTES, limit_bytes - len(kept)), offset_bytes + len(kept))
        if not chunk:
            break
        kept += chunk
    return bytes(kept)


def _translated(error: OSError, path: str, verb: str) -> SandboxFailure:
    reason = os.strerror(error.errno) if error.errno is not None else str(error)
    message = f"{path} could not be {verb}: {reason}."
    match error.errno:
        case errno.ENOENT:
            return SandboxFailure(SandboxTrouble.NOT_FOUND, f"There is no {path} in the sandbox.")
        case number if number in NO_ROOM:
            return SandboxFailure(SandboxTrouble.DISK_FULL, message)
        case _:
            return SandboxFailure(SandboxTrouble.BAD_REQUEST, message)
