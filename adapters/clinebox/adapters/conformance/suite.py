"""All checks, run one after the other or a few at once against one provider."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Final

from clinebox.adapters.conformance import (
    bound_checks,
    exec_checks,
    file_checks,
    joining_checks,
    life_checks,
    output_checks,
)
from clinebox.adapters.conformance.model import (
    Bench,
    Check,
    CheckFailedError,
    CheckResult,
    NotOfferedError,
    Verdict,
)
from clinebox.domain.ports import SandboxProvider, SandboxSpec

CALL_TIMEOUT_S: Final = 60.0
CHECKS: Final[tuple[Check, ...]] = (
    *exec_checks.CHECKS,
    *output_checks.CHECKS,
    *file_checks.CHECKS,
    *life_checks.CHECKS,
    *joining_checks.CHECKS,
    *bound_checks.CHECKS,
)


async def conformance(
    provider: SandboxProvider,
    spec: SandboxSpec,
    *,
    checks: Iterable[Check] = CHECKS,
    is_full: bool = False,
    timeout_s: float = CALL_TIMEOUT_S,
) -> tuple[CheckResult, ...]:
    """Try a provider with a request that it can serve; one result a check, in their order.

    `spec` names the work directory, and the image where one is needed. `is_full` adds what takes long (32 at
    once, 64 MiB, every exit code). `timeout_s` is for each single call to the provider.
    """
    results = check_provider(provider, spec, checks=checks, is_full=is_full, timeout_s=timeout_s)
    return tuple([result async for result in results])


async def check_provider(
    provider: SandboxProvider,
    spec: SandboxSpec,
    *,
    checks: Iterable[Check] = CHECKS,
    is_full: bool = False,
    timeout_s: float = CALL_TIMEOUT_S,
) -> AsyncIterator[CheckResult]:
    """The same, each result as it comes."""
    for check in checks:
        if is_full or not check.is_heavy:
            yield await run_check(check, Bench(provider, spec, timeout_s, is_full))


async def run_check(check: Check, bench: Bench) -> CheckResult:
    """One check; what breaks in the provider itself is a failed check that names the exception."""
    began = time.monotonic()
    result = CheckResult(check.name, check.proves, Verdict.PASSED)
    try:
        await check.run(bench)
    except NotOfferedError as refusal:
        result = replace(result, verdict=Verdict.NOT_OFFERED, message=str(refusal), advice=check.advice)
    except CheckFailedError as failure:
        result = replace(result, verdict=Verdict.FAILED, message=str(failure), advice=check.advice)
    except Exception as error:  # noqa: BLE001 - a provider must not raise; told, never passed over
        message = f"the provider raised {type(error).__name__}: {error}"
        result = replace(result, verdict=Verdict.FAILED, message=message, advice=check.advice)
    return replace(result, duration_s=round(time.monotonic() - began, 3))
