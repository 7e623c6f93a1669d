"""Why there is no Cline binary, as a typed trouble, a sentence, and the ways on."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

Progress: TypeAlias = Callable[[int, int | None], None]
"""Bytes of the tarball that are here, and bytes in all where that is known."""

Stopped: TypeAlias = Callable[[], bool]
"""Whether the caller has given up; asked about ten times a second."""

USE_TARBALL: Final = "give the npm tarball with --cline-tarball FILE"
INSTALL_NPM: Final = "install npm, or get it with pip install 'clinebox[fetch]'"
TRY_AGAIN: Final = "try again when the npm registry can be reached"
OTHER_CACHE: Final = "set CLINEBOX_CACHE_DIR to another directory"


class RuntimeTrouble(StrEnum):
    """What stood in the way."""

    UNPINNED = "unpinned"
    PLATFORM = "platform"
    NO_FETCHER = "no_fetcher"
    OFFLINE = "offline"
    """The registry could not be reached."""
    REFUSED = "refused"
    """The registry, or npm itself, said no."""
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    """The caller gave up."""
    DIGEST_MISMATCH = "digest_mismatch"
    BAD_TARBALL = "bad_tarball"
    DISK_FULL = "disk_full"
    CACHE_UNUSABLE = "cache_unusable"
    """The cache directory cannot be made, read or written, or its lock is held for too long."""
    MISSING_TOOLS = "missing_tools"
    """The sandbox lacks what installing needs, and it could not be had."""
    TARGET_UNUSABLE = "target_unusable"
    """The directory in the sandbox cannot be made or written."""
    NOT_OURS = "not_ours"
    """What stands there belongs to another user, or is a link: it is neither trusted nor removed."""
    STALE = "stale"
    """What stands there is unusable, and cannot be replaced without a lock."""
    LOCKED = "locked"
    """Another installer holds the lock for too long."""
    NOT_RUNNABLE = "not_runnable"
    """The pinned binary does not run in this sandbox."""
    SANDBOX = "sandbox"
    """The sandbox itself failed, or gave an answer that the installer never gives."""


@dataclass(frozen=True, slots=True)
class RuntimeFailure:
    """Why there is no binary; `ways_on` are what a person can do, best first."""

    trouble: RuntimeTrouble
    message: str
    ways_on: tuple[str, ...] = ()
    last_lines: tuple[str, ...] = ()
    """Of the installer's log, where it ran in a sandbox: printable, each bounded."""

    def __str__(self) -> str:
        """One sentence for people, with the ways on."""
        return f"{self.message}. Ways on: {'; or '.join(self.ways_on)}" if self.ways_on else self.message


def os_failure(what: str, error: OSError) -> RuntimeFailure:
    """The failure of a file operation in the cache; a full disk (or quota) is told apart."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    trouble = RuntimeTrouble.DISK_FULL if full else RuntimeTrouble.CACHE_UNUSABLE
    reason = "the disk is full" if full else (error.strerror or type(error).__name__)
    ways = ("free some space", OTHER_CACHE) if full else (OTHER_CACHE,)
    return RuntimeFailure(trouble, f"{what} ({reason})", ways)
