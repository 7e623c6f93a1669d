"""Starts sandboxes on this host, in the strongest containment that really works here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes import files
from clinebox.adapters.sandboxes.bubblewrap import Mount, mount_plan
from clinebox.adapters.sandboxes.child import Child
from clinebox.adapters.sandboxes.containment import (
    Containment,
    bubblewrap_argv,
    command_argv,
    missing_programs,
    unshare_argv,
)
from clinebox.adapters.sandboxes.environment import EXEC_MARKER, base_environment, search_path
from clinebox.adapters.sandboxes.jail import MESSAGE_BYTES, Jail, discard, finished, start_jail
from clinebox.adapters.sandboxes.local_sandbox import (
    OUTPUT_LIMIT_BYTES,
    LocalSandbox,
    problem_of_environment,
    refused,
)
from clinebox.adapters.sandboxes.private_root import (
    PrivateRoot,
    abandoned_roots,
    base_directory,
    create_private_root,
    remove_private_root,
)
from clinebox.adapters.sandboxes.process_table import end_tree, find_tree
from clinebox.adapters.sandboxes.workdir import checked_workdir
from clinebox.domain.ports import (
    NetworkMode,
    Sandbox,
    SandboxDescription,
    SandboxFailure,
    SandboxSpec,
    SandboxTrouble,
)

ContainmentChoice: TypeAlias = Literal["auto", "bubblewrap", "unshare", "plain"]
STRENGTH: Final = (Containment.BUBBLEWRAP, Containment.UNSHARE, Containment.PLAIN)
PROBE_S: Final = 10.0
DISCARD_S: Final = 10.0
GUARANTEES: Final[Mapping[Containment, str]] = {
    Containment.BUBBLEWRAP: "own processes and IPC; read-only system; private /tmp, /logs and HOME",
    Containment.UNSHARE: "own processes and IPC; the files are the host's own, with this user's rights",
    Containment.PLAIN: "no isolation: a plain process tree with this user's rights",
}


@dataclass(frozen=True, slots=True)
class _Start:
    """What one start works with: the checked request, the private root, and the host's own variables."""

    spec: SandboxSpec
    workdir: Path
    root: PrivateRoot
    host: Mapping[str, str]

    def environment(self, containment: Containment) -> dict[str, str]:
        """The clean base, with what the caller asked for on top."""
        mapped = containment is Containment.BUBBLEWRAP
        temporary = "/tmp" if mapped else str(self.root.temporary)  # noqa: S108 - the path inside
        base = base_environment(self.host, home=str(self.root.home), temporary=temporary)
        return {**base, **self.spec.env}

    def plan(self) -> tuple[Mount, ...]:
        """What bubblewrap mounts."""
        return mount_plan(self.root, self.workdir, self.spec.mounts, self.host)

    def for_probe(self) -> _Start:
        """The same host and network with a trivial request."""
        trivial = replace(self.spec, mounts=())
        return replace(self, spec=trivial, workdir=self.root.sessions, root=self.root.for_probe())

    def launcher_argv(self, containment: Containment) -> tuple[str, ...]:
        """The program that makes the namespaces."""
        if containment is Containment.BUBBLEWRAP:
            return bubblewrap_argv(self.plan(), self.spec.network)
        return unshare_argv(self.spec.network)

    def launcher_environment(self) -> dict[str, str]:
        """The launcher carries the sandbox's marker too, so that a reaper finds it."""
        return {"PATH": search_path(self.host), EXEC_MARKER: f"{self.root.sandbox_id}.init."}


class LocalSandboxProvider:
    """Starts local sandboxes; keeps what it learnt about this host between starts."""

    def __init__(
        self,
        containment: ContainmentChoice = "auto",
        *,
        output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
        private_base: Path | None = None,
    ) -> None:
        """`auto` takes the strongest containment that works here; a name takes that one or fails.

        Private roots are made in `private_base` (default: TMPDIR or /tmp, see `base_directory`).
        """
        self._base = base_directory() if private_base is None else private_base
        self._candidates = STRENGTH if containment == "auto" else (Containment(containment),)
        self._output_limit_bytes = output_limit_bytes
        self._probed: dict[tuple[Containment, NetworkMode], str | None] = {}

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
                await _reap_abandoned(self._base)
                return await self._start_in(spec, workdir.unwrap())
        except TimeoutError:
            message = f"The local sandbox did not start within {timeout_s:g} s."
            return Failure(SandboxFailure(SandboxTrouble.TIMED_OUT, message))

    async def _start_in(self, spec: SandboxSpec, workdir: Path) -> Result[Sandbox, SandboxFailure]:
        try:
            root = create_private_root(self._base)
        except OSError as error:
            return _no_root(self._base, error)
        sandbox: LocalSandbox | None = None
        try:
            made = await self._choose(_Start(spec, workdir, root, dict(os.environ)))
            sandbox = made.value_or(None)
            return made.map(_as_port)
        finally:
            if sandbox is None:
                await finished(_discard(root))

    async def _choose(self, start: _Start) -> Result[LocalSandbox, SandboxFailure]:
        """The first candidate that the probe lets through; why the stronger ones were not used is kept."""
        reasons: list[str] = []
        for candidate in self._candidates:
            reason = await self._why_not(candidate, start)
            if reason is None:
                return await self._build(candidate, start, tuple(reasons))
            reasons.append(f"{candidate} was not used: {reason}")
        message = f"No local sandbox can be started here. {'; '.join(reasons)}."
        return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))

    async def _why_not(self, candidate: Containment, start: _Start) -> str | None:
        """Why a containment cannot serve this request on this host; the probe itself runs once."""
        reason = _why_not_for(candidate, start.spec)
        if reason is not None or candidate is Containment.PLAIN:
            return reason
        key = (candidate, start.spec.network)
        if key not in self._probed:
            self._probed[key] = await _probe(candidate, start)
        return self._probed[key]

    async def _build(
        self, containment: Containment, start: _Start, reasons: tuple[str, ...]
    ) -> Result[LocalSandbox, SandboxFailure]:
        jail: Jail | None = None
        if containment is not Containment.PLAIN:
            started = await start_jail(start.launcher_argv(containment), start.launcher_environment())
            if not is_successful(started):
                message = f"{containment} could not start the sandbox: {started.failure()}"
                return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))
            jail = started.unwrap()
        try:
            return Success(self._assembled(containment, start, reasons, jail))
        except OSError as error:
            if jail is not None:
                await finished(jail.end(within_s=DISCARD_S))
            message = f"The sandbox's directories could not be opened: {error}"
            return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))

    def _assembled(
        self, containment: Containment, start: _Start, reasons: tuple[str, ...], jail: Jail | None
    ) -> LocalSandbox:
        return LocalSandbox(
            description=_description(containment, start, reasons),
            root=start.root,
            workdir=start.workdir,
            env=start.environment(containment),
            areas=_areas(containment, start),
            jail=jail,
            output_limit_bytes=self._output_limit_bytes,
        )


def checked_spec(spec: SandboxSpec, private_base: Path) -> Result[Path, SandboxFailure]:
    """The resolved work directory of a request that can be served; everything is only looked at.

    Failure(BAD_REQUEST) with a sentence for people; for a CLI to call before anything starts.
    """
    problem = problem_of_environment(spec.env)
    if problem is not None:
        return refused(problem)
    for mount in spec.mounts:
        if not (mount.sandbox_path.startswith("/") and mount.host_path.startswith("/")):
            return refused(f"A mount needs absolute paths, not {mount.host_path} at {mount.sandbox_path}.")
        if not Path(mount.host_path).exists():
            return refused(f"{mount.host_path}, to be mounted at {mount.sandbox_path}, does not exist.")
    return checked_workdir(spec.workdir, private_base)


def _why_not_for(candidate: Containment, spec: SandboxSpec) -> str | None:
    """What a containment cannot do, whatever the host."""
    missing = missing_programs(candidate)
    if missing:
        return f"{', '.join(missing)} not found on this host"
    if candidate is Containment.BUBBLEWRAP:
        return None
    moved = [each for each in spec.mounts if Path(each.host_path) != Path(each.sandbox_path)]
    if moved:
        return f"it shows {moved[0].host_path} only at its own path, not at {moved[0].sandbox_path}"
    if candidate is Containment.PLAIN and spec.network is NetworkMode.NONE:
        return "it cannot cut the network off"
    return None


async def _probe(candidate: Containment, start: _Start) -> str | None:
    """Start the real thing with a trivial command in it; the reason when that fails."""
    trivial = start.for_probe()
    try:
        async with asyncio.timeout(PROBE_S):
            started = await start_jail(trivial.launcher_argv(candidate), trivial.launcher_environment())
    except TimeoutError:
        return f"it did not start within {PROBE_S:g} s"
    if not is_successful(started):
        return started.failure()
    jail = started.unwrap()
    try:
        return await _try_command(jail, trivial.environment(candidate))
    finally:
        await finished(jail.end(within_s=DISCARD_S))


async def _try_command(jail: Jail, env: Mapping[str, str]) -> str | None:
    argv = command_argv(jail.prefix, "/", ("true",))
    child = Child(argv, env=env, stdin=b"", limit_bytes=MESSAGE_BYTES, new_session=True)
    try:
        if not await child.exited(within_s=PROBE_S):
            return f"a trivial command in it did not end within {PROBE_S:g} s"
        await child.drain(within_s=1)
        words = child.stderr.content.decode("utf-8", "replace").strip()
        return None if child.return_code == 0 else f"a trivial command in it failed: {words}"
    finally:
        await finished(discard(child))


def _description(containment: Containment, start: _Start, reasons: tuple[str, ...]) -> SandboxDescription:
    network = "no network" if start.spec.network is NetworkMode.NONE else "the host's network"
    mapped = containment is Containment.BUBBLEWRAP
    return SandboxDescription(
        provider="local",
        sandbox_id=start.root.sandbox_id,
        containment=containment,
        note="; ".join((GUARANTEES[containment], network, *reasons)),
        session_root=str(start.root.sessions),
        logs_dir="/logs" if mapped else str(start.root.logs),
    )


def _areas(containment: Containment, start: _Start) -> tuple[files.Area, ...]:
    """What the file operations see: the same as the processes inside."""
    if containment is Containment.BUBBLEWRAP:
        return files.open_areas((each.inside, each.host, each.writable) for each in start.plan())
    root = start.root
    own = (start.workdir, root.sessions, root.home, root.temporary, root.variable_temporary, root.logs)
    return files.open_areas(((Path("/"), Path("/"), False), *((each, each, True) for each in own)))


def _as_port(sandbox: LocalSandbox) -> Sandbox:
    """The typed assignment that proves the protocol."""
    return sandbox


def _no_root(base: Path, error: OSError) -> Result[Sandbox, SandboxFailure]:
    full = error.errno in files.NO_ROOM
    trouble = SandboxTrouble.DISK_FULL if full else SandboxTrouble.UNAVAILABLE
    reason = os.strerror(error.errno) if error.errno is not None else str(error)
    message = f"No private directory could be made in {base}: {reason}. Set TMPDIR to another place."
    return Failure(SandboxFailure(trouble, message))


async def _discard(root: PrivateRoot) -> None:
    """Remove what a start that came to nothing, or an owner that was killed, left of a sandbox."""
    marker = f"{EXEC_MARKER}={root.sandbox_id}.".encode()
    left = await end_tree(lambda: find_tree(markers=(marker,)), within_s=DISCARD_S)
    if not left:
        await asyncio.to_thread(remove_private_root, root)


async def _reap_abandoned(base: Path) -> None:
    """Remove the roots of this user's killed controllers; what resists is left to the next start."""
    for root in abandoned_roots(base):
        try:
            await finished(_discard(root))
        except OSError:
            os.close(root.lock_fd)
