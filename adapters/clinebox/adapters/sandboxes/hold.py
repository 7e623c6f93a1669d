"""What holds a sandbox's processes together, says whether it is over and why, and ends it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from signal import SIGKILL
from typing import Final

from clinebox.adapters.sandboxes.cgroup import NO_CGROUP, Cgroup
from clinebox.adapters.sandboxes.child import Child
from clinebox.adapters.sandboxes.environment import EXEC_MARKER
from clinebox.adapters.sandboxes.forwarder import Forwarder
from clinebox.adapters.sandboxes.jail import Jail
from clinebox.adapters.sandboxes.private_root import PrivateRoot
from clinebox.adapters.sandboxes.process_table import (
    Process,
    find_tree,
    read_process,
    send_signal,
)
from clinebox.adapters.sandboxes.record import Expiry, SandboxRecord
from clinebox.domain.ports import SandboxFailure, SandboxTrouble

REAP_S: Final = 5.0
POLL_S: Final = 0.01
FOR_EVER_S: Final = 1e9


@dataclass(slots=True, eq=False)
class Hold:
    """A jail, a control group, a time to live, and plain's watchdog: each only where there is one."""

    root: PrivateRoot
    jail: Jail | None
    cgroup: Cgroup = NO_CGROUP
    expiry: Expiry | None = None
    watchdog: Child | None = None
    watchdog_elsewhere: Process | None = None
    """The watchdog that another process started."""
    forwarder: Forwarder | None = None
    _ended: bool = False

    def prefix(self, env: Iterable[str]) -> tuple[str, ...]:
        """What stands before a command's argv to run it inside, with the variables of `env`."""
        return (*self.cgroup.entry(env), *(() if self.jail is None else self.jail.prefix))

    def why_over(self) -> SandboxFailure | None:
        """Why nothing can run here any more, whoever ended it; None while it can."""
        is_dead = self.jail is not None and not self.jail.is_alive
        if self.expiry is not None and self.expiry.is_over:
            return self._lost(f"is over: its time to live of {self.expiry.ttl_s:g} s has passed")
        if self.root.is_ended:
            return self._lost("is gone: it was stopped or removed by another hand")
        if is_dead and self.cgroup.oom_kills():
            message = f"Sandbox {self.root.sandbox_id} died: it ran out of its memory."
            return SandboxFailure(SandboxTrouble.OUT_OF_MEMORY, message)
        return self._lost("died: its first process is gone") if is_dead else None

    def _lost(self, what: str) -> SandboxFailure:
        return SandboxFailure(SandboxTrouble.LOST, f"Sandbox {self.root.sandbox_id} {what}.")

    def processes(self, roots: list[Process], sessions: frozenset[int]) -> list[Process]:
        """All that lives of this sandbox. The private HOME and TMPDIR tell what hid its marker."""
        root = self.root
        markers = (f"{EXEC_MARKER}={root.sandbox_id}.", f"HOME={root.home}", f"TMPDIR={root.temporary}")
        inits = [] if self.jail is None else [self.jail.init]
        members = (read_process(pid) for pid in self.cgroup.members() if pid != os.getpid())
        return find_tree(
            roots=[*roots, *inits, *(each for each in members if each is not None)],
            markers=tuple(marker.encode() for marker in markers),
            sessions=sessions,
        )

    def recorded(self, record: SandboxRecord) -> SandboxRecord:
        """The record with the process that holds the sandbox."""
        holder = self.jail.init if self.jail is not None else None
        if self.watchdog is not None:
            holder = self.watchdog.process
        if holder is None:
            return record
        return replace(record, holder_pid=holder.pid, holder_start_ticks=holder.start_ticks)

    async def end_within(self, within_s: float) -> None:
        """The same as `end`, by a duration."""
        await self.end(time.monotonic() + within_s)

    async def end(self, deadline: float) -> None:
        """End the jail and the helpers, so that what is left is only a plain tree; safe to call twice."""
        if self._ended:
            return
        self._ended = True
        self.root.mark_ended()
        if self.forwarder is not None:
            await self.forwarder.close()
        if self.watchdog_elsewhere is not None:
            send_signal(self.watchdog_elsewhere, SIGKILL)
        await self._end_watchdog(deadline)
        if self.jail is not None:
            await self.jail.end(within_s=deadline - time.monotonic())

    async def _end_watchdog(self, deadline: float) -> None:
        if self.watchdog is not None:
            send_signal(self.watchdog.process, SIGKILL)
            await self.watchdog.exited(within_s=deadline - time.monotonic())
            self.watchdog.close()

    async def let_go(self, *, is_owner: bool) -> None:
        """Close what only this handle holds; the owner's once what it started has ended by itself."""
        keeper = self.watchdog if self.jail is None else self.jail.launcher
        if is_owner and keeper is None:  # plain: nothing tells its end, so its lock is kept
            return
        if keeper is not None:
            await keeper.exited(within_s=FOR_EVER_S)
            keeper.close()
        if self.forwarder is not None:
            await self.forwarder.close()
        if self.jail is not None:
            os.close(self.jail.owner_fd)
        os.close(self.root.lock_fd)

    async def remove_cgroup(self) -> bool:
        """Remove the group; False while a zombie in it is not reaped, and that takes too long.

        Zombies whose parent was killed are left to the host's init, which may take seconds.
        """
        deadline = time.monotonic() + REAP_S
        while not self.cgroup.remove():
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(POLL_S)
        return True
