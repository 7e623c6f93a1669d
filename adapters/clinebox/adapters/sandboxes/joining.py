"""A second handle on a running local sandbox, in this process or in another one of the same user and host."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.cgroup import existing_cgroup
from clinebox.adapters.sandboxes.checks import refused
from clinebox.adapters.sandboxes.containment import Containment
from clinebox.adapters.sandboxes.hold import Hold
from clinebox.adapters.sandboxes.jail import joined_jail
from clinebox.adapters.sandboxes.local_sandbox import LocalSandbox
from clinebox.adapters.sandboxes.private_root import PrivateRoot, is_abandoned, opened_root
from clinebox.adapters.sandboxes.record import SandboxRecord, read_record
from clinebox.adapters.sandboxes.start_request import PROVIDER, StartRequest
from clinebox.domain.ports import (
    Sandbox,
    SandboxDescriptor,
    SandboxFailure,
    SandboxSpec,
    SandboxTrouble,
)


def descriptor_of(sandbox: Sandbox) -> Result[SandboxDescriptor, SandboxFailure]:
    """Where it is, and by which process it is known again; Failure(BAD_REQUEST) for another provider's."""
    if not isinstance(sandbox, LocalSandbox):
        return refused(f"{sandbox.description.sandbox_id} is no local sandbox.")
    fields = {"root": str(sandbox.root.path)}
    if sandbox.jail is not None:
        init = sandbox.jail.init
        fields |= {"init_pid": str(init.pid), "init_start_ticks": str(init.start_ticks)}
    return Success(SandboxDescriptor(PROVIDER, fields))


def joined(descriptor: SandboxDescriptor, output_limit_bytes: int) -> Result[LocalSandbox, SandboxFailure]:
    """A handle of its own; it shares nothing with the others but the sandbox."""
    path = descriptor.fields.get("root", "")
    if descriptor.provider != PROVIDER or not path:
        return refused(f"This descriptor of {descriptor.provider!r} is none of a local sandbox.")
    root = opened_root(Path(path)) if "\0" not in path else None
    if root is None:
        return _gone(path, "it is not there, or is another user's")
    record = read_record(root.path)
    try:
        reason = _why_not(root, record, descriptor.fields)
        if reason is None and record.containment is not None:
            return Success(_handle(root, record, record.containment, output_limit_bytes))
    except OSError as error:  # it ends while we look
        reason = str(error)
    os.close(root.lock_fd)
    return _gone(path, reason or "it is not started yet")


def _gone(path: str, reason: str) -> Failure[SandboxFailure]:
    message = f"There is no running sandbox in {path!r}: {reason}."
    return Failure(SandboxFailure(SandboxTrouble.NOT_FOUND, message))


def _why_not(root: PrivateRoot, record: SandboxRecord, fields: Mapping[str, str]) -> str | None:
    if is_abandoned(root):
        return "the process that started it is gone"
    if root.is_ended:
        return "it was stopped"
    if record.expiry is not None and record.expiry.is_over:
        return "its time to live has passed"
    if record.containment is Containment.PLAIN:
        return None
    named = (fields.get("init_pid"), fields.get("init_start_ticks"))
    if named != (str(record.holder_pid), str(record.holder_start_ticks)) or record.holder is None:
        return "its first process is another one"
    return None


def _handle(
    root: PrivateRoot, record: SandboxRecord, containment: Containment, output_limit_bytes: int
) -> LocalSandbox:
    """Built as the owner's was, from what the record says; raises OSError with nothing left open."""
    spec = SandboxSpec(record.workdir, env=record.env, network=record.network, mounts=record.mounts)
    start = StartRequest(spec, Path(record.workdir), root, record.host)
    holder = record.holder
    areas = start.areas(containment)
    in_jail = containment is not Containment.PLAIN and holder is not None
    hold = Hold(
        root,
        joined_jail(holder) if in_jail and holder is not None else None,
        existing_cgroup(record.cgroup),
        record.expiry,
        watchdog_elsewhere=None if in_jail else holder,
    )
    return LocalSandbox(
        description=start.description(containment, record.note),
        workdir=start.workdir,
        env=record.env,
        areas=areas,
        hold=hold,
        output_limit_bytes=output_limit_bytes,
        handle=f"{secrets.token_hex(4)}-",
        is_owner=False,
    )
