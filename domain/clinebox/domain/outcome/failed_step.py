"""A step before or after the run that failed: the outcome that says so (SPEC §2, last rows of the table)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from clinebox.domain.outcome.model import Reason
from clinebox.domain.ports import SandboxFailure, SandboxTrouble

REASONS: Final = frozenset(
    {Reason.RUNTIME_INSTALL, Reason.SANDBOX, Reason.GATEWAY_UNREACHABLE, Reason.HARNESS_SETUP}
)
"""What a failed step can be; anything else is judged from the run itself."""

PROVIDER_KINDS: Final = {
    SandboxTrouble.UNAVAILABLE: "provider_unavailable",
    SandboxTrouble.OUT_OF_MEMORY: "provider_oom_killed",
    SandboxTrouble.LOST: "session_lost",
}
"""WIRE.md's registered kinds; any other trouble at the sandbox is `clinebox:sandbox`."""


@dataclass(frozen=True, slots=True)
class FailedStep:
    """Which step failed, with the provider's or installer's last words in a sentence for people."""

    reason: Reason
    failure_kind: str
    message: str


def sandbox_step(failure: SandboxFailure) -> FailedStep:
    """The failed step of a sandbox operation.

    >>> sandbox_step(SandboxFailure(SandboxTrouble.DISK_FULL, "No room.")).failure_kind
    'clinebox:sandbox'
    """
    kind = PROVIDER_KINDS.get(failure.trouble, "clinebox:sandbox")
    return FailedStep(Reason.SANDBOX, kind, failure.message)


def step_of(reason: Reason, message: str) -> FailedStep:
    """The failed step of a reason whose kind is our own: `clinebox:<reason>`."""
    return FailedStep(reason, f"clinebox:{reason.value}", message)
