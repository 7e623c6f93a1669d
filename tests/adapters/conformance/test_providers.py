"""Every provider of clinebox keeps every promise of the suite, or refuses exactly what is listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clinebox.adapters.conformance import CHECKS
from clinebox.adapters.conformance.pytest_plugin import assert_conforms, test_sandbox_provider

if TYPE_CHECKING:
    from clinebox.adapters.conformance import Check
    from clinebox.domain.ports import SandboxProvider, SandboxSpec

__all__ = ["test_sandbox_provider"]


@pytest.mark.full
@pytest.mark.parametrize("check", [pytest.param(each, id=each.name) for each in CHECKS])
def test_a_provider_keeps_the_promise_in_all_its_cases(
    check: Check,
    sandbox_provider: SandboxProvider,
    sandbox_spec: SandboxSpec,
    sandbox_not_offered: frozenset[str],
) -> None:
    assert_conforms(check, sandbox_provider, sandbox_spec, sandbox_not_offered, is_full=True)


@pytest.mark.bubblewrap
@pytest.mark.parametrize("known", ["bubblewrap"], indirect=True)
@pytest.mark.parametrize("check", [pytest.param(each, id=each.name) for each in CHECKS if each.is_heavy])
def test_what_is_heavy_is_kept_by_one_provider_at_least(
    check: Check,
    sandbox_provider: SandboxProvider,
    sandbox_spec: SandboxSpec,
    sandbox_not_offered: frozenset[str],
) -> None:
    assert_conforms(check, sandbox_provider, sandbox_spec, sandbox_not_offered)
