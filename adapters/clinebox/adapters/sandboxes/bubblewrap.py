"""The file system that bubblewrap shows: the system read-only, the work directory, and private places."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clinebox.adapters.sandboxes.private_root import PrivateRoot
from clinebox.domain.ports import ReadOnlyMount

COVERED: Final = frozenset({"proc", "dev", "tmp", "logs", "run"})
"""Top-level names that are not the host's own inside."""
SYSTEM_NAMES: Final = frozenset(
    {"usr", "bin", "sbin", "lib", "lib32", "lib64", "etc", "opt", "dev", "proc", "sys"}
)
"""A home below one of these (daemon's /usr/sbin, say) is a part of the system and is not hidden."""
TOOLCHAINS: Final = (
    ".pyenv", ".nvm", ".rustup", ".cargo/bin", ".local/bin", ".local/lib", ".local/share/uv", ".asdf",
    ".rbenv", ".nodenv", ".volta", ".bun", ".deno", ".sdkman", ".dotnet", ".juliaup", "miniconda3",
    "miniforge3", "anaconda3",
)  # fmt: skip
"""What stays readable of a home, relative to it: programs, no credentials."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One step of the plan: what stands at `inside`. Deeper paths come later, so they lie on top."""

    inside: Path
    how: str
    """bwrap's option: --ro-bind, --bind, --tmpfs, --symlink, --dev or --proc."""
    source: str | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The option as bwrap wants it: source first."""
        if self.source is None:
            return (self.how, str(self.inside))
        return (self.how, self.source, str(self.inside))

    @property
    def host(self) -> Path | None:
        """The host's path behind it; None where it is bubblewrap's own (a tmpfs, /proc, /dev, a link)."""
        return Path(self.source) if self.source is not None and self.how in {"--bind", "--ro-bind"} else None

    @property
    def writable(self) -> bool:
        """Whether the sandbox may write there."""
        return self.how == "--bind"


def mount_plan(
    root: PrivateRoot, workdir: Path, mounts: Iterable[ReadOnlyMount], host: Mapping[str, str]
) -> tuple[Mount, ...]:
    """Everything that is mounted, shallow paths first; a later mount covers an earlier one."""
    plan = [
        *_system(),
        *_run(),
        *_homes(host, workdir),
        *_private(root),
        Mount(workdir, "--bind", str(workdir)),
        *(Mount(Path(each.sandbox_path), "--ro-bind", each.host_path) for each in mounts),
    ]
    return tuple(sorted(plan, key=lambda mount: len(mount.inside.parts)))


def _system() -> Iterable[Mount]:
    """Each top-level directory of the host by itself, so that `/logs` and `/tests` can be made beside.

    Files and hidden names there are none of the system's, and each would cost a mount: thousands (seen) are
    seconds.
    """
    for entry in sorted(os.scandir("/"), key=lambda each: each.name):
        if entry.name.startswith("."):
            continue
        if entry.is_symlink():
            yield Mount(Path(entry.path), "--symlink", str(Path(entry.path).readlink()))
        elif entry.name not in COVERED and entry.is_dir():
            yield Mount(Path(entry.path), "--ro-bind", entry.path)
    yield Mount(Path("/proc"), "--proc")
    yield Mount(Path("/dev"), "--dev")


def _run() -> Iterable[Mount]:
    """An empty /run: the sockets of daemons (Docker, D-Bus, ssh-agent) would be ways out.

    Name resolution stays: /etc/resolv.conf may be a link into /run (systemd-resolved).
    """
    yield Mount(Path("/run"), "--tmpfs")
    resolver = Path("/etc/resolv.conf").resolve()
    for needed in (resolver, Path("/run/current-system")):  # the second is NixOS's system itself
        if needed.exists() and needed.is_relative_to("/run"):
            yield Mount(needed, "--ro-bind", str(needed))


def _homes(host: Mapping[str, str], workdir: Path) -> Iterable[Mount]:
    """Empty homes, with only the toolchains and the PATH's own directories in them, read-only.

    A home that is the work directory, or lies in it, was asked for and is shown.
    """
    hidden = [home for home in hidden_homes(host) if not home.is_relative_to(workdir)]
    yield from (Mount(home, "--tmpfs") for home in hidden)
    shown = [home / name for home in hidden for name in TOOLCHAINS]
    shown += [Path(entry) for entry in host.get("PATH", "").split(":") if entry.startswith("/")]
    for path in sorted(set(shown)):
        in_home = any(path.is_relative_to(home) and path != home for home in hidden)
        if in_home and not path.is_relative_to(workdir) and _is_directory(path):
            yield Mount(path, "--ro-bind", str(path.resolve()))


def _is_directory(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises where a parent may not be searched


def hidden_homes(host: Mapping[str, str]) -> tuple[Path, ...]:
    """The directories that hold people's own files: this user's home, /home and /root, where they exist."""
    named = {Path("/home"), Path("/root"), Path(host.get("HOME", "/root"))}
    try:
        named.add(Path(pwd.getpwuid(os.getuid()).pw_dir))
    except KeyError:  # a uid without an entry in passwd: usual in containers
        named.discard(Path("/"))
    return tuple(sorted(home.resolve() for home in named if _may_be_hidden(home)))


def _may_be_hidden(home: Path) -> bool:
    parts = home.resolve().parts
    is_system = len(parts) < 2 or parts[1] in SYSTEM_NAMES  # noqa: PLR2004 - "/" and one name
    return home.is_absolute() and _is_directory(home) and not is_system and parts[1] != "tmp"


def _private(root: PrivateRoot) -> Iterable[Mount]:
    yield Mount(Path("/"), "--bind", str(root.top))
    yield Mount(Path("/tmp"), "--bind", str(root.temporary))  # noqa: S108 - the path inside
    yield Mount(Path("/logs"), "--bind", str(root.logs))
    if Path("/var/tmp").is_dir():  # noqa: S108 - the path inside
        yield Mount(Path("/var/tmp"), "--bind", str(root.variable_temporary))  # noqa: S108
    for same in (root.sessions, root.home):
        yield Mount(same, "--bind", str(same))
