"""Starts sandboxes on this host, in the strongest containment that really works here."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes import files, joining
from clinebox.adapters.sandboxes.cgroup import CGROUP_ROOT, Cgroup, make_cgroup
from clinebox.adapters.sandboxes.checks import refused
from clinebox.adapters.sandboxes.child import Child
from clinebox.adapters.sandboxes.containment import Containment
from clinebox.adapters.sandboxes.environment import EXEC_MARKER
from clinebox.adapters.sandboxes.exec_bounds import OUTPUT_LIMIT_BYTES
from clinebox.adapters.sandboxes.forwarder import INSIDE_HOST, Forwarder, open_forwarder
from clinebox.adapters.sandboxes.hold import Hold
from clinebox.adapters.sandboxes.jail import Jail, finished, start_jail
from clinebox.adapters.sandboxes.local_sandbox import LocalSandbox
from clinebox.adapters.sandboxes.private_root import PrivateRoot, base_directory, create_private_root
from clinebox.adapters.sandboxes.probe import probe
from clinebox.adapters.sandboxes.reaper import discard_sandbox, reap, reap_abandoned
from clinebox.adapters.sandboxes.record import (
    Expiry,
    SandboxRecord,
    boot_clock_s,
    read_record,
    write_record,
)
from clinebox.adapters.sandboxes.start_request import (
    StartRequest,
    checked_spec,
    why_no_network,
    why_not_for,
)
from clinebox.adapters.sandboxes.watchdog import watch
from clinebox.domain.ports import (
    GatewayRoute,
    NetworkMode,
    Reaped,
    ReapRule,
    Sandbox,
    SandboxDescriptor,
    SandboxFailure,
    SandboxSpec,
    SandboxTrouble,
)

ContainmentChoice: TypeAlias = Literal["auto", "bubblewrap", "unshare", "plain"]
STRENGTH: Final = (Containment.BUBBLEWRAP, Containment.UNSHARE, Containment.PLAIN)
DISCARD_S: Final = 10.0


class LocalSandboxProvider:
    """Starts local sandboxes; keeps what it learnt about this host between starts."""

    def __init__(
        self,
        containment: ContainmentChoice = "auto",
        *,
        output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
        private_base: Path | None = None,
        cgroup_root: Path | None = CGROUP_ROOT,
    ) -> None:
        """`auto` takes the strongest containment that works here; a name takes that one or fails.

        Private roots are made in `private_base` (default: TMPDIR or /tmp, see `base_directory`), control
        groups below `cgroup_root` (None: nowhere).
        """
        self._base = base_directory() if private_base is None else private_base
        self._candidates = STRENGTH if containment == "auto" else (Containment(containment),)
        self._output_limit_bytes = output_limit_bytes
        self._cgroup_root = cgroup_root
        self._probed: dict[tuple[Containment, NetworkMode], str | None] = {}

    async def gateway_route(
        self, network: NetworkMode, *, timeout_s: float
    ) -> Result[GatewayRoute, SandboxFailure]:
        """The host's loopback on both sides; nothing is made, so `timeout_s` is never reached.

        Failure(BAD_REQUEST) for NONE, and where no containment of this provider can give the mode.
        """
        del timeout_s
        if network is NetworkMode.NONE:
            return refused("Nothing can be reached with the network mode 'none'.")
        reasons = [(each, why_no_network(each, network)) for each in self._candidates]
        if all(reason is not None for _, reason in reasons):
            return refused("; ".join(f"{each} has no mode {network}: {reason}" for each, reason in reasons))
        return Success(GatewayRoute(INSIDE_HOST, INSIDE_HOST))

    async def start(self, spec: SandboxSpec, *, timeout_s: float) -> Result[Sandbox, SandboxFailure]:
        """Start one, or leave nothing behind, also when cancelled half way.

        Failure(BAD_REQUEST) with the sentence of the check that failed, before anything starts;
        Failure(UNAVAILABLE) when no containment works, with each one's reason; Failure(DISK_FULL);
        Failure(TIMED_OUT) past `timeout_s`.
        """
        workdir = checked_spec(spec, self._base)
        if not is_successful(workdir):
            return Failure(workdir.failure())
        try:
            async with asyncio.timeout(timeout_s):
                await reap_abandoned(self._base)
                return await self._start_in(spec, workdir.unwrap())
        except TimeoutError:
            message = f"The local sandbox did not start within {timeout_s:g} s."
            return Failure(SandboxFailure(SandboxTrouble.TIMED_OUT, message))

    def serialize(self, sandbox: Sandbox) -> Result[SandboxDescriptor, SandboxFailure]:
        """Its private root, and the process that holds it with the start time of that."""
        return joining.descriptor_of(sandbox)

    async def connect(
        self, descriptor: SandboxDescriptor, *, timeout_s: float
    ) -> Result[Sandbox, SandboxFailure]:
        """A handle on a running sandbox of this user, in any process of this host.

        Failure(NOT_FOUND) when it is gone or its time is over; Failure(BAD_REQUEST) for a descriptor that
        is not of this provider, or not whole. Only files are looked at: `timeout_s` is never reached.
        """
        del timeout_s
        return joining.joined(descriptor, self._output_limit_bytes).map(_as_port)

    async def reap(self, rule: ReapRule, *, timeout_s: float) -> Result[tuple[Reaped, ...], SandboxFailure]:
        """Remove sandboxes of this user by label, in whichever local containment; others' are not seen.

        One without an owner counts as past its time. Failure(TIMED_OUT): run it again for the rest.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return Success(await reap(self._base, rule))
        except TimeoutError:
            message = f"Not all sandboxes in {self._base} were removed within {timeout_s:g} s."
            return Failure(SandboxFailure(SandboxTrouble.TIMED_OUT, message))

    async def _start_in(self, spec: SandboxSpec, workdir: Path) -> Result[Sandbox, SandboxFailure]:
        try:
            root = create_private_root(self._base)
        except OSError as error:
            return _not_made(self._base, error)
        sandbox: LocalSandbox | None = None
        try:
            made = await self._recorded(StartRequest(spec, workdir, root, dict(os.environ)))
            sandbox = made.value_or(None)
            return made.map(_as_port)
        finally:
            if sandbox is None:
                await finished(_discard(root))

    async def _recorded(self, start: StartRequest) -> Result[LocalSandbox, SandboxFailure]:
        """A root says what it is before anything runs there: so a reaper finds also a half start."""
        ttl_s = start.spec.ttl_s
        record = SandboxRecord(
            labels=start.spec.labels,
            expiry=None if ttl_s is None else Expiry(ttl_s, boot_clock_s() + ttl_s),
            workdir=str(start.workdir),
            network=start.spec.network,
            mounts=start.spec.mounts,
            host={name: start.host[name] for name in ("HOME", "PATH") if name in start.host},
        )
        cgroup = make_cgroup(start.root.sandbox_id, start.spec.resources, self._cgroup_root)
        try:
            record = replace(record, cgroup={name: str(each) for name, each in cgroup.directories.items()})
            write_record(start.root.path, record)
            return await self._choose(start, record, cgroup)
        except OSError as error:
            cgroup.remove()
            return _not_made(start.root.path, error)

    async def _choose(
        self, start: StartRequest, record: SandboxRecord, cgroup: Cgroup
    ) -> Result[LocalSandbox, SandboxFailure]:
        """The first candidate that the probe lets through; why the stronger ones were not used is kept."""
        reasons: list[str] = []
        for candidate in self._candidates:
            reason = await self._why_not(candidate, start)
            if reason is None:
                unenforced = cgroup.unenforced(start.spec.resources)
                note = start.note(candidate, tuple(reasons), unenforced)
                env = start.environment(candidate)
                chosen = replace(record, containment=candidate, note=note, env=env)
                return await self._build(candidate, start, chosen, cgroup)
            reasons.append(f"{candidate} was not used: {reason}")
        message = f"No local sandbox can be started here. {'; '.join(reasons)}."
        return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))

    async def _why_not(self, candidate: Containment, start: StartRequest) -> str | None:
        """Why a containment cannot serve this request on this host; the probe itself runs once."""
        reason = why_not_for(candidate, start.spec)
        if reason is not None or candidate is Containment.PLAIN:
            return reason
        key = (candidate, start.spec.network)
        if key not in self._probed:
            self._probed[key] = await probe(candidate, start)
        return self._probed[key]

    async def _build(
        self, containment: Containment, start: StartRequest, record: SandboxRecord, cgroup: Cgroup
    ) -> Result[LocalSandbox, SandboxFailure]:
        """Ended again, whole, when it cannot be finished; raises OSError."""
        held = await _held(containment, start, record, cgroup)
        if not is_successful(held):
            message = f"{containment} could not start the sandbox: {held.failure()}"
            return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))
        hold = held.unwrap()
        with contextlib.ExitStack() as undo:
            sandbox: LocalSandbox | None = None
            try:
                areas = start.areas(containment)
                undo.callback(files.close_areas, areas)
                write_record(start.root.path, hold.recorded(record))
                sandbox = LocalSandbox(
                    description=start.description(containment, record.note),
                    workdir=start.workdir,
                    env=record.env,
                    areas=areas,
                    hold=hold,
                    output_limit_bytes=self._output_limit_bytes,
                )
                undo.pop_all()
            finally:
                if sandbox is None:
                    await finished(hold.end_within(DISCARD_S))
        return Success(sandbox)


async def _held(
    containment: Containment, start: StartRequest, record: SandboxRecord, cgroup: Cgroup
) -> Result[Hold, str]:
    """What holds the processes, started; raises OSError, with nothing left."""
    if containment is Containment.PLAIN:
        return Success(Hold(start.root, None, cgroup, record.expiry, watchdog=_watchdog(start, cgroup)))
    argv = (*cgroup.entry(), *start.launcher_argv(containment))
    jailed = await start_jail(argv, start.launcher_environment())
    if not is_successful(jailed):
        return Failure(jailed.failure())
    hold = Hold(start.root, jailed.unwrap(), cgroup, record.expiry)
    forwarded: Result[Forwarder | None, str] = Failure("it was given up")
    try:
        forwarded = await _forwarder(start.spec, jailed.unwrap())
    finally:
        if not is_successful(forwarded):
            await finished(hold.end_within(DISCARD_S))
    hold.forwarder = forwarded.value_or(None)
    return forwarded.map(lambda _: hold)


def _watchdog(start: StartRequest, cgroup: Cgroup) -> Child | None:
    if start.spec.ttl_s is None:
        return None
    marker = f"{EXEC_MARKER}={start.root.sandbox_id}."
    env = {"PATH": start.launcher_environment()["PATH"], "LC_ALL": "C"}
    return watch(marker, cgroup.procs_files, start.spec.ttl_s, env)


async def _forwarder(spec: SandboxSpec, jail: Jail) -> Result[Forwarder | None, str]:
    if spec.network is not NetworkMode.GATEWAY or spec.gateway is None:
        return Success(None)
    opened = await open_forwarder(jail.init.pid, jail.owner_fd, spec.gateway)
    return opened.map(_optional).alt(lambda reason: f"the way to the gateway could not be made: {reason}")


def _optional(forwarder: Forwarder) -> Forwarder | None:
    return forwarder


def _as_port(sandbox: LocalSandbox) -> Sandbox:
    """The typed assignment that proves the protocol."""
    return sandbox


def _not_made(where: Path, error: OSError) -> Failure[SandboxFailure]:
    full = error.errno in files.NO_ROOM
    trouble = SandboxTrouble.DISK_FULL if full else SandboxTrouble.UNAVAILABLE
    reason = os.strerror(error.errno) if error.errno is not None else str(error)
    message = f"The sandbox could not be made in {where}: {reason}. Set TMPDIR to another place."
    return Failure(SandboxFailure(trouble, message))


async def _discard(root: PrivateRoot) -> None:
    """Remove what a start that came to nothing left; what resists is left to the next start."""
    if await discard_sandbox(root, read_record(root.path)) is not None:
        os.close(root.lock_fd)
