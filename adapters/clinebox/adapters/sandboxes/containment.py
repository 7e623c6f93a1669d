"""How the processes of a local sandbox are held: the programs, their options, and the way into one.

A namespace has a tiny bash of ours as pid 1. It reaps what is left to it, no signal from inside reaches it
(pid_namespaces(7)), and it ends at the end of its input: the controller holds that pipe's other end, so
the namespace ends with the controller, whatever kills that.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from clinebox.adapters.sandboxes.bubblewrap import Mount
from clinebox.domain.ports import NetworkMode

READY: Final = b"ready\n"
DEAF: Final = "trap '' HUP INT QUIT TERM USR1 USR2 PIPE ALRM"
INIT_SCRIPT: Final = f"{DEAF}; echo ready; while read -r _; do :; done"
UNTIL_TIME_IS_OVER: Final = """
now() { read -r NOW _ < /proc/uptime; NOW=${NOW/./}; }
now; END=$((NOW + $1))
time_is_left() { now; LEFT=$((END - NOW)); ((LEFT > 0)); }
hold() {
  while time_is_left; do
    read -r -t "$(printf '%d.%02d' $((LEFT / 100)) $((LEFT % 100)))" _
    (($? == 1)) && return
  done
}
"""
"""`hold` returns $1 hundredths of a second from now, or at the end of the input, whatever is written into it.

By /proc/uptime, which nobody can set. The `read` of bash gives 1 at the end of the input, above 128 when its
time is up.
"""
MORTAL_INIT_SCRIPT: Final = f"{DEAF}; {UNTIL_TIME_IS_OVER} echo ready; hold"
NAMESPACES: Final = {"net": "--net", "ipc": "--ipc", "pid": "--pid", "mnt": "--mount"}
NS_GET_USERNS: Final = 0xB701
"""ioctl_ns(2): the user namespace that owns another namespace."""
KEPT_CAPABILITIES: Final = (
    "+chown,+dac_override,+fowner,+fsetid,+kill,+net_bind_service,+net_raw,+setgid,+setuid,+setpcap"
)
"""What root keeps inside: Docker's default set without mknod, audit_write, setfcap and sys_chroot."""
LOOPBACK_UP: Final = (
    "import fcntl, os, socket, struct, sys\n"
    "with socket.socket() as any_socket:\n"
    "    fcntl.ioctl(any_socket, 0x8914, struct.pack('16sh', b'lo', 0x49))\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)
"""A fresh network namespace has its loopback down; netdevice(7): SIOCSIFFLAGS, UP | LOOPBACK | RUNNING."""


class Containment(StrEnum):
    """What holds the processes, the strongest first."""

    BUBBLEWRAP = "bubblewrap"
    UNSHARE = "unshare"
    PLAIN = "plain"


PROGRAMS: Final[Mapping[Containment, tuple[str, ...]]] = {
    Containment.BUBBLEWRAP: ("bwrap", "bash", "env", "nsenter", "setsid", "setpriv"),
    Containment.UNSHARE: ("unshare", "bash", "env", "nsenter", "setsid", "setpriv"),
    Containment.PLAIN: ("bash", "env", "setsid"),
}


def missing_programs(containment: Containment) -> tuple[str, ...]:
    """The programs on this host that a containment needs and does not find (bubblewrap, util-linux)."""
    return tuple(name for name in PROGRAMS[containment] if shutil.which(name) is None)


def bubblewrap_argv(
    plan: tuple[Mount, ...], network: NetworkMode, ttl_s: float | None, *, read_only_root: bool
) -> tuple[str, ...]:
    """Bubblewrap with our bash as pid 1; it brings the loopback up itself (bwrap(1), 0.8)."""
    mounts = [argument for mount in plan for argument in mount.arguments]
    net = [] if network is NetworkMode.FULL else ["--unshare-net"]
    options = ["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--as-pid-1", *net, *mounts]
    frozen = ["--remount-ro", "/"] if read_only_root else []
    return (program_path("bwrap"), *options, *frozen, "--chdir", "/", "--", *_init_argv(ttl_s))


def _init_argv(ttl_s: float | None) -> tuple[str, ...]:
    """Pid 1: it ends with its input, and when its time is over, without any controller's help."""
    if ttl_s is None:
        return (program_path("bash"), "-c", INIT_SCRIPT)
    return (program_path("bash"), "-c", MORTAL_INIT_SCRIPT, "bash", hundredths(ttl_s))


def hundredths(seconds: float) -> str:
    """As `UNTIL_TIME_IS_OVER` takes a time."""
    return str(max(1, round(seconds * 100)))


def unshare_argv(network: NetworkMode, ttl_s: float | None) -> tuple[str, ...]:
    """Fresh pid, mount and ipc namespaces on the same file system; `setpriv` ties it to the controller."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    net, prelude = [], []
    if network is not NetworkMode.FULL:
        net, prelude = ["--net"], [sys.executable, "-I", "-S", "-c", LOOPBACK_UP]
    return (
        *(program_path("setpriv"), "--pdeathsig", "KILL", program_path("unshare"), *user),
        *("--pid", "--fork", "--kill-child", "--mount-proc", "--ipc", *net, "--"),
        *(*prelude, *_init_argv(ttl_s)),
    )


def entry_argv(init_pid: int, owner_fd: int) -> tuple[str, ...]:
    """What stands before a command's own argv to run it inside, with few of root's privileges.

    `owner_fd` is of the user namespace that owns the others. bubblewrap as an ordinary user nests two: the
    outer one owns the rest, so it is entered first, and then the inner one, which has no privileges over
    them (seen with bwrap 0.8). Named by this process's own path, the descriptor is not inherited inside.
    """
    inner, owner = _user_namespace(init_pid), os.fstat(owner_fd).st_ino
    options = [option for name, option in NAMESPACES.items() if _differs(init_pid, name)]
    first, second, drop = _into_owner(owner_fd), [], []
    if inner != owner:
        second = [program_path("nsenter"), "--target", "1", "--user", "--preserve-credentials", "--"]
    if os.geteuid() == 0:
        drop = [program_path("setpriv"), "--inh-caps=-all", f"--bounding-set=-all,{KEPT_CAPABILITIES}"]
    return (program_path("nsenter"), "--target", str(init_pid), *first, *options, "--", *second, *drop)


def _into_owner(owner_fd: int) -> tuple[str, ...]:
    if os.fstat(owner_fd).st_ino == _user_namespace("self"):
        return ()
    return (f"--user=/proc/{os.getpid()}/fd/{owner_fd}", "--preserve-credentials")


def network_entry_argv(init_pid: int, owner_fd: int) -> tuple[str, ...]:
    """What stands before a program of the host's own to run it in the network namespace alone."""
    return (program_path("nsenter"), "--target", str(init_pid), *_into_owner(owner_fd), "--net", "--")


def open_owner(init_pid: int) -> int:
    """A descriptor of the user namespace that owns the pid namespace of a process (ioctl_ns(2))."""
    namespace = os.open(f"/proc/{init_pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        owner = fcntl.ioctl(namespace, NS_GET_USERNS)
    finally:
        os.close(namespace)
    fcntl.fcntl(owner, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    return owner


def command_argv(prefix: tuple[str, ...], cwd: str, argv: tuple[str, ...]) -> tuple[str, ...]:
    """The whole argv of one exec: into the namespace, into `cwd`, as the leader of its own session.

    `setsid` comes last, so that the leader's pid is the command's own and is seen inside; `env` alone would
    take a program named `a=b` for a variable.
    """
    reset = [program_path("env"), "--default-signal"] if _ignores_signals() else []
    return (*reset, *prefix, program_path("env"), f"--chdir={cwd}", program_path("setsid"), "--", *argv)


def _ignores_signals() -> bool:
    """Whether this process ignores a signal that a child would inherit as ignored (`nohup`, a shell's `&`).

    `subprocess` itself gives SIGPIPE and SIGXFSZ back their default.
    """
    ignored = set(signal.Signals) - {signal.SIGPIPE, signal.SIGXFSZ}
    return any(signal.getsignal(number) is signal.SIG_IGN for number in ignored)


def _differs(pid: int, name: str) -> bool:
    return Path(f"/proc/{pid}/ns/{name}").readlink() != Path(f"/proc/self/ns/{name}").readlink()


def _user_namespace(pid: int | str) -> int:
    return os.stat(f"/proc/{pid}/ns/user").st_ino  # noqa: PTH116 - beside os.fstat, the same kind of number


def program_path(name: str) -> str:
    """The program's own path: the command's PATH may be another one."""
    return shutil.which(name) or name
