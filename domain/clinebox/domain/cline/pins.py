"""The pinned Cline binaries: version → platform → SHA-512 (SPEC §9). Data and look-ups, no I/O.

Digests are npm's `dist.integrity` of `@cline/cli-<platform>`; each was compared with its downloaded tarball.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from returns.result import Failure, Result, Success

from clinebox.domain.one_line import excerpt


class Platform(StrEnum):
    """What a Cline binary runs on, in the words of npm's package names."""

    LINUX_X64 = "linux-x64"
    LINUX_ARM64 = "linux-arm64"


@dataclass(frozen=True, slots=True)
class Pin:
    """One tarball: what npm calls it, and the only digest that it may have."""

    version: str
    platform: Platform
    sha512_base64: str
    size_bytes: int | None = None
    """Of the tarball, for a progress bar; the digest alone decides."""

    @property
    def integrity(self) -> str:
        """The digest as npm writes it in `dist.integrity` (Subresource Integrity, section 3.5)."""
        return f"sha512-{self.sha512_base64}"

    @property
    def package(self) -> str:
        """The npm package that holds the binary."""
        return f"@cline/cli-{self.platform}"

    @property
    def spec(self) -> str:
        """What `npm pack` is asked for."""
        return f"{self.package}@{self.version}"


_X64_SHA512: Final = {
    "3.0.57": "LoTS+6ft4tmfOeebOWdpzSwahySqCSMYom37dGtf4tK//Yx8c55WFAw+NxS4hKNjzB0SEbNKHEmCr3wFI8jyfg==",
    "3.0.61": "dsCg3/UVMl079e0GA8BUTszlZzHd9/JhZ6/23To9Zk/7JacGSThM731ygDEjJ19R3wi+JCXu1GBoLsg0HRiFBA==",
    "3.0.62": "HRj/3sFY/81tOv3yznViSuS6G5lEV7GRlELvPi1k0eAfzsglhH6kgPnFCM+jMJ7C3evwf8nVzvrcP+xipPlHiw==",
    "3.0.64": "jyd/ELaV8OuN+0B1meq+2WhWNPAPWSApfRN8Ft93VlLDumRT1MTvJUi0Btlao4MPctFEkpNJEcpFNC/W5GrFVg==",
    "3.0.65": "YRDt0eNj/XEMB7DeMeOeE92jQFf7DyKGCysStxrk+mIKdO0GVPugDG4yxsmKtBouBnaRVteW3NwYEnSq2kah8A==",
}
"""Oldest first."""

_X64_SIZES_BYTES: Final = {
    "3.0.57": 52_471_015,
    "3.0.61": 52_573_881,
    "3.0.62": 52_599_487,
    "3.0.64": 52_553_426,
    "3.0.65": 52_563_713,
}

PINS: Final[Mapping[str, Mapping[Platform, Pin]]] = MappingProxyType(
    {
        version: MappingProxyType(
            {Platform.LINUX_X64: Pin(version, Platform.LINUX_X64, digest, _X64_SIZES_BYTES[version])}
        )
        for version, digest in _X64_SHA512.items()
    }
)
"""linux-arm64 has no row: its package could not be had, so no digest of it was ever seen."""

VERSIONS: Final = tuple(PINS)
NEWEST: Final = VERSIONS[-1]

_VERSION_SHOWN_CHARS: Final = 40
_MACHINES: Final = {
    "x86_64": Platform.LINUX_X64,
    "amd64": Platform.LINUX_X64,
    "aarch64": Platform.LINUX_ARM64,
    "arm64": Platform.LINUX_ARM64,
}
_GLIBC: Final = re.compile(r"(?:glibc|gnu)\b", re.IGNORECASE)


def pinned(version: str) -> Result[str, str]:
    """The version itself when it is pinned.

    Failure(sentence) with the list when it is not: no digest is known, so what is fetched could be anything.

    >>> pinned("3.0.57").unwrap()
    '3.0.57'
    >>> pinned("latest").failure()
    "Cline 'latest' is not pinned: choose one of 3.0.57, 3.0.61, 3.0.62, 3.0.64, 3.0.65"
    """
    if version in PINS:
        return Success(version)
    shown = excerpt(version, _VERSION_SHOWN_CHARS)
    return Failure(f"Cline {shown!r} is not pinned: choose one of {', '.join(VERSIONS)}")


def pin_of(version: str, platform: Platform) -> Result[Pin, str]:
    """The pin of a version on a platform.

    Failure(sentence) when the version is not pinned, or not on this platform.
    """
    return pinned(version).bind(lambda known: _pin_on(known, platform))


def _pin_on(version: str, platform: Platform) -> Result[Pin, str]:
    pin = PINS[version].get(platform)
    if pin is not None:
        return Success(pin)
    served = ", ".join(PINS[version])
    return Failure(f"Cline {version} is not pinned for {platform}: it is for {served} only")


def platform_of(system: str, machine: str, libc: str) -> Result[Platform, str]:
    """The platform of a machine: `uname -s`, `uname -m` and the C library's name ("glibc 2.36", "musl").

    Failure(sentence) when no Cline binary runs there: another system or CPU, or musl (the binaries need
    `ld-linux-x86-64.so.2` of glibc; seen with 3.0.57 to 3.0.65).

    >>> platform_of("Linux", "x86_64", "glibc 2.36").unwrap().value
    'linux-x64'
    >>> platform_of("Linux", "x86_64", "musl").failure()
    "Cline's binaries need glibc, and this system has musl: use an image with glibc (Debian, Ubuntu, Fedora)"
    """
    if system.lower() != "linux":
        return Failure(
            f"Cline runs in a Linux sandbox, and this is {_named(system)}: use a Linux host or image"
        )
    platform = _MACHINES.get(machine.lower())
    if platform is None:
        return Failure(
            f"there is no Cline binary for the CPU {_named(machine)}: use an x86_64 machine with glibc"
        )
    if not _GLIBC.match(libc):
        return Failure(
            f"Cline's binaries need glibc, and this system has {_named(libc)}: "
            "use an image with glibc (Debian, Ubuntu, Fedora)"
        )
    return Success(platform)


def _named(text: str) -> str:
    return excerpt(text, _VERSION_SHOWN_CHARS) or "an unknown one"
