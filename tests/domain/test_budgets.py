"""The one sum of the budgets, its inverse, and their form for the shell (SPEC §5)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.domain.budgets import (
    DEFAULT_CLEANUP_S,
    DEFAULT_INSTALL_S,
    DEFAULT_RUN_S,
    DEFAULT_VERIFIER_S,
    LONGEST_S,
    checked_budget_s,
    cleanup_phase_s,
    provider_budget_s,
    run_timeout_s,
    shell_seconds,
)

usable = st.floats(min_value=0.01, max_value=1e6)
UNUSABLE = [math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, LONGEST_S * 2]


def test_the_provider_budget_is_the_run_three_phases_and_thirty_seconds() -> None:
    assert provider_budget_s(900, 10).unwrap() == 960
    assert provider_budget_s(0.5, 0.5).unwrap() == 32


@given(usable, usable)
def test_the_inverse_gives_the_run_timeout_back(run_s: float, cleanup_s: float) -> None:
    """`run_timeout_s ∘ provider_budget_s` is the identity, up to floating point."""
    budget_s = provider_budget_s(run_s, cleanup_s).unwrap()
    assert run_timeout_s(budget_s, cleanup_s).value_or(0.0) == pytest.approx(run_s, abs=1e-6)


@given(usable, usable)
def test_a_provider_budget_always_outlasts_the_run_and_its_cleanup(run_s: float, cleanup_s: float) -> None:
    """agent + 3 cleanup phases + 30 s ≤ provider limit."""
    assert provider_budget_s(run_s, cleanup_s).unwrap() >= run_s + 3 * cleanup_s + 29.9


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 10**5000, True], ids=["1e400", "-1e400", "1e5000", "true"]
)
def test_what_python_takes_for_a_number_and_no_clock_does_is_refused(value: int) -> None:
    assert "give a number of seconds" in checked_budget_s("run timeout", value).failure().message


@pytest.mark.parametrize("value", UNUSABLE)
def test_what_is_no_duration_is_refused_with_its_value(value: float) -> None:
    message = checked_budget_s("run timeout", value).failure().message
    assert repr(value) in message
    for refused in (
        provider_budget_s(value, 10),
        provider_budget_s(900, value),
        run_timeout_s(value, 10),
        run_timeout_s(900, value),
        cleanup_phase_s(value),
        shell_seconds("x", value),
    ):
        assert not is_successful(refused)


@pytest.mark.parametrize("limit_s", [1.0, 59.99, 60.0])
def test_a_provider_limit_that_leaves_nothing_for_the_run_is_refused(limit_s: float) -> None:
    assert "nothing is left for the run" in run_timeout_s(limit_s, 10).failure().message


def test_a_sum_over_the_bound_is_refused() -> None:
    assert not is_successful(provider_budget_s(LONGEST_S, 1.0))


def test_a_close_budget_is_divided_by_three() -> None:
    assert cleanup_phase_s(30).unwrap() == 10


@given(st.floats(min_value=0, max_value=LONGEST_S, exclude_min=True))
def test_the_shell_form_is_fixed_point_and_at_least_a_centisecond(value_s: float) -> None:
    """At least one centisecond, digits and one point only, within half a centisecond of the value."""
    text = shell_seconds("x", value_s).unwrap()
    whole, _, fraction = text.partition(".")
    assert (whole.isdigit(), len(fraction), fraction.isdigit()) == (True, 2, True)
    assert float(text) == pytest.approx(max(value_s, 0.01), abs=0.00501)


@pytest.mark.parametrize(
    ("value_s", "text"), [(1e-9, "0.01"), (0.016, "0.02"), (900, "900.00"), (1e9, "1000000000.00")]
)
def test_shell_form_examples(value_s: float, text: str) -> None:
    assert shell_seconds("x", value_s).unwrap() == text


def test_the_budgets_that_nobody_named_are_those_of_the_documents() -> None:
    assert (DEFAULT_RUN_S, DEFAULT_CLEANUP_S, DEFAULT_INSTALL_S, DEFAULT_VERIFIER_S) == (900, 10, 300, 600)
