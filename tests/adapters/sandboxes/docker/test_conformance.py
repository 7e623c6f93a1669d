"""The suite that every provider passes, on containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clinebox.adapters.conformance.pytest_plugin import (
    sandbox_full,
    test_sandbox_provider,
)
from clinebox.domain.ports import NetworkMode

if TYPE_CHECKING:
    from conftest import Bench

    from clinebox.domain.ports import SandboxProvider, SandboxSpec

__all__ = ["sandbox_full", "test_sandbox_provider"]


@pytest.fixture
def sandbox_not_offered(bench: Bench) -> frozenset[str]:
    """Podman 4.3 tells no peak of memory."""
    return frozenset({"life.usage"}) if bench.engine == "Podman" else frozenset()


@pytest.fixture
def sandbox_provider(bench: Bench) -> SandboxProvider:
    return bench.provider()


@pytest.fixture
def sandbox_spec(bench: Bench) -> SandboxSpec:
    return bench.spec(network=NetworkMode.FULL)
