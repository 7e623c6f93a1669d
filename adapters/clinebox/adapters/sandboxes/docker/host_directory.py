"""The private directory of one container on this host, bound into it at the same path.

It is not found by the local provider's clean-up: a container outlives its controller, by design.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clinebox.adapters.sandboxes.private_root import PrivateRoot, make_directories, remove_private_root

PREFIX: Final = "cbd-"
ENGINE_FILE: Final = "engine"
ADDRESS_LIMIT_BYTES: Final = 4_096


def create_host_directory(base: Path, engine_address: str) -> PrivateRoot:
    """A new one, locked while its owner lives; raises OSError with nothing left behind."""
    path = base / f"{PREFIX}{secrets.token_hex(6)}"
    path.mkdir(mode=0o700)
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    root = PrivateRoot(path, lock, path.name)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (path / ENGINE_FILE).write_text(engine_address, "utf-8")
        make_directories(root)
    except BaseException:
        remove_private_root(root)
        raise
    return root


def open_host_directory(path: Path) -> PrivateRoot | None:
    """An existing one, whoever owns it; None where there is none of this user's."""
    if not path.name.startswith(PREFIX):
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    if os.fstat(fd).st_uid != os.geteuid():
        os.close(fd)
        return None
    return PrivateRoot(path, fd, path.name)


@dataclass(frozen=True, slots=True)
class Unowned:
    """A directory whose owner is gone, locked for the caller."""

    root: PrivateRoot

    def release(self) -> None:
        """Leave it as it is."""
        os.close(self.root.lock_fd)


def unowned_directories(base: Path, engine_address: str) -> Iterator[Unowned]:
    """Directories of this user and engine that no living process holds: of killed or disconnected owners."""
    for path in base.glob(f"{PREFIX}*"):
        root = open_host_directory(path)
        if root is None:
            continue
        if _address_of(path) == engine_address and _take(root.lock_fd):
            yield Unowned(root)
        else:
            os.close(root.lock_fd)


def _take(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _address_of(path: Path) -> str | None:
    try:
        with (path / ENGINE_FILE).open("rb") as stream:
            return stream.read(ADDRESS_LIMIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
