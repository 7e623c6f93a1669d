"""The host's cache of Cline binaries: `ensure` gives the path of one, fetching it at most once (SPEC §9).

    <root>/runtimes/cline-<version>-<platform>-<digest>/   manifest.json  bin/cline (0555)
    <root>/locks/…   <root>/staging/…   <root>/retired/…

An entry appears and is replaced by a rename, so whoever runs a binary keeps it. Any number of processes
share a root; the lock of an entry lies outside of it.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.runtime.entry import BINARY, Entry, sync_directory, write_manifest
from clinebox.adapters.runtime.failure import (
    OTHER_CACHE,
    Progress,
    RuntimeFailure,
    RuntimeTrouble,
    Stopped,
    os_failure,
)
from clinebox.adapters.runtime.fetch import find_npm, npm_pack
from clinebox.adapters.runtime.host import host_platform
from clinebox.adapters.runtime.tarball import check_digest, unpack_binary
from clinebox.domain.cline.pins import Pin, Platform, pin_of

DEFAULT_FETCH_TIMEOUT_S: Final = 300.0
DEFAULT_NEEDED_BYTES: Final = 350_000_000
"""Free space wanted before a fetch: the tarball (53 MB), npm's own copy of it, the binary (152 MB), room."""
DEFAULT_LOCK_TIMEOUT_S: Final = DEFAULT_FETCH_TIMEOUT_S + 60.0
"""What the holder may take: a fetch, and unpacking on a slow disk."""
LOCK_POLL_S: Final = 0.2
NAME_DIGEST_CHARS: Final = 32
"""128 bits of the digest: enough to name it; the manifest holds all of it."""


def no_progress(_done_bytes: int, _total_bytes: int | None) -> None:
    """For callers who do not watch."""


def never_stopped() -> bool:
    """For callers who do not give up."""
    return False


@dataclass(frozen=True, slots=True)
class CachedRuntime:
    """A Cline binary that may be run, by any number of users at once."""

    path: Path
    version: str
    integrity: str
    """Of the tarball that it came from: `sha512-…`, as pinned."""
    fetched: bool
    """Whether this call put it into the cache."""


@dataclass(frozen=True, slots=True)
class RuntimeCache:
    """The cache below `root`. `env` is what npm is run with, and where it is looked for."""

    root: Path
    env: Mapping[str, str] = field(repr=False)
    fetch_timeout_s: float = DEFAULT_FETCH_TIMEOUT_S
    lock_timeout_s: float = DEFAULT_LOCK_TIMEOUT_S
    needed_bytes: int = DEFAULT_NEEDED_BYTES
    pins: Callable[[str, Platform], Result[Pin, str]] = pin_of
    host: Callable[[], Result[Platform, str]] = host_platform

    def ensure(
        self,
        version: str,
        *,
        tarball: Path | None = None,
        fully: bool = False,
        progress: Progress = no_progress,
        stopped: Stopped = never_stopped,
    ) -> Result[CachedRuntime, RuntimeFailure]:
        """The binary of a pinned version: from the cache, else from `tarball`, else fetched by npm.

        Blocks; call it in a thread, which `progress` and `stopped` are then called from. A given tarball is
        always checked. `fully` reads the cached binary whole, instead of looking at its size and time; a
        damaged one is replaced. Failure when the version or the host is not served, nothing can be fetched,
        what was fetched is not the pinned tarball, there is no room, or the lock is held for too long.
        """
        return (
            self.host()
            .alt(_platform_failure)
            .bind(lambda platform: self.pins(version, platform).alt(_unpinned_failure))
            .bind(
                lambda pin: _checked_tarball(tarball, pin).bind(
                    lambda given: self._found_or_installed(_Wanted(pin, given, fully, progress, stopped))
                )
            )
        )

    def entry(self, pin: Pin) -> Entry:
        """Where a pin's binary lies, or will."""
        digest = base64.b64decode(pin.sha512_base64).hex()[:NAME_DIGEST_CHARS]
        return Entry(self.root / "runtimes" / f"cline-{pin.version}-{pin.platform}-{digest}", pin)

    def _found_or_installed(self, wanted: _Wanted) -> Result[CachedRuntime, RuntimeFailure]:
        entry = self.entry(wanted.pin)
        if entry.is_sound(fully=wanted.fully):
            return Success(_cached(entry, fetched=False))
        try:
            for name in ("runtimes", "locks", "staging", "retired"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            with self._locked(entry, wanted.stopped) as failure:
                return Failure(failure) if failure is not None else self._install(entry, wanted)
        except OSError as error:
            return Failure(os_failure(f"the cache {str(self.root)!r} cannot be used", error))

    @contextlib.contextmanager
    def _locked(self, entry: Entry, stopped: Stopped) -> Iterator[RuntimeFailure | None]:
        """Hold the entry's lock; yields why it is not held. The kernel frees it when its holder dies."""
        lock = FileLock(self.root / "locks" / f"{entry.directory.name}.lock")
        deadline = time.monotonic() + self.lock_timeout_s
        while True:
            with contextlib.suppress(Timeout):
                lock.acquire(timeout=LOCK_POLL_S)
                break
            if stopped():
                yield RuntimeFailure(RuntimeTrouble.STOPPED, "waiting for the Cline cache was stopped")
                return
            if time.monotonic() > deadline:
                yield _held(lock.lock_file, self.lock_timeout_s)
                return
        try:
            yield None
        finally:
            lock.release()

    def _install(self, entry: Entry, wanted: _Wanted) -> Result[CachedRuntime, RuntimeFailure]:
        """With the lock held: look again (another process may have been faster), stage, publish."""
        if entry.is_sound(fully=wanted.fully):
            return Success(_cached(entry, fetched=False))
        self._sweep(entry)
        lacking = self._lacking_room()
        if lacking is not None:
            return Failure(lacking)
        staging = self.root / "staging" / f"{entry.directory.name}.{secrets.token_hex(6)}"
        staging.mkdir()
        try:
            return self._stage(staging, wanted).map(lambda ready: self._publish(ready, entry))
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _sweep(self, entry: Entry) -> None:
        """Remove what a killed holder of this lock left."""
        for place in ("staging", "retired"):
            for left in (self.root / place).glob(f"{entry.directory.name}.*"):
                _remove(left)

    def _lacking_room(self) -> RuntimeFailure | None:
        free_bytes = shutil.disk_usage(self.root).free
        if free_bytes >= self.needed_bytes:
            return None
        return RuntimeFailure(
            RuntimeTrouble.DISK_FULL,
            f"Cline needs {self.needed_bytes / 1e6:,.0f} MB in {str(self.root)!r}, "
            f"and {free_bytes / 1e6:,.0f} MB are free",
            ("free some space", OTHER_CACHE),
        )

    def _stage(self, staging: Path, wanted: _Wanted) -> Result[Path, RuntimeFailure]:
        """A complete entry in the staging directory, not yet under its name."""
        ready = staging / "entry"
        (ready / "bin").mkdir(parents=True)
        tarball = self._tarball(staging, wanted)
        if not is_successful(tarball):
            return Failure(tarball.failure())
        unpacked = unpack_binary(tarball.unwrap(), ready / BINARY)
        if not is_successful(unpacked):
            return Failure(unpacked.failure())
        write_manifest(ready, wanted.pin, unpacked.unwrap())
        sync_directory(ready / "bin")
        sync_directory(ready)
        return Success(ready)

    def _tarball(self, staging: Path, wanted: _Wanted) -> Result[Path, RuntimeFailure]:
        if wanted.tarball is not None:
            return Success(wanted.tarball)
        into = staging / "fetched"
        into.mkdir()
        wanted.progress(0, None)
        fetched = find_npm(self.env).bind(
            lambda npm: npm_pack(
                npm,
                wanted.pin,
                into,
                env=self.env,
                timeout_s=self.fetch_timeout_s,
                progress=wanted.progress,
                stopped=wanted.stopped,
            )
        )
        checked = fetched.bind(lambda path: check_digest(path, wanted.pin))
        return checked.map(lambda path: _told(path, wanted.progress))

    def _publish(self, ready: Path, entry: Entry) -> CachedRuntime:
        """One rename. A damaged entry is first renamed away: whoever has it open keeps what it has."""
        retired = self.root / "retired" / f"{entry.directory.name}.{secrets.token_hex(6)}"
        with contextlib.suppress(FileNotFoundError):
            entry.directory.rename(retired)
        os.rename(ready, entry.directory)  # noqa: PTH104  (Path.rename would hide that the target must be new)
        sync_directory(entry.directory.parent)
        _remove(retired)
        return _cached(entry, fetched=True)


def _remove(path: Path) -> None:
    """Best effort: what cannot be removed now is swept by the next holder of the lock."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        path.unlink()


@dataclass(frozen=True, slots=True)
class _Wanted:
    pin: Pin
    tarball: Path | None
    fully: bool
    progress: Progress
    stopped: Stopped


def _checked_tarball(tarball: Path | None, pin: Pin) -> Result[Path | None, RuntimeFailure]:
    return Success(None) if tarball is None else check_digest(tarball, pin).map(lambda path: path)


def _told(path: Path, progress: Progress) -> Path:
    size_bytes = path.stat().st_size
    progress(size_bytes, size_bytes)
    return path


def _cached(entry: Entry, *, fetched: bool) -> CachedRuntime:
    return CachedRuntime(entry.binary, entry.pin.version, entry.pin.integrity, fetched)


def _platform_failure(sentence: str) -> RuntimeFailure:
    return RuntimeFailure(RuntimeTrouble.PLATFORM, sentence)


def _unpinned_failure(sentence: str) -> RuntimeFailure:
    return RuntimeFailure(RuntimeTrouble.UNPINNED, sentence)


def _held(lock_file: str, waited_s: float) -> RuntimeFailure:
    return RuntimeFailure(
        RuntimeTrouble.CACHE_UNUSABLE,
        f"another process has held the lock {lock_file!r} for {waited_s:g} s",
        ("end that process and try again", OTHER_CACHE),
    )
