"""What a container is created with: the request, checked, as the engine's own configuration."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import docker
from returns.result import Result

from clinebox.adapters.sandboxes.checks import objections, refused
from clinebox.adapters.sandboxes.docker.fence import can_fence
from clinebox.adapters.sandboxes.docker.scripts import first_process
from clinebox.adapters.sandboxes.private_root import PrivateRoot
from clinebox.adapters.sandboxes.workdir import checked_workdir
from clinebox.domain.ports import NetworkMode, SandboxFailure, SandboxSpec

CAPABILITIES: Final = (
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "NET_RAW", "SETGID", "SETPCAP",
    "SETUID",
)  # fmt: skip
"""What root keeps inside: Docker's default set without MKNOD, AUDIT_WRITE, SETFCAP and SYS_CHROOT."""
PIDS: Final = 4096
MEMORY_BYTES: Final = 8 << 30
"""Default limit, or the whole memory of the host where that is less."""
CPU_UNITS: Final = 10**9
TELEMETRY_HOST: Final = "data.cline.bot"
"""Cline's feature flags (SPEC §10): mapped to loopback, so that no outside call can change a run."""
LABEL: Final = "clinebox.sandbox"
ROOT_LABEL, WORKDIR_LABEL, EXPIRES_LABEL = "clinebox.root", "clinebox.workdir", "clinebox.expires"
NETWORK_LABEL, NOTE_LABEL, USER_LABEL = "clinebox.network", "clinebox.note", "clinebox.user"
RESERVED: Final = frozenset(
    {LABEL, ROOT_LABEL, WORKDIR_LABEL, EXPIRES_LABEL, NETWORK_LABEL, NOTE_LABEL, USER_LABEL}
)
STARTED_BY: Final = "1"
LEAST_MEMORY_BYTES: Final = 6 << 20
"""What Docker itself asks for."""


def checked_request(spec: SandboxSpec, private_base: Path) -> Result[Path, SandboxFailure]:
    """The resolved work directory of a request that can be served; nothing is started.

    Failure(BAD_REQUEST) with a sentence for people.
    """
    problem = next(_objections(spec), None)
    if problem is not None:
        return refused(problem)
    return checked_workdir(spec.workdir, private_base)


def _objections(spec: SandboxSpec) -> Iterator[str]:
    if not spec.image:
        yield "A container needs an image: name one, or its digest (NAME@sha256:…)."
    yield from objections(spec)
    memory_bytes = spec.resources.memory_bytes
    if memory_bytes is not None and memory_bytes < LEAST_MEMORY_BYTES:
        yield f"The limit on memory_bytes must be at least 6 MiB, not {memory_bytes}."
    for name in spec.labels:
        if name in RESERVED or not name:
            yield f"The label {name!r} is clinebox's own."


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """One container to be made."""

    spec: SandboxSpec
    workdir: Path
    root: PrivateRoot
    network: str
    """The engine's name of a network: `bridge`, `none`, or clinebox's own."""

    @property
    def user(self) -> str:
        """Root inside where clinebox is root, else the caller: who can write the work directory."""
        if self.spec.user is not None:
            return self.spec.user
        return "" if os.geteuid() == 0 else f"{os.geteuid()}:{os.getegid()}"

    @property
    def is_foreign(self) -> bool:
        """Whether somebody else works inside than who makes the private directory."""
        own = (str(os.geteuid()), f"{os.geteuid()}:{os.getegid()}", "root" if os.geteuid() == 0 else "")
        return self.spec.user is not None and self.spec.user not in own

    def labels(self) -> dict[str, str]:
        """On the container from its creation, before it starts."""
        ttl = (
            {} if self.spec.ttl_s is None else {EXPIRES_LABEL: str(math.ceil(time.time() + self.spec.ttl_s))}
        )
        return {
            **self.spec.labels,
            LABEL: self.root.sandbox_id,
            ROOT_LABEL: str(self.root.path),
            WORKDIR_LABEL: str(self.workdir),
            NETWORK_LABEL: self.spec.network,
            NOTE_LABEL: self.note(),
            USER_LABEL: self.spec.user or "",
            **ttl,
        }

    def note(self) -> str:
        """What this container gives, for people."""
        disk = () if self.spec.resources.disk_bytes is None else ("not enforced here: disk_bytes",)
        return "; ".join((GUARANTEES, self._network_note(), *disk))

    def _network_note(self) -> str:
        if self.spec.network is NetworkMode.GATEWAY and not can_fence():
            return "no way out but this host, all of whose services can be reached (clinebox is not root)"
        return NETWORKS[self.spec.network]

    def environment(self) -> dict[str, str]:
        """Over the image's own. HOME is private where the image's may not be written."""
        private = self.spec.read_only_root or self.user not in {"", "0", "root", "0:0"}
        home = {"HOME": str(self.root.home)} if private else {}
        return {"LANG": "C.UTF-8", "TERM": "dumb", **home, **self.spec.env}

    def mounts(self) -> list[docker.types.Mount]:
        """Binds at the same path; /logs is private. A path that is not there is refused, never made."""
        own = [(each, each) for each in (self.workdir, self.root.sessions, self.root.home)]
        writable = [*own, (Path("/logs"), self.root.logs)]
        read_only = [(Path(each.sandbox_path), Path(each.host_path)) for each in self.spec.mounts]
        return [
            *(docker.types.Mount(str(at), str(source), type="bind") for at, source in writable),
            *(
                docker.types.Mount(str(at), str(source), type="bind", read_only=True)
                for at, source in read_only
            ),
        ]

    def host_config(self) -> dict[str, Any]:
        """docker-py's arguments: hardened, bounded, removed by the engine at its end."""
        limits = self.spec.resources
        memory = limits.memory_bytes or min(MEMORY_BYTES, _host_memory_bytes())
        temporary = {"/tmp": "mode=1777", "/var/tmp": "mode=1777", "/run": ""}  # noqa: S108 - inside
        return {
            "auto_remove": True,
            "network_mode": self.network,
            "cap_drop": ["ALL"],
            "cap_add": list(CAPABILITIES),
            "security_opt": ["no-new-privileges"],
            "pids_limit": limits.pids or PIDS,
            "mem_limit": memory,
            "memswap_limit": memory,
            "nano_cpus": None if limits.cpu_cores is None else round(limits.cpu_cores * CPU_UNITS),
            "read_only": self.spec.read_only_root,
            "tmpfs": temporary if self.spec.read_only_root else None,
            "mounts": self.mounts(),
            "extra_hosts": {TELEMETRY_HOST: "127.0.0.1"},
            "log_config": docker.types.LogConfig(type="none"),
        }

    def create(self, api: docker.APIClient) -> str:
        """Create it; its id. Raises docker-py's errors."""
        made: Mapping[str, Any] = api.create_container(
            self.spec.image or "",
            command=list(first_process(self.spec.ttl_s)),
            entrypoint=[],
            name=self.root.sandbox_id,
            hostname=self.root.sandbox_id,
            user=self.user or None,
            environment=self.environment(),
            labels=self.labels(),
            working_dir="/",
            healthcheck={"test": ["NONE"]},
            host_config=api.create_host_config(**self.host_config()),
        )
        return str(made["Id"])


GUARANTEES: Final = (
    "a container: own processes, IPC, files and limits; read-write only the work directory and private places"
)
NETWORKS: Final[Mapping[NetworkMode, str]] = {
    NetworkMode.FULL: "the engine's bridge network",
    NetworkMode.GATEWAY: "nothing can be reached but the gateway",
    NetworkMode.NONE: "no network",
}


def _host_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
