"""One entry of the cache: a directory that is published whole, and checked cheaply at each use."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from clinebox.adapters.runtime.tarball import UnpackedBinary
from clinebox.domain.cline.pins import Pin
from clinebox.domain.json_value import as_int, as_mapping, as_text, parse_json

BINARY: Final = "bin/cline"
MANIFEST: Final = "manifest.json"
MANIFEST_LIMIT_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was published, so that damage is found without the tarball.

    Read at every run, so without pydantic: its import alone would be a fifth of clinebox's own share.
    """

    version: str
    platform: str
    integrity: str
    """Of the tarball: the pin's."""
    binary_sha512: str
    binary_size_bytes: int
    binary_mtime_ns: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Where the binary of a pin lies once it is published; named by the pin's digest."""

    directory: Path
    pin: Pin

    @property
    def binary(self) -> Path:
        """The program."""
        return self.directory / BINARY

    def is_sound(self, *, fully: bool = False) -> bool:
        """Whether the published binary is the one that was published.

        By size and modification time; where the time differs (a copied cache), or `fully`, by its digest.
        """
        manifest = _read_manifest(self.directory / MANIFEST)
        if manifest is None or manifest.integrity != self.pin.integrity:
            return False
        try:
            found = self.binary.lstat()
            if not _looks_like(found, manifest):
                return False
            if found.st_mtime_ns == manifest.binary_mtime_ns and not fully:
                return True
            return _sha512(self.binary) == manifest.binary_sha512
        except OSError:
            return False


def write_manifest(directory: Path, pin: Pin, binary: UnpackedBinary) -> None:
    """Describe the binary in a directory that is about to be published; on the disk before it returns."""
    manifest = Manifest(
        version=pin.version,
        platform=pin.platform,
        integrity=pin.integrity,
        binary_sha512=binary.sha512_hex,
        binary_size_bytes=binary.size_bytes,
        binary_mtime_ns=binary.path.stat().st_mtime_ns,
    )
    with (directory / MANIFEST).open("x", encoding="utf-8") as file:
        file.write(json.dumps(asdict(manifest), indent=2))
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Bring a directory's names to the disk (fsync(2): a file's own fsync does not)."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _looks_like(found: os.stat_result, manifest: Manifest) -> bool:
    executable = stat.S_IMODE(found.st_mode) & 0o555 == 0o555  # noqa: PLR2004  (read and run for everybody)
    return stat.S_ISREG(found.st_mode) and executable and found.st_size == manifest.binary_size_bytes


def _read_manifest(path: Path) -> Manifest | None:
    try:
        with path.open("rb") as file:
            members = as_mapping(parse_json(file.read(MANIFEST_LIMIT_BYTES)).value_or({}))
    except OSError:
        return None
    version, platform = as_text(members.get("version")), as_text(members.get("platform"))
    integrity, sha512 = as_text(members.get("integrity")), as_text(members.get("binary_sha512"))
    size_bytes, mtime_ns = as_int(members.get("binary_size_bytes")), as_int(members.get("binary_mtime_ns"))
    if version is None or platform is None or integrity is None or sha512 is None:
        return None
    if size_bytes is None or mtime_ns is None:
        return None
    return Manifest(version, platform, integrity, sha512, size_bytes, mtime_ns)


def _sha512(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest()
