"""Namespaces that hold a sandbox's processes: started, entered, and ended as one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from signal import SIGKILL
from typing import Any, Final, TypeVar

from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.child import Child
from clinebox.adapters.sandboxes.containment import READY, entry_argv, open_owner
from clinebox.adapters.sandboxes.process_table import (
    Process,
    end_tree,
    find_tree,
    living_processes,
    read_process,
    send_signal,
)

T = TypeVar("T")
MESSAGE_BYTES: Final = 65_536
DISCARD_S: Final = 10.0
REAP_S: Final = 2.0
SHOWN_CHARACTERS: Final = 400


@dataclass(frozen=True, slots=True)
class Jail:
    """A running set of namespaces: the launcher on this host, and pid 1 inside."""

    launcher: Child | None
    """None where another process started them."""
    init: Process
    prefix: tuple[str, ...]
    owner_fd: int

    @property
    def is_alive(self) -> bool:
        """Whether the namespaces still serve: once pid 1 begins to exit, everything inside is killed."""
        now = read_process(self.init.pid)
        return now is not None and now.start_ticks == self.init.start_ticks and not now.is_exiting

    async def end(self, *, within_s: float) -> None:
        """Kill pid 1, and with it everything inside, and reap the launcher. Once only.

        Pid 1 itself counts as living until the kernel has ended the last process of its namespace
        (pid_namespaces(7)), so the caller waits until `init` is gone from the process table.
        """
        send_signal(self.init, SIGKILL)
        launcher = self.launcher
        # The launcher waits for pid 1 and ends with it; killed too early it would leave a zombie behind.
        if launcher is not None and not await launcher.exited(within_s=min(within_s, REAP_S)):
            send_signal(launcher.process, SIGKILL)
            await launcher.exited(within_s=within_s)
        if launcher is not None:
            launcher.close()
        os.close(self.owner_fd)


async def start_jail(argv: tuple[str, ...], env: Mapping[str, str]) -> Result[Jail, str]:
    """Start namespaces and wait for their pid 1; Failure(reason) in the program's own words.

    Unbounded: the caller sets the time. When cancelled, nothing of it is left.
    """
    try:
        launcher = Child(argv, env=env, stdin=None, limit_bytes=MESSAGE_BYTES, new_session=True)
    except OSError as error:
        return Failure(str(error))
    jail: Jail | None = None
    try:
        if await launcher.stdout.holds(READY):
            jail = _entered(launcher)
        else:
            await launcher.drain(within_s=1)
            return Failure(_last_words(launcher))
    except OSError as error:  # pid 1 ended between its greeting and our look at it
        return Failure(str(error))
    finally:
        if jail is None:
            await finished(discard(launcher))
    return Success(jail)


def _entered(launcher: Child) -> Jail:
    """The jail behind a launcher that greeted: pid 1 is its only child."""
    inits = [each for each in living_processes().values() if each.parent_pid == launcher.process.pid]
    if len(inits) != 1:
        raise ProcessLookupError("the first process of the namespace ended at once")
    owner_fd = open_owner(inits[0].pid)
    return Jail(launcher, inits[0], entry_argv(inits[0].pid, owner_fd), owner_fd)


def joined_jail(init: Process) -> Jail:
    """The jail that another process of this user started; raises OSError when it ends meanwhile."""
    owner_fd = open_owner(init.pid)
    try:
        return Jail(None, init, entry_argv(init.pid, owner_fd), owner_fd)
    except OSError:
        os.close(owner_fd)
        raise


def _last_words(launcher: Child) -> str:
    text = launcher.stderr.content.decode("utf-8", "replace").strip()
    return text[-SHOWN_CHARACTERS:] or "it ended without a word"


async def discard(child: Child) -> None:
    """End a child with all that it started, at any point of its work, reap it, and close it.

    A launcher that is killed before it has tied its own child to itself would leave that one.
    """
    await end_tree(lambda: find_tree(roots=[child.process]), within_s=DISCARD_S)
    await child.exited(within_s=DISCARD_S)
    child.close()


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end even when the caller is cancelled meanwhile; the cancellation follows then.

    For clean-up that must not be left half done; the work is bounded by itself.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
