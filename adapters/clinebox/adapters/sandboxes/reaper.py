"""Finds this user's local sandboxes by their private roots, whoever started them, and removes them."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGKILL
from typing import Final

from clinebox.adapters.sandboxes.cgroup import existing_cgroup
from clinebox.adapters.sandboxes.hold import Hold
from clinebox.adapters.sandboxes.jail import finished
from clinebox.adapters.sandboxes.private_root import (
    PrivateRoot,
    abandoned_roots,
    is_abandoned,
    opened_roots,
    remove_private_root,
)
from clinebox.adapters.sandboxes.process_table import end_tree, send_signal
from clinebox.adapters.sandboxes.record import SandboxRecord, read_record
from clinebox.domain.ports import Reaped, ReapRule

DISCARD_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class FoundSandbox:
    """A private root of this user's, and what it says of itself."""

    root: PrivateRoot
    record: SandboxRecord

    def answers(self, rule: ReapRule) -> bool:
        """Whether it carries every label, and is past its time (or without its owner) if that is asked."""
        labels = self.record.labels
        if any(labels.get(name) != value for name, value in rule.labels.items()):
            return False
        over = self.record.expiry is not None and self.record.expiry.is_over
        return over or not rule.expired_only or is_abandoned(self.root)


async def reap(base: Path, rule: ReapRule) -> tuple[Reaped, ...]:
    """Remove (or, as a dry run, only tell) what answers the rule."""
    told = []
    for root in opened_roots(base):
        found = FoundSandbox(root, read_record(root.path))
        if not found.answers(rule):
            os.close(root.lock_fd)
            continue
        told.append(await _told(found, dry_run=rule.dry_run))
    return tuple(told)


async def _told(found: FoundSandbox, *, dry_run: bool) -> Reaped:
    reaped = Reaped(found.root.sandbox_id, found.record.labels)
    if dry_run:
        os.close(found.root.lock_fd)
        return reaped
    return replace(reaped, problem=await finished(_problem_of_removal(found)))


async def _problem_of_removal(found: FoundSandbox) -> str | None:
    try:
        problem = await discard_sandbox(found.root, found.record)
    except OSError as error:
        problem = str(error)
    if problem is not None:
        os.close(found.root.lock_fd)
    return problem


async def discard_sandbox(root: PrivateRoot, record: SandboxRecord) -> str | None:
    """End all that lives of a sandbox and remove its root; the reason when something resists.

    Raises OSError when the root cannot be removed. `root.lock_fd` is closed on success alone.
    """
    root.mark_ended()
    if (holder := record.holder) is not None:
        send_signal(holder, SIGKILL)
    hold = Hold(root, None, existing_cgroup(record.cgroup))
    left = await end_tree(lambda: hold.processes([], frozenset()), within_s=DISCARD_S)
    if left:
        return f"processes {', '.join(str(each.pid) for each in left)} still live"
    if not await hold.remove_cgroup():
        return "its control group is still in use"
    await asyncio.to_thread(remove_private_root, root)
    return None


async def reap_abandoned(base: Path) -> None:
    """Remove the roots of this user's killed controllers; what resists is left to the next start."""
    for root in abandoned_roots(base):
        try:
            problem = await finished(discard_sandbox(root, read_record(root.path)))
        except OSError as error:
            problem = str(error)
        if problem is not None:
            os.close(root.lock_fd)
