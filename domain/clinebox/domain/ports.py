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
    NONE = "none"


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


class SandboxProvider(Protocol):
    """Starts sandboxes of one kind."""

    async def start(self, spec: SandboxSpec, *, timeout_s: float) -> Result[Sandbox, SandboxFailure]:
        """Start one, or leave nothing behind, also when cancelled half way."""
        ...
