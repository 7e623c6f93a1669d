"""The host's view of processes: who descends from whom, who carries a marker, and how a tree is ended.

Every signal goes through a pidfd whose process was compared by its start time first, so a recycled pid is
never hit (BUGS 30). Linux 5.3 or newer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

GONE_STATES: Final = frozenset("ZX")
"""A zombie runs nothing any more: its parent alone can remove it (proc(5))."""
PF_EXITING: Final = 0x4
"""linux/sched.h; stable since 2.6 and shown in /proc/PID/stat."""
FREEZE_ROUNDS: Final = 50
POLL_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Process:
    """One process as /proc/PID/stat shows it; `start_ticks` makes the pid unambiguous."""

    pid: int
    parent_pid: int
    session: int
    start_ticks: int
    state: str
    is_exiting: bool
    """PF_EXITING: it runs no instruction of its own any more, though it may wait long to be gone."""


Selector: TypeAlias = Callable[[], list[Process]]


def read_process(pid: int) -> Process | None:
    """The process behind a pid, or None when there is none (proc(5): fields 3, 4, 6, 9 and 22)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - hundreds a scan: Path costs twice the read
            content = stat.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name (field 2) may hold blanks and parentheses: the last ")" ends it.
    fields = content[content.rfind(b")") + 2 :].split()
    return Process(
        pid=pid,
        parent_pid=int(fields[1]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        state=fields[0].decode(),
        is_exiting=bool(int(fields[6]) & PF_EXITING),
    )


def living_processes() -> dict[int, Process]:
    """Every process that this user can see and that still runs (or is stopped)."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - as above
    found = (read_process(pid) for pid in pids)
    return {each.pid: each for each in found if each is not None and each.state not in GONE_STATES}


def is_living(process: Process) -> bool:
    """Whether this very process (not a later one of the same pid) still runs."""
    now = read_process(process.pid)
    return now is not None and now.start_ticks == process.start_ticks and now.state not in GONE_STATES


def carries_marker(pid: int, markers: tuple[bytes, ...]) -> bool:
    """Whether the environment that the process was started with holds an entry that begins with a marker."""
    if not markers:
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:  # noqa: PTH123 - as above
            content = environ.read()
    except OSError:
        return False
    return any(entry.startswith(markers) for entry in content.split(b"\0"))


def find_tree(
    *,
    roots: Iterable[Process] = (),
    markers: tuple[bytes, ...] = (),
    sessions: frozenset[int] = frozenset(),
) -> list[Process]:
    """The roots, everything that carries a marker or is of a session, and all that descends from these.

    Descent is by parent or by session leader. The calling process is never part of it.
    """
    table = living_processes()
    wanted = {(root.pid, root.start_ticks) for root in roots}
    members = {
        each.pid
        for each in table.values()
        if (each.pid, each.start_ticks) in wanted
        or each.session in sessions
        or carries_marker(each.pid, markers)
    }
    return [table[pid] for pid in _with_descendants(table, members) if pid != os.getpid()]


def _with_descendants(table: dict[int, Process], members: set[int]) -> set[int]:
    grown = set(members)
    while True:
        more = {
            each.pid
            for each in table.values()
            if each.pid not in grown and (each.parent_pid in grown or each.session in grown)
        }
        if not more:
            return grown
        grown |= more


def send_signal(process: Process, number: signal.Signals) -> None:
    """Signal this very process; one that is gone already is no trouble."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        if is_living(process):
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        os.close(handle)


def _freeze(select: Selector) -> list[Process]:
    """Stop what is selected, again until nothing new appears: a stopped process forks no more."""
    frozen: dict[int, Process] = {}
    for _ in range(FREEZE_ROUNDS):
        new = [each for each in select() if each.pid not in frozen]
        if not new:
            break
        for each in new:
            send_signal(each, signal.SIGSTOP)
            frozen[each.pid] = each
    return list(frozen.values())


async def end_tree(select: Selector, *, within_s: float) -> list[Process]:
    """Kill what is selected until a fresh look finds nothing; returns what still lives after `within_s`.

    First all are stopped and then all killed: killing one by one would reparent children out of sight.
    """
    deadline = time.monotonic() + within_s
    while True:
        for each in _freeze(select):
            send_signal(each, signal.SIGKILL)
        left = select()
        if not left or time.monotonic() >= deadline:
            return left
        await asyncio.sleep(POLL_S)
