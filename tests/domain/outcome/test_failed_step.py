"""A step before the run that failed, in the vocabulary of the wire."""

from __future__ import annotations

import pytest

from clinebox.domain.failures import known_kind
from clinebox.domain.outcome.failed_step import PROVIDER_KINDS, FailedStep, sandbox_step, step_of
from clinebox.domain.outcome.model import Reason
from clinebox.domain.ports import SandboxFailure, SandboxTrouble


@pytest.mark.parametrize("reason", [Reason.RUNTIME_INSTALL, Reason.GATEWAY_UNREACHABLE])
def test_a_step_of_our_own_has_a_kind_of_our_own(reason: Reason) -> None:
    assert step_of(reason, "why") == FailedStep(reason, f"clinebox:{reason.value}", "why")


@pytest.mark.parametrize("trouble", SandboxTrouble)
def test_every_trouble_of_a_sandbox_is_a_sandbox_step_with_a_kind_of_the_wire(
    trouble: SandboxTrouble,
) -> None:
    step = sandbox_step(SandboxFailure(trouble, "why"))
    assert (step.reason, step.message) == (Reason.SANDBOX, "why")
    assert step.failure_kind == PROVIDER_KINDS.get(trouble, "clinebox:sandbox")
    assert known_kind(step.failure_kind)
