"""The same checks as pytest tests.

A test module imports `test_sandbox_provider`, `sandbox_not_offered` and `sandbox_full` from here, and gives
two fixtures of its own: `sandbox_provider`, and `sandbox_spec` with a request that it can serve. Overridden,
`sandbox_not_offered` names the checks that this provider is known not to offer (default: none): any other one
is a failure, so nothing becomes "not offered" in silence.
"""

from __future__ import annotations

import asyncio

import pytest

from clinebox.adapters.conformance.model import Bench, Check, Verdict
from clinebox.adapters.conformance.suite import CHECKS, run_check
from clinebox.domain.ports import SandboxProvider, SandboxSpec


@pytest.fixture
def sandbox_not_offered() -> frozenset[str]:
    """Names of the checks that the provider does not offer; to be overridden."""
    return frozenset()


@pytest.fixture
def sandbox_full() -> bool:
    """Whether heavy checks run with all their cases; to be overridden."""
    return False


@pytest.mark.parametrize("check", [pytest.param(each, id=each.name) for each in CHECKS if not each.is_heavy])
def test_sandbox_provider(
    check: Check,
    sandbox_provider: SandboxProvider,
    sandbox_spec: SandboxSpec,
    sandbox_not_offered: frozenset[str],
    *,
    sandbox_full: bool,
) -> None:
    """A provider keeps one promise of the suite, or says that it does not offer it."""
    assert_conforms(check, sandbox_provider, sandbox_spec, sandbox_not_offered, is_full=sandbox_full)


def assert_conforms(
    check: Check,
    provider: SandboxProvider,
    spec: SandboxSpec,
    not_offered: frozenset[str],
    *,
    is_full: bool = False,
) -> None:
    """Run one check and compare: passed, or not offered exactly where that was said before."""
    result = asyncio.run(run_check(check, Bench(provider, spec, is_full=is_full)))
    wanted = Verdict.NOT_OFFERED if check.name in not_offered else Verdict.PASSED
    if result.verdict is not wanted:
        pytest.fail(
            f"{check.name}: {result.proves}: {result.verdict} ({wanted} was expected). {result.message} "
            f"{result.advice}",
            pytrace=False,
        )
