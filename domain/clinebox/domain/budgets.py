"""The time budgets of a run, and their one sum (SPEC §5). All in seconds; nothing here reads a clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from returns.result import Failure, Result, Success

CLEANUP_PHASES: Final = 3
"""Grace, direct reaping, group and descendant reaping; each is bounded by one cleanup timeout."""
PROVIDER_MARGIN_S: Final = 30.0
"""For start-up, the receipt and the provider's own slowness."""
SHORTEST_S: Final = 0.01
"""One centisecond: what the supervisor's clock (/proc/uptime, proc(5)) can tell apart."""
LONGEST_S: Final = 1e9
"""Some 31 years; above, the shell's arithmetic in centiseconds would not be safe for ever."""

DEFAULT_RUN_S: Final = 900.0
DEFAULT_CLEANUP_S: Final = 10.0
DEFAULT_INSTALL_S: Final = 300.0
DEFAULT_VERIFIER_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class BudgetFailure:
    """Which budget cannot be used, with its value and what is allowed."""

    name: str
    message: str


def checked_budget_s(name: str, value_s: float) -> Result[float, BudgetFailure]:
    """The value itself when it is a usable number of seconds.

    Failure when it is nan, infinite, zero, negative or over 1e9; `True` is no number of seconds.

    >>> checked_budget_s("run timeout", -1.0).failure().message
    'run timeout is -1.0 s: give a number of seconds above 0 and at most 1e9'
    """
    # The comparison alone refuses nan and infinity, and an integer too large for `math.isfinite`.
    if not isinstance(value_s, bool) and 0 < value_s <= LONGEST_S:
        return Success(float(value_s))
    many_digits = isinstance(value_s, int) and abs(value_s) > LONGEST_S
    shown = "an integer of many digits" if many_digits else repr(value_s)
    message = f"{name} is {shown} s: give a number of seconds above 0 and at most 1e9"
    return Failure(BudgetFailure(name, message))


def provider_budget_s(run_timeout_s: float, cleanup_timeout_s: float) -> Result[float, BudgetFailure]:
    """How long a provider must let the supervisor run: run timeout + 3 · cleanup + 30 s (SPEC §5).

    Failure when a part or the sum is no usable budget.

    >>> provider_budget_s(900.0, 10.0).unwrap()
    960.0
    """
    return checked_budget_s("run timeout", run_timeout_s).bind(
        lambda run_s: checked_budget_s("cleanup timeout", cleanup_timeout_s).bind(
            lambda phase_s: checked_budget_s("provider budget", run_s + _overhead_s(phase_s))
        )
    )


def run_timeout_s(provider_s: float, cleanup_timeout_s: float) -> Result[float, BudgetFailure]:
    """The longest run that a provider's limit allows: the inverse of `provider_budget_s`.

    Failure when the limit leaves nothing for the run.

    >>> run_timeout_s(50.0, 10.0).failure().message
    'provider budget is 50.0 s: 60.0 s of it are for cleanup and start-up, so nothing is left for the run'
    """
    return checked_budget_s("provider budget", provider_s).bind(
        lambda limit_s: checked_budget_s("cleanup timeout", cleanup_timeout_s).bind(
            lambda phase_s: _remaining_s(limit_s, _overhead_s(phase_s))
        )
    )


def cleanup_phase_s(close_budget_s: float) -> Result[float, BudgetFailure]:
    """One cleanup phase's share of a close budget: a third of it."""
    return checked_budget_s("close budget", close_budget_s).map(lambda budget_s: budget_s / CLEANUP_PHASES)


def shell_seconds(name: str, value_s: float) -> Result[str, BudgetFailure]:
    """The budget in fixed point for the shell, rounded to centiseconds, never less than one.

    >>> shell_seconds("run timeout", 1e-9).unwrap()
    '0.01'
    """
    return checked_budget_s(name, value_s).map(lambda checked_s: f"{max(checked_s, SHORTEST_S):.2f}")


def _overhead_s(cleanup_timeout_s: float) -> float:
    return CLEANUP_PHASES * cleanup_timeout_s + PROVIDER_MARGIN_S


def _remaining_s(limit_s: float, overhead_s: float) -> Result[float, BudgetFailure]:
    if limit_s > overhead_s:
        return Success(limit_s - overhead_s)
    message = (
        f"provider budget is {limit_s!r} s: {overhead_s!r} s of it are for cleanup and start-up, "
        "so nothing is left for the run"
    )
    return Failure(BudgetFailure("provider budget", message))
