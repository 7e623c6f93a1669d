"""Control groups of one sandbox: limits, what it used, who is in it, and whether memory ran out.

Version 1 and hybrid mounts have one directory a controller, version 2 one for all (cgroups(7)). Each is made
below the group that clinebox itself is in, so that a limit on clinebox still holds. Where the kernel refuses,
the sandbox has none, and says so if a limit was asked for.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clinebox.domain.ports import Resources, ResourceUsage

CGROUP_ROOT: Final = Path("/sys/fs/cgroup")
OWN_GROUPS: Final = Path("/proc/self/cgroup")
CONTROLLERS: Final = ("memory", "pids", "cpu", "cpuacct")
UNIFIED: Final = "unified"
PERIOD_US: Final = 100_000
SHELLS_OWN: Final = frozenset(
    {"PWD", "OLDPWD", "SHLVL", "IFS", "OPTIND", "PPID", "LINENO", "UID", "EUID", "BASHOPTS", "SHELLOPTS", "_"}
)
"""What a shell (dash, busybox, bash) sets by itself, and would not hand on as it was given."""
PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A shell drops variables of other names (`a.b`, `BASH_FUNC_x%%`)."""
ENTER: Final = (
    'unset PWD OLDPWD SHLVL; while [ "$1" != -- ]; do echo 0 >"$1" || exit 125; shift; done; shift; exec "$@"'
)
"""A writer of 0 moves itself; so nothing ever runs outside, not for a moment."""
ENTER_EXACTLY: Final = """
import os, sys
end = sys.argv.index("--")
for name in sys.argv[1:end]:
    with open(name, "w") as procs:
        procs.write("0")
with open("/proc/self/environ", "rb") as environ:
    given = dict(entry.split(b"=", 1) for entry in environ.read().split(b"\\0") if b"=" in entry)
os.execvpe(sys.argv[end + 1], sys.argv[end + 1 :], given)
"""
"""The same by Python, slower, with any variable as it was given (Python adds its own LC_CTYPE, PEP 538)."""


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The directories of one sandbox by controller; none where no group could be made."""

    directories: Mapping[str, Path]

    def entry(self, env: Iterable[str] = ()) -> tuple[str, ...]:
        """What stands before a program's argv so that it starts inside, with the variables of `env` alone."""
        if not self.directories:
            return ()
        if any(name in SHELLS_OWN or PLAIN_NAME.fullmatch(name) is None for name in env):
            return (sys.executable, "-I", "-S", "-c", ENTER_EXACTLY, *self.procs_files, "--")
        shell = shutil.which("dash") or shutil.which("sh") or "/bin/sh"
        return (shell, "-c", ENTER, "sh", *self.procs_files, "--")

    def _distinct(self) -> list[Path]:
        return list(dict.fromkeys(self.directories.values()))

    def members(self) -> frozenset[int]:
        """The pids of everything inside; zombies too (version 1)."""
        texts = (_read(each / "cgroup.procs") for each in self._distinct())
        return frozenset(int(word) for text in texts if text for word in text.split())

    @property
    def procs_files(self) -> tuple[str, ...]:
        """Where a watchdog in another language reads the members."""
        return tuple(str(each / "cgroup.procs") for each in self._distinct())

    def oom_kills(self) -> int:
        """How many processes the kernel killed because this group's memory ran out (Linux 4.13)."""
        memory = self.directories.get("memory")
        if memory is None:
            return 0
        text = _read(memory / "memory.oom_control") or _read(memory / "memory.events") or ""
        return _keyed(text, "oom_kill") or 0

    def usage(self) -> ResourceUsage:
        """CPU time of everything that was ever inside, and the most memory at one time, caches included."""
        return ResourceUsage(self._cpu_s(), self._peak_memory_bytes())

    def _cpu_s(self) -> float | None:
        cpu = self.directories.get("cpuacct", self.directories.get("cpu"))
        if cpu is None:
            return None
        nanoseconds = _read(cpu / "cpuacct.usage")
        if nanoseconds is not None:
            return int(nanoseconds) / 1e9
        microseconds = _keyed(_read(cpu / "cpu.stat") or "", "usage_usec")
        return None if microseconds is None else microseconds / 1e6

    def _peak_memory_bytes(self) -> int | None:
        memory = self.directories.get("memory")
        if memory is None:
            return None
        text = _read(memory / "memory.max_usage_in_bytes") or _read(memory / "memory.peak")
        return None if text is None else int(text)

    def unenforced(self, resources: Resources) -> tuple[str, ...]:
        """Names of the limits that were asked for and that no group here enforces."""
        wanted = {
            "cpu_cores": (resources.cpu_cores, "cpu"),
            "memory_bytes": (resources.memory_bytes, "memory"),
            "pids": (resources.pids, "pids"),
            "disk_bytes": (resources.disk_bytes, "disk"),
        }
        return tuple(
            name
            for name, (limit, controller) in wanted.items()
            if limit is not None and controller not in self.directories
        )

    def remove(self) -> bool:
        """Remove the directories; False while something is still inside of one. Safe to call twice."""
        for each in self._distinct():
            with contextlib.suppress(OSError):
                each.rmdir()
        return not any(each.exists() for each in self._distinct())


NO_CGROUP: Final = Cgroup({})


def make_cgroup(name: str, resources: Resources, root: Path | None, own: Path = OWN_GROUPS) -> Cgroup:
    """The groups of a new sandbox with its limits set, for every controller that this user may use."""
    made: dict[str, Path] = {}
    for controllers, parent in () if root is None else _parents(root, _read(own) or ""):
        directory = parent / name
        try:
            directory.mkdir(exist_ok=True)
            usable = [each for each in controllers if _limited(directory, each, resources)]
        except OSError:
            usable = []
        if usable:
            made |= dict.fromkeys(usable, directory)
        elif directory not in made.values():
            with contextlib.suppress(OSError):
                directory.rmdir()
    return Cgroup(made)


def existing_cgroup(directories: Mapping[str, str]) -> Cgroup:
    """The groups that a record names; only directories of control groups are taken."""
    found = {name: Path(each) for name, each in directories.items() if name in CONTROLLERS}
    return Cgroup({name: each for name, each in found.items() if (each / "cgroup.procs").is_file()})


def _parents(root: Path, own: str) -> Iterator[tuple[tuple[str, ...], Path]]:
    """Where groups can be made: (controllers, the group that this process is in), version 1 first."""
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        wanted = tuple(name for name in names.split(",") if name in CONTROLLERS)
        for mount in (root / names, *(root / name for name in wanted)):
            parent = mount / path.lstrip("/")
            if wanted and (parent / "cgroup.procs").exists():
                yield wanted, parent
                break
        if not names and (root / "cgroup.controllers").exists():
            yield from _unified(root, root / path.lstrip("/"))


def _unified(root: Path, own: Path) -> Iterator[tuple[tuple[str, ...], Path]]:
    """Version 2: the nearest group that hands controllers down (only one without processes may)."""
    for parent in (own, *own.parents):
        if not parent.is_relative_to(root):
            return
        handed = (_read(parent / "cgroup.subtree_control") or "").split()
        usable = tuple(name for name in CONTROLLERS if name in handed)
        if usable:
            yield usable, parent
            return


def _limited(directory: Path, controller: str, resources: Resources) -> bool:
    """Set a controller's limits; raises OSError where it cannot."""
    for name, value, is_needed in _settings(controller, resources):
        if (directory / name).exists():
            (directory / name).write_text(value)
        elif is_needed and not (directory / name.replace(".limit_in_bytes", ".max")).exists():
            return False
    return (directory / "cgroup.procs").exists()


def _settings(controller: str, resources: Resources) -> Iterable[tuple[str, str, bool]]:
    """(file, text, whether it must be there): both versions' names; a group has one of them."""
    match controller:
        case "memory" if resources.memory_bytes is not None:
            limit = str(resources.memory_bytes)
            yield "memory.limit_in_bytes", limit, False
            yield "memory.memsw.limit_in_bytes", limit, False
            yield "memory.max", limit, False
            yield "memory.swap.max", "0", False
        case "pids" if resources.pids is not None:
            yield "pids.max", str(resources.pids), True
        case "cpu" if resources.cpu_cores is not None:
            quota_us = max(1000, round(resources.cpu_cores * PERIOD_US))
            yield "cpu.cfs_period_us", str(PERIOD_US), False
            yield "cpu.cfs_quota_us", str(quota_us), False
            yield "cpu.max", f"{quota_us} {PERIOD_US}", False
        case _:
            return


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _keyed(text: str, key: str) -> int | None:
    """The number behind a key of a flat keyed file (cgroup-v2: "flat keyed")."""
    pairs = (line.split() for line in text.splitlines())
    return next((int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] == key), None)  # noqa: PLR2004
