"""The exit codes of install_cline_runtime.sh, and what each means for the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from clinebox.adapters.runtime.failure import TRY_AGAIN, RuntimeTrouble

HOST_CACHE: Final = "let clinebox bring its own copy: the host's cache, which is the default"
GLIBC_IMAGE: Final = "use an x86_64 image with glibc (Debian, Ubuntu, Fedora)"
OTHER_DIRECTORY: Final = "choose another directory"
CHECK_REGISTRY: Final = "check the registry's address and what the sandbox can reach"


class InstallExit(IntEnum):
    """What the script exits with; the same names stand in its head."""

    USAGE = 10
    PLATFORM = 11
    NO_GLIBC = 12
    NO_TOOLS = 13
    CANNOT_WRITE = 14
    DISK_FULL = 15
    OFFLINE = 16
    REFUSED = 17
    TIMED_OUT = 18
    WRONG_DIGEST = 19
    BAD_TARBALL = 20
    CANNOT_RUN = 21
    LOCK_HELD = 22
    STALE = 23
    NOT_OURS = 24


@dataclass(frozen=True, slots=True)
class Meaning:
    """One exit code for people: the trouble, a sentence, and the ways on."""

    trouble: RuntimeTrouble
    sentence: str
    ways_on: tuple[str, ...]


MEANINGS: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        InstallExit.USAGE: Meaning(
            RuntimeTrouble.TARGET_UNUSABLE, "an argument cannot be used", ("correct it",)
        ),
        InstallExit.PLATFORM: Meaning(
            RuntimeTrouble.PLATFORM, "the sandbox is another system or CPU", (GLIBC_IMAGE,)
        ),
        InstallExit.NO_GLIBC: Meaning(RuntimeTrouble.PLATFORM, "the sandbox has no glibc", (GLIBC_IMAGE,)),
        InstallExit.NO_TOOLS: Meaning(
            RuntimeTrouble.MISSING_TOOLS, "the sandbox lacks tools", ("add them to the image", HOST_CACHE)
        ),
        InstallExit.CANNOT_WRITE: Meaning(
            RuntimeTrouble.TARGET_UNUSABLE, "the directory cannot be written", (OTHER_DIRECTORY, HOST_CACHE)
        ),
        InstallExit.DISK_FULL: Meaning(
            RuntimeTrouble.DISK_FULL,
            "the sandbox's disk is full",
            ("give the sandbox 250 MB more", OTHER_DIRECTORY),
        ),
        InstallExit.OFFLINE: Meaning(
            RuntimeTrouble.OFFLINE, "the registry could not be reached", (CHECK_REGISTRY, HOST_CACHE)
        ),
        InstallExit.REFUSED: Meaning(
            RuntimeTrouble.REFUSED, "the registry said no", (CHECK_REGISTRY, HOST_CACHE)
        ),
        InstallExit.TIMED_OUT: Meaning(
            RuntimeTrouble.TIMED_OUT, "it took too long", (TRY_AGAIN, "raise the install timeout", HOST_CACHE)
        ),
        InstallExit.WRONG_DIGEST: Meaning(
            RuntimeTrouble.DIGEST_MISMATCH,
            "what the registry gave is not the pinned tarball, and was not used",
            ("check your npm mirror", HOST_CACHE),
        ),
        InstallExit.BAD_TARBALL: Meaning(
            RuntimeTrouble.BAD_TARBALL, "the tarball could not be unpacked", (HOST_CACHE,)
        ),
        InstallExit.CANNOT_RUN: Meaning(
            RuntimeTrouble.NOT_RUNNABLE,
            "the binary does not run there, and was not published",
            ("choose a directory that is not mounted noexec", GLIBC_IMAGE),
        ),
        InstallExit.LOCK_HELD: Meaning(
            RuntimeTrouble.LOCKED, "another installer holds the lock", ("end it, or try again",)
        ),
        InstallExit.STALE: Meaning(
            RuntimeTrouble.STALE,
            "a stale runtime stands there, and without flock it cannot be replaced safely",
            ("add flock (util-linux) to the image", "remove it when no session uses it", OTHER_DIRECTORY),
        ),
        InstallExit.NOT_OURS: Meaning(
            RuntimeTrouble.NOT_OURS,
            "what stands there belongs to another user or is no directory: it is not trusted, nor removed",
            ("remove it", OTHER_DIRECTORY),
        ),
        126: Meaning(
            RuntimeTrouble.MISSING_TOOLS, "bash cannot be run", ("add bash 4 or newer to the image",)
        ),
        127: Meaning(RuntimeTrouble.MISSING_TOOLS, "bash is missing", ("add bash 4 or newer to the image",)),
    }
)
