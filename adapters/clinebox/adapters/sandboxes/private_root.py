"""The private directory of one local sandbox on this host: made, locked while its owner lives, removed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

PREFIX: Final = "cbx-"
FORBIDDEN_WORDS: Final = ("python", "node", "cline")
"""An agent's `pkill -f python` matches argv, and the root's path stands in the supervisor's."""
END_MARK: Final = "ended"


@dataclass(frozen=True, slots=True)
class PrivateRoot:
    """A 0700 directory; `lock_fd` holds the lock that says its owner lives."""

    path: Path
    lock_fd: int
    sandbox_id: str
    """The directory's name, unique on this host; everything that is started carries it."""

    def for_probe(self) -> PrivateRoot:
        """A place below this root for a trial start: bubblewrap makes its mount points in `top`."""
        return make_directories(replace(self, path=self.path / "probe"))

    @property
    def end_mark(self) -> Path:
        """There once somebody has begun to end the sandbox: every handle on it then knows."""
        return self.path / END_MARK

    @property
    def is_ended(self) -> bool:
        """Whether somebody has begun to end it, or has removed it; once true it stays so."""
        return self.end_mark.exists() or not self.path.exists()

    def mark_ended(self) -> None:
        """Tell the other handles; on a full disk they learn it when the root is gone."""
        with contextlib.suppress(OSError):
            self.end_mark.touch(mode=0o600)

    @property
    def sessions(self) -> Path:
        """For session directories; the same path inside."""
        return self.path / "s"

    @property
    def home(self) -> Path:
        """The HOME of everything in the sandbox; the same path inside."""
        return self.path / "home"

    @property
    def temporary(self) -> Path:
        """`/tmp` where it can be mapped, else TMPDIR."""
        return self.path / "tmp"

    @property
    def variable_temporary(self) -> Path:
        """`/var/tmp` where it can be mapped."""
        return self.path / "vartmp"

    @property
    def logs(self) -> Path:
        """`/logs` where it can be mapped (SPEC §13)."""
        return self.path / "logs"

    @property
    def top(self) -> Path:
        """`/` itself where it can be mapped: what is made beside the system's own directories."""
        return self.path / "top"


def base_directory() -> Path:
    """Where private roots are made: TMPDIR, or /tmp where TMPDIR holds a word that `pkill -f` may ask for."""
    wanted = Path(tempfile.gettempdir()).resolve()
    named = any(word in str(wanted).lower() for word in FORBIDDEN_WORDS)
    return Path("/tmp") if named else wanted  # noqa: S108 - made 0700 under an unguessable name


def create_private_root(base: Path) -> PrivateRoot:
    """Make and lock a new root; raises OSError (disk full, no permission) with nothing left behind."""
    while True:
        # Hexadecimal digits spell none of the forbidden words.
        path = base / f"{PREFIX}{secrets.token_hex(6)}"
        path.mkdir(mode=0o700)
        lock = _lock(path)
        if lock is None:  # a reaper came between mkdir and lock, and took the new root for a dead one
            continue
        root = PrivateRoot(path, lock, path.name)
        try:
            make_directories(root)
        except BaseException:
            remove_private_root(root)
            raise
        return root


def make_directories(root: PrivateRoot) -> PrivateRoot:
    """The root with its directories made; raises OSError.

    What is seen as `/`, `/tmp`, `/var/tmp` and `/logs` has the usual modes, so that root inside can run
    something as another user; on this host the root itself, 0700, keeps others out.
    """
    wanted = {
        root.sessions: 0o700,
        root.home: 0o700,
        root.temporary: 0o1777,
        root.variable_temporary: 0o1777,
        root.logs: 0o755,
        root.top: 0o755,
    }
    for path, mode in wanted.items():
        path.mkdir(mode=0o700, parents=True)
        path.chmod(mode)
    return root


def _opened(path: Path) -> int | None:
    """A descriptor of a root; None when it is gone, no directory, or not ours."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    if os.fstat(fd).st_uid == os.geteuid():
        return fd
    os.close(fd)
    return None


def _lock(path: Path) -> int | None:
    """Lock a root; None when it is locked by a living owner, or gone, or not ours."""
    fd = _opened(path)
    if fd is None:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), path.lstat()):
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def abandoned_roots(base: Path) -> Iterator[PrivateRoot]:
    """Roots of this user whose owner died without removing them (SIGKILL), locked for the caller."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        for path in base.glob(f"{PREFIX}*"):
            lock = _lock(path)
            if lock is not None:
                yield PrivateRoot(path, lock, path.name)


def opened_roots(base: Path) -> Iterator[PrivateRoot]:
    """Every root of this user, its owner living or not, opened for the caller without the lock."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        for path in sorted(base.glob(f"{PREFIX}*")):
            fd = _opened(path)
            if fd is not None:
                yield PrivateRoot(path, fd, path.name)


def opened_root(path: Path) -> PrivateRoot | None:
    """The same for one path; None when it is no root of this user's."""
    fd = _opened(path) if path.is_absolute() and path.name.startswith(PREFIX) else None
    return None if fd is None else PrivateRoot(path, fd, path.name)


def is_abandoned(root: PrivateRoot) -> bool:
    """Whether no living owner holds the lock of an opened root."""
    try:
        fcntl.flock(root.lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    fcntl.flock(root.lock_fd, fcntl.LOCK_UN)
    return True


def remove_private_root(root: PrivateRoot) -> None:
    """Remove the root whole, then unlock; raises OSError (still locked) when something cannot be removed.

    The end mark goes last, under another name: every handle sees the mark or no root, at any moment.
    """
    with contextlib.suppress(FileNotFoundError):
        _empty(root.path, but=END_MARK)
        retired = root.path.rename(root.path.with_name(f"{root.path.name}-gone"))
        _empty(retired)
        retired.rmdir()
    os.close(root.lock_fd)


def _empty(top: Path, *, but: str | None = None) -> None:
    """Remove everything below `top` except one name, at constant depth and with two descriptors.

    Directories that are not empty are moved up to `top` and emptied there: a tree of any depth costs
    neither stack nor descriptors, and no symlink is ever followed. Modes do not matter (000 is made 700).
    """
    top_fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(top_fd, 0o700)
        while names := set(os.listdir(top_fd)) - {but}:  # noqa: PTH208 - by descriptor, which pathlib cannot
            for name in names:
                _remove_entry(name, top_fd, top_fd)
    finally:
        os.close(top_fd)


def _remove_entry(name: str, parent_fd: int, top_fd: int) -> None:
    """Remove one entry; of a directory that is not empty, its files, while its directories move to `top`."""
    if not stat.S_ISDIR(os.lstat(name, dir_fd=parent_fd).st_mode):
        os.unlink(name, dir_fd=parent_fd)
        return
    if _removed_directory(name, parent_fd):
        return
    _make_accessible(name, parent_fd)
    if parent_fd != top_fd:
        os.rename(name, secrets.token_hex(16), src_dir_fd=parent_fd, dst_dir_fd=top_fd)
        return
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        for inner in os.listdir(fd):  # noqa: PTH208 - as above
            _remove_entry(inner, fd, top_fd)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent_fd)


def _removed_directory(name: str, parent_fd: int) -> bool:
    try:
        os.rmdir(name, dir_fd=parent_fd)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        return False
    return True


def _make_accessible(name: str, parent_fd: int) -> None:
    """Give the owner all rights on a directory, through a handle that follows no symlink."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 - a descriptor, not a path
    finally:
        os.close(handle)
