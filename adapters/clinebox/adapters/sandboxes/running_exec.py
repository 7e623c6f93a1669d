"""One exec under way: waited for, and ended with everything that it started."""

from __future__ import annotations

import time
from dataclasses import dataclass
from signal import SIGCONT, SIGKILL
from typing import Final

from clinebox.adapters.sandboxes.child import Child
from clinebox.adapters.sandboxes.process_table import (
    Process,
    end_tree,
    find_tree,
    living_processes,
    read_process,
    send_signal,
)

KILL_S: Final = 10.0
"""How long the kill of an exec's tree may take; only a process in uninterruptible sleep needs more."""
REAP_S: Final = 2.0
WAKE_S: Final = 1.0
STOPPED: Final = "T"


@dataclass(frozen=True, slots=True)
class RunningExec:
    """One exec under way: its child, and the marker that everything it starts carries.

    With namespaces the child is `nsenter`, outside, whose only task is to wait for the command inside.
    """

    child: Child
    marker: bytes
    is_outside: bool

    def tree(self) -> list[Process]:
        """Everything that it started and that lives, but not `nsenter` itself.

        A dead command stays as a zombie until its parent waits for it, and keeps the whole namespace from
        ending until then. Were `nsenter` killed as well, that would be left to the host's init, which may
        take seconds.
        """
        found = find_tree(roots=[self.child.process], markers=(self.marker,))
        return [each for each in found if not (self.is_outside and each.pid == self.child.process.pid)]

    async def end(self) -> None:
        """Kill what it started and see its child reaped."""
        await end_tree(self.tree, within_s=KILL_S)
        send_signal(self.child.process, SIGCONT)
        if not await self.child.exited(within_s=REAP_S):
            send_signal(self.child.process, SIGKILL)
            await self.child.exited(within_s=KILL_S)

    async def exited(self, *, within_s: float) -> bool:
        """Wait for the command's end; False when it still runs after `within_s`."""
        deadline = time.monotonic() + within_s
        while True:
            left_s = deadline - time.monotonic()
            if await self.child.exited(within_s=max(0.0, min(left_s, WAKE_S))):
                return True
            if left_s <= WAKE_S:
                return False
            self._wake()

    def _wake(self) -> None:
        """`nsenter` stops with the command, but does not go on with it (util-linux 2.38): help it."""
        waiting = read_process(self.child.process.pid)
        if self.is_outside and waiting is not None and waiting.state == STOPPED:
            commands = [each for each in living_processes().values() if each.parent_pid == waiting.pid]
            if all(each.state != STOPPED for each in commands):
                send_signal(waiting, SIGCONT)
