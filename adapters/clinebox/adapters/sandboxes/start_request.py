"""What one start works with: the checked request, the private root, and what each containment makes of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from returns.result import Result

from clinebox.adapters.sandboxes import files
from clinebox.adapters.sandboxes.bubblewrap import Mount, mount_plan
from clinebox.adapters.sandboxes.checks import objections, refused
from clinebox.adapters.sandboxes.containment import (
    Containment,
    bubblewrap_argv,
    missing_programs,
    unshare_argv,
)
from clinebox.adapters.sandboxes.environment import EXEC_MARKER, base_environment, search_path
from clinebox.adapters.sandboxes.private_root import PrivateRoot
from clinebox.adapters.sandboxes.workdir import checked_workdir
from clinebox.domain.ports import NetworkMode, SandboxDescription, SandboxFailure, SandboxSpec

PROVIDER: Final = "local"
LAST_PORT: Final = 65_535
NETWORKS: Final[Mapping[NetworkMode, str]] = {
    NetworkMode.FULL: "the host's network",
    NetworkMode.GATEWAY: "no network but the gateway",
    NetworkMode.NONE: "no network",
}
GUARANTEES: Final[Mapping[Containment, str]] = {
    Containment.BUBBLEWRAP: "own processes and IPC; read-only system; private /tmp, /logs and HOME",
    Containment.UNSHARE: "own processes and IPC; the files are the host's own, with this user's rights",
    Containment.PLAIN: "no isolation: a plain process tree with this user's rights",
}


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A request whose work directory was checked, and the host's own variables."""

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

    def for_probe(self) -> StartRequest:
        """The same host and network with a trivial request."""
        trivial = replace(self.spec, mounts=(), ttl_s=None, read_only_root=False)
        return replace(self, spec=trivial, workdir=self.root.sessions, root=self.root.for_probe())

    def launcher_argv(self, containment: Containment) -> tuple[str, ...]:
        """The program that makes the namespaces."""
        spec = self.spec
        if containment is Containment.BUBBLEWRAP:
            return bubblewrap_argv(self.plan(), spec.network, spec.ttl_s, read_only_root=spec.read_only_root)
        return unshare_argv(spec.network, spec.ttl_s)

    def launcher_environment(self) -> dict[str, str]:
        """The launcher carries the sandbox's marker too, so that a reaper finds it."""
        return {"PATH": search_path(self.host), EXEC_MARKER: f"{self.root.sandbox_id}.init."}

    def description(self, containment: Containment, note: str) -> SandboxDescription:
        """What was started."""
        mapped = containment is Containment.BUBBLEWRAP
        return SandboxDescription(
            provider=PROVIDER,
            sandbox_id=self.root.sandbox_id,
            containment=containment,
            note=note,
            session_root=str(self.root.sessions),
            logs_dir="/logs" if mapped else str(self.root.logs),
        )

    def note(self, containment: Containment, reasons: tuple[str, ...], unenforced: tuple[str, ...]) -> str:
        """What that one gives, what it cannot hold, and why the stronger ones were not used."""
        limits = (f"not enforced here: {', '.join(unenforced)}",) if unenforced else ()
        return "; ".join((GUARANTEES[containment], NETWORKS[self.spec.network], *limits, *reasons))

    def areas(self, containment: Containment) -> tuple[files.Area, ...]:
        """What the file operations see, the same as the processes inside; raises OSError."""
        if containment is Containment.BUBBLEWRAP:
            return files.open_areas((each.inside, each.host, each.writable) for each in self.plan())
        root = self.root
        own = (self.workdir, root.sessions, root.home, root.temporary, root.variable_temporary, root.logs)
        return files.open_areas(((Path("/"), Path("/"), False), *((each, each, True) for each in own)))


def checked_spec(spec: SandboxSpec, private_base: Path) -> Result[Path, SandboxFailure]:
    """The resolved work directory of a request that can be served; everything is only looked at.

    Failure(BAD_REQUEST) with a sentence for people; for a CLI to call before anything starts.
    """
    problem = next(objections(spec), None) or _problem_of_user(spec.user)
    if problem is not None:
        return refused(problem)
    return checked_workdir(spec.workdir, private_base)


def _problem_of_user(user: str | None) -> str | None:
    own = (str(os.getuid()), f"{os.getuid()}:{os.getgid()}")
    if user is None or user in own:
        return None
    return f"A local sandbox runs as the user of clinebox itself ({own[1]}), not as {user!r}."


def why_not_for(candidate: Containment, spec: SandboxSpec) -> str | None:
    """What a containment cannot do, whatever the host."""
    missing = missing_programs(candidate)
    if missing:
        return f"{', '.join(missing)} not found on this host"
    if candidate is Containment.BUBBLEWRAP:
        return None
    moved = [each for each in spec.mounts if Path(each.host_path) != Path(each.sandbox_path)]
    if moved:
        return f"it shows {moved[0].host_path} only at its own path, not at {moved[0].sandbox_path}"
    if spec.read_only_root:
        return "it cannot make the system read-only"
    return why_no_network(candidate, spec.network)


def why_no_network(candidate: Containment, network: NetworkMode) -> str | None:
    """Why a containment cannot give a network mode."""
    if candidate is not Containment.PLAIN or network is NetworkMode.FULL:
        return None
    return "it cannot cut the network off"
