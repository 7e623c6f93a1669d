"""What a caller asks of one run, checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from clinebox.adapters.supervisor.plan import SurvivorPolicy
from clinebox.domain.budgets import (
    CLEANUP_PHASES,
    DEFAULT_CLEANUP_S,
    DEFAULT_INSTALL_S,
    DEFAULT_RUN_S,
    DEFAULT_VERIFIER_S,
    PROVIDER_MARGIN_S,
)
from clinebox.domain.cline.mcp import McpGrant
from clinebox.domain.cline.prompt import PreparedPrompt
from clinebox.domain.ports import NetworkMode, Resources

SPARE_S: Final = 600.0
"""Of a sandbox's time to live beyond everything that has a bound of its own."""


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """The OpenAI-compatible model server; `api_key` None for one that asks for none. Never printed."""

    base_url: str
    name: str
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Verification:
    """A command of the operator's, run by bash in the work directory after a confirmed cleanup (SPEC §13)."""

    command: str
    timeout_s: float = DEFAULT_VERIFIER_S


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One task, run once. Times in seconds."""

    prompt: PreparedPrompt
    """The task as Cline is told it."""
    workdir: Path
    model: ModelEndpoint
    cline_version: str
    timeout_s: float = DEFAULT_RUN_S
    cleanup_timeout_s: float = DEFAULT_CLEANUP_S
    system_text: str | None = None
    verification: Verification | None = None
    survivors: SurvivorPolicy = SurvivorPolicy.KEEP
    disabled_tools: tuple[str, ...] = ()
    mcp: tuple[McpGrant, ...] = ()
    """Tool servers that the agent may use."""
    env: dict[str, str] = field(default_factory=dict)
    """Laid over the sandbox's clean environment, for the harness and its tools."""
    image: str | None = None
    """What a container is made of; no other sandbox has one."""
    network: NetworkMode = NetworkMode.FULL
    resources: Resources = field(default_factory=Resources)
    labels: dict[str, str] = field(default_factory=dict)
    """On the sandbox, beside `clinebox.agent` and `clinebox.session`."""

    @property
    def time_to_live_s(self) -> float:
        """What an owned sandbox may live: install, run, cleanup, verifier, and ten minutes (SPEC §12)."""
        verifier_s = 0.0 if self.verification is None else self.verification.timeout_s
        cleanup_s = CLEANUP_PHASES * self.cleanup_timeout_s + PROVIDER_MARGIN_S
        return DEFAULT_INSTALL_S + self.timeout_s + cleanup_s + verifier_s + SPARE_S
