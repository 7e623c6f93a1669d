"""An npm tarball of Cline: checked against its pin, and the one file in it that is wanted."""

from __future__ import annotations

import base64
import hashlib
import os
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from returns.result import Failure, Result, Success

from clinebox.adapters.runtime.failure import (
    USE_TARBALL,
    RuntimeFailure,
    RuntimeTrouble,
    os_failure,
)
from clinebox.domain.cline.pins import Pin

BINARY_MEMBER: Final = "package/bin/cline"
BINARY_LIMIT_BYTES: Final = 512 * 1024 * 1024
"""3.0.65 has 152 MB."""
CHUNK_BYTES: Final = 1024 * 1024
READ_ONLY_EXECUTABLE: Final = 0o555


@dataclass(frozen=True, slots=True)
class UnpackedBinary:
    """The binary that was written, with what tells it from a damaged one."""

    path: Path
    sha512_hex: str
    size_bytes: int


def check_digest(tarball: Path, pin: Pin) -> Result[Path, RuntimeFailure]:
    """The tarball itself when its SHA-512 is the pinned one; read as a stream.

    Failure(DIGEST_MISMATCH) with both digests, or when it cannot be read.
    """
    try:
        with tarball.open("rb") as file:
            digest = hashlib.file_digest(file, "sha512").digest()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        message = f"the tarball {str(tarball)!r} cannot be read ({reason})"
        return Failure(RuntimeFailure(RuntimeTrouble.BAD_TARBALL, message, ("give a readable file",)))
    found = base64.b64encode(digest).decode()
    if found == pin.sha512_base64:
        return Success(tarball)
    ways = (f"check your npm mirror, or fetch it elsewhere with `npm pack {pin.spec}`", USE_TARBALL)
    message = (
        f"the tarball of {pin.spec} is not the pinned one and was not used; "
        f"its digest is sha512-{found}, the pinned one is {pin.integrity}"
    )
    return Failure(RuntimeFailure(RuntimeTrouble.DIGEST_MISMATCH, message, ways))


def unpack_binary(tarball: Path, target: Path) -> Result[UnpackedBinary, RuntimeFailure]:
    """Write the one member `package/bin/cline` to `target`, mode 0555, on the disk before it returns.

    Nothing else of the archive is written, so no name in it matters. Failure(BAD_TARBALL) when the member
    is missing, no regular file, over 512 MiB, or the archive is damaged; DISK_FULL when it does not fit.
    """
    try:
        with tarfile.open(tarball, "r:gz") as archive:
            return _unpack_from(archive, target)
    except (tarfile.TarError, EOFError, zlib.error, UnicodeError) as error:
        return _bad(f"the tarball is damaged ({type(error).__name__})")
    except OSError as error:
        # gzip raises BadGzipFile, an OSError without an errno, for bytes that are no gzip.
        if error.errno is None:
            return _bad(f"the tarball is damaged ({type(error).__name__})")
        return Failure(os_failure("the Cline binary could not be unpacked into the cache", error))


def _unpack_from(archive: tarfile.TarFile, target: Path) -> Result[UnpackedBinary, RuntimeFailure]:
    member = next((entry for entry in archive if entry.name == BINARY_MEMBER), None)
    if member is None:
        return _bad(f"the tarball has no {BINARY_MEMBER}")
    if not member.isreg():
        return _bad(f"{BINARY_MEMBER} in the tarball is no regular file")
    if not 0 < member.size <= BINARY_LIMIT_BYTES:
        return _bad(f"{BINARY_MEMBER} in the tarball has {member.size:,} bytes")
    source = archive.extractfile(member)
    if source is None:
        return _bad(f"{BINARY_MEMBER} in the tarball has no content")
    with source:
        return _written(source, member.size, target)


def _written(source: IO[bytes], size_bytes: int, target: Path) -> Result[UnpackedBinary, RuntimeFailure]:
    digest = hashlib.sha512()
    written = 0
    with target.open("xb") as out:
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
            written += out.write(chunk)
        out.flush()
        os.fchmod(out.fileno(), READ_ONLY_EXECUTABLE)
        os.fsync(out.fileno())
    if written != size_bytes:
        return _bad(f"{BINARY_MEMBER} in the tarball ends after {written:,} of {size_bytes:,} bytes")
    return Success(UnpackedBinary(target, digest.hexdigest(), written))


def _bad(message: str) -> Result[UnpackedBinary, RuntimeFailure]:
    return Failure(RuntimeFailure(RuntimeTrouble.BAD_TARBALL, message, (USE_TARBALL,)))
