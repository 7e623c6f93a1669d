"""What the core needs from the outside: the smallest protocols, implemented by adapters (SPEC §12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from returns.result import Result


class SandboxTrouble(StrEnum):
    """What failed at the sandbox's boundary; a command that exits non-zero is no trouble."""

    UNAVAILABLE = "unavailable"
    """The engine or program is not there, or refused to start a sandbox."""
    BAD_REQUEST = "bad_request"
    """The caller asked for what cannot be: a missing directory, a path outside the sandbox."""
    LOST = "lost"
    """The sandbox was there and is gone."""
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    TIMED_OUT = "timed_out"
    """The provider's own operation (not the command) overran its explicit timeout."""
    NOT_FOUND = "not_found"
    """No such file in the sandbox."""


@dataclass(frozen=True, slots=True)
class SandboxFailure:
    """Why an operation on a sandbox failed, in a sentence for people."""

    trouble: SandboxTrouble
    message: str


class NetworkMode(StrEnum):
    """What the sandbox can reach."""

    FULL = "full"
    GATEWAY = "gateway"
    """Nothing but `SandboxSpec.gateway`."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class HostPort:
    """A TCP address: a host name or address, and a port from 1 to 65535."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class GatewayRoute:
    """Where a service on this host must listen so that sandboxes of one network mode reach it.

    Asked before the service listens; a provider may make the network for it.
    """

    listen_host: str
    """The host's own address to bind."""
    inside_host: str
    """The same service's host, as a program inside the sandbox calls it."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Upper limits; None: the provider's default. What a provider cannot enforce it says in its note."""

    cpu_cores: float | None = None
    memory_bytes: int | None = None
    """At least 1 GiB for Cline (270 to 430 MiB a process, measured on 3.0.65)."""
    pids: int | None = None
    disk_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ReadOnlyMount:
    """A host file or directory, seen read-only at `sandbox_path`.

    The same path on both sides works everywhere; local sandboxes without a mount plan refuse another.
    """

    host_path: str
    sandbox_path: str


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What a sandbox must offer. Paths are absolute."""

    workdir: str
    """The task's directory on this host; worked on in place, at the same path inside."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Laid over the provider's clean base environment; the host's own never leaks in."""
    network: NetworkMode = NetworkMode.FULL
    mounts: tuple[ReadOnlyMount, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """By which a reaper finds it; a provider adds its own defaults below these."""
    image: str | None = None
    """Where a provider has images: its name or digest. None: refused there, ignored elsewhere."""
    resources: Resources = Resources()
    ttl_s: float | None = None
    """Seconds to live, kept by the provider's side: a killed controller leaks nothing. None: no end."""
    user: str | None = None
    """`UID[:GID]` or a name the image knows; None: the provider's default."""
    read_only_root: bool = False
    gateway: HostPort | None = None
    """What `NetworkMode.GATEWAY` lets through, as the host reaches it; needed by that mode only."""


@dataclass(frozen=True, slots=True)
class SandboxDescriptor:
    """What a provider needs to find a running sandbox again; plain JSON, no secret."""

    provider: str
    fields: Mapping[str, str]


class SandboxState(StrEnum):
    """What a provider sees of a sandbox."""

    RUNNING = "running"
    STOPPED = "stopped"
    """Ended, by `stop`, by its time to live or by itself; its reason stands in the message."""
    GONE = "gone"
    """The provider knows nothing of it any more."""


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """The state, and a sentence for people ("" when there is nothing to say)."""

    state: SandboxState
    message: str = ""


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """What a sandbox used since its start; None where the provider cannot measure it."""

    cpu_s: float | None
    peak_memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class ReapRule:
    """Which sandboxes to remove: those that carry every label, and are past their time if `expired_only`."""

    labels: Mapping[str, str] = field(default_factory=dict)
    expired_only: bool = True
    dry_run: bool = True


@dataclass(frozen=True, slots=True)
class Reaped:
    """One sandbox that a reaper found. `problem` says why it is still there; None: removed, or a dry run."""

    sandbox_id: str
    labels: Mapping[str, str]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run inside the sandbox; never a shell string of foreign text."""

    argv: tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended. Output is bounded where it is born; what came before a timeout is kept."""

    exit_code: int | None
    """0..255; 128+N for a signal N; None when it timed out."""
    stdout: bytes
    stderr: bytes
    output_truncated: bool
    timed_out: bool
    duration_s: float


@dataclass(frozen=True, slots=True)
class SandboxDescription:
    """What was started, for people and for the outcome: `containment` says what holds the processes."""

    provider: str
    sandbox_id: str
    containment: str
    note: str
    session_root: str
    """A private, writable directory inside the sandbox, for session directories."""
    logs_dir: str
    """Where a verifier finds and writes `/logs` (SPEC §13): `/logs` itself where it can be mapped."""


class Sandbox(Protocol):
    """A place where the agent works. Every call has an explicit timeout, in seconds."""

    @property
    def description(self) -> SandboxDescription:
        """What this sandbox is."""
        ...

    async def exec(self, command: Command, *, timeout_s: float) -> Result[ExecResult, SandboxFailure]:
        """Run a command to its own end, whoever still holds its output.

        Past `timeout_s` its whole tree is killed and `timed_out` is set; so it is, without a result, when
        the caller is cancelled. What a command that ended leaves running is the sandbox's until `stop`.
        """
        ...

    async def upload(
        self, path: str, content: bytes, *, mode: int = 0o600, timeout_s: float
    ) -> Result[None, SandboxFailure]:
        """Write a file whole (by rename), parents made (0700); never through a symlink."""
        ...

    async def download(
        self, path: str, *, offset_bytes: int = 0, limit_bytes: int, timeout_s: float
    ) -> Result[bytes, SandboxFailure]:
        """Read at most `limit_bytes` of a regular file from `offset_bytes`; never through a symlink."""
        ...

    async def stop(self, *, timeout_s: float) -> Result[None, SandboxFailure]:
        """End everything in it and remove what it made; safe to call twice, and while an `exec` runs.

        An `exec` that runs then ends as LOST. A stop that failed may be tried again.
        """
        ...

    async def disconnect(self) -> None:
        """Let go of it without ending it; every later call is refused. Safe to call twice."""
        ...

    async def status(self, *, timeout_s: float) -> Result[SandboxStatus, SandboxFailure]:
        """What the provider sees of it now; Failure only when the provider itself does not answer."""
        ...

    async def resource_usage(self, *, timeout_s: float) -> Result[ResourceUsage, SandboxFailure]:
        """What it used since its start."""
        ...


class SandboxProvider(Protocol):
    """Starts sandboxes of one kind."""

    async def gateway_route(
        self, network: NetworkMode, *, timeout_s: float
    ) -> Result[GatewayRoute, SandboxFailure]:
        """Where a gateway for sandboxes of this mode has to listen, and what they call it.

        Failure(BAD_REQUEST) for NONE: nothing can be reached there.
        """
        ...

    async def start(self, spec: SandboxSpec, *, timeout_s: float) -> Result[Sandbox, SandboxFailure]:
        """Start one, or leave nothing behind, also when cancelled half way."""
        ...

    def serialize(self, sandbox: Sandbox) -> Result[SandboxDescriptor, SandboxFailure]:
        """What `connect` needs, in any process on this host; Failure(BAD_REQUEST) if it cannot be."""
        ...

    async def connect(
        self, descriptor: SandboxDescriptor, *, timeout_s: float
    ) -> Result[Sandbox, SandboxFailure]:
        """A handle on a running sandbox. Its `disconnect` lets go; its `stop` ends it all the same.

        Failure(NOT_FOUND) when it is gone, Failure(BAD_REQUEST) for another provider's descriptor.
        """
        ...

    async def reap(self, rule: ReapRule, *, timeout_s: float) -> Result[tuple[Reaped, ...], SandboxFailure]:
        """Remove sandboxes by label, whoever started them; each one found is told, nothing is hidden."""
        ...
