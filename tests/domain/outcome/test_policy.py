"""The policy: one total function of (outcome, attempt), as a table (SPEC §2, Policy)."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.domain.outcome.classify import FAILURE_KINDS, STATUSES
from clinebox.domain.outcome.model import Flag, Outcome, Reason, Status, StoppedBy
from clinebox.domain.outcome.policy import (
    DEFAULT_POLICY,
    Policy,
    Verdict,
    decide,
    gradable,
    grade,
    retry_delay_s,
)

GRADED = Verdict(gradable=True, retryable=False)
RETRIED = Verdict(gradable=False, retryable=True)
FINAL = Verdict(gradable=False, retryable=False)


def outcome_of(
    reason: Reason, status_code: int | None = None, stopped_by: StoppedBy | None = None
) -> Outcome:
    return Outcome(
        status=STATUSES.get(reason, Status.FAILED),
        reason=reason,
        failure_kind=FAILURE_KINDS.get(reason),
        status_code=status_code,
        timed_out=False,
        stopped_by=stopped_by,
        text="",
        flags=(),
        flag_details={},
        notes=(),
        usage=None,
        evidence=(),
        cline_version=None,
    )


OUTCOMES = st.builds(
    outcome_of,
    st.sampled_from(Reason),
    st.none() | st.integers(-1, 700),
    st.none() | st.sampled_from(StoppedBy),
)

TABLE = {
    Reason.FINISHED: (GRADED, GRADED, GRADED),
    Reason.CONTEXT_OVERFLOW: (GRADED, GRADED, GRADED),
    Reason.OUTPUT_CAP: (GRADED, GRADED, GRADED),
    Reason.CONTENT_FILTER: (GRADED, GRADED, GRADED),
    Reason.CUT_SHORT: (GRADED, GRADED, GRADED),
    Reason.MISTAKE_LIMIT: (GRADED, GRADED, GRADED),
    Reason.LOOP_DETECTED: (GRADED, GRADED, GRADED),
    Reason.DEADLINE: (GRADED, GRADED, GRADED),
    Reason.STOPPED: (GRADED, GRADED, GRADED),
    Reason.EMPTY_RESPONSE: (RETRIED, FINAL, FINAL),
    Reason.MODEL_REQUEST: (RETRIED, RETRIED, FINAL),
    Reason.MODEL_TRANSPORT: (RETRIED, RETRIED, FINAL),
    Reason.DEADLINE_BEFORE_OUTPUT: (RETRIED, RETRIED, FINAL),
    Reason.NO_RUN_RESULT: (RETRIED, RETRIED, FINAL),
    Reason.HARNESS_SETUP: (FINAL, FINAL, FINAL),
    Reason.OUTPUT_LIMIT: (RETRIED, FINAL, FINAL),
    Reason.RUNTIME_INSTALL: (RETRIED, RETRIED, FINAL),
    Reason.SANDBOX: (RETRIED, RETRIED, FINAL),
    Reason.GATEWAY_UNREACHABLE: (RETRIED, RETRIED, FINAL),
    Reason.UNCONFIRMED_CLEANUP: (RETRIED, RETRIED, FINAL),
    Reason.UNKNOWN: (RETRIED, RETRIED, FINAL),
}


def test_the_table_has_every_reason() -> None:
    assert set(TABLE) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_at_each_attempt(reason: Reason) -> None:
    assert tuple(decide(outcome_of(reason), attempt) for attempt in (1, 2, 3)) == TABLE[reason]


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529, 599, None])
def test_a_status_that_may_pass_is_retried(status: int | None) -> None:
    assert decide(outcome_of(Reason.MODEL_REQUEST, status)) == RETRIED


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 413, 422, 499])
def test_a_status_that_will_not_pass_is_final(status: int) -> None:
    assert decide(outcome_of(Reason.MODEL_REQUEST, status)) == FINAL


@given(OUTCOMES, st.integers(-10, 10), st.integers(-1, 9))
def test_the_verdict_is_total(outcome: Outcome, attempt: int, max_attempts: int) -> None:
    """Policy: "one *total* function of (Outcome with its stopped_by and status_code, attempt number)"."""
    verdict = decide(outcome, attempt, Policy(max_attempts=max_attempts))
    assert not (verdict.gradable and verdict.retryable)


@given(OUTCOMES, st.integers(-10, 10))
def test_a_failed_outcome_is_never_graded_by_default(outcome: Outcome, attempt: int) -> None:
    if outcome.status is Status.FAILED:
        assert not decide(outcome, attempt).gradable


@given(OUTCOMES, st.integers(3, 10))
def test_no_outcome_is_worth_a_fourth_attempt(outcome: Outcome, attempt: int) -> None:
    assert not decide(outcome, attempt).retryable


@given(OUTCOMES, st.integers(-10, 10))
def test_an_operator_s_stop_is_never_graded_and_never_retried_here(outcome: Outcome, attempt: int) -> None:
    assert decide(replace(outcome, stopped_by=StoppedBy.OPERATOR), attempt) == FINAL


def test_fewer_attempts_may_be_configured() -> None:
    assert decide(outcome_of(Reason.UNKNOWN), 1, Policy(max_attempts=1)) == FINAL


def test_more_attempts_than_a_reason_is_worth_are_not_made() -> None:
    assert decide(outcome_of(Reason.EMPTY_RESPONSE), 2, Policy(max_attempts=9)) == FINAL


def test_a_run_that_the_task_killed_may_be_graded_by_configuration() -> None:
    killed = replace(outcome_of(Reason.NO_RUN_RESULT), flags=(Flag.KILLED_IN_TOOL,))
    assert decide(killed) == RETRIED
    assert decide(killed, policy=Policy(grade_killed_in_tool=True)) == GRADED
    assert decide(outcome_of(Reason.NO_RUN_RESULT), policy=Policy(grade_killed_in_tool=True)) == RETRIED


@pytest.mark.parametrize(("wait_s", "verdict"), [(61.0, RETRIED), (59.0, GRADED), (None, GRADED)])
def test_a_deadline_after_a_long_wait_may_be_ungraded_by_configuration(
    wait_s: float | None, verdict: Verdict
) -> None:
    waiting = replace(outcome_of(Reason.DEADLINE), flag_details={Flag.MODEL_CALL_PENDING: {"wait_s": wait_s}})
    assert decide(waiting) == GRADED
    assert decide(waiting, policy=Policy(ungrade_pending_wait_s=60.0)) == verdict


# --- the delay


@given(st.integers(-5, 10_000), st.floats(), st.none() | st.floats())
def test_the_delay_is_bounded_for_any_numbers(
    attempt: int, random_value: float, after_s: float | None
) -> None:
    delay_s = retry_delay_s(attempt, random_value, after_s)
    assert 0.0 <= delay_s <= 660.0
    assert math.isfinite(delay_s)


@given(st.integers(1, 20), st.floats(0, 1))
def test_full_jitter_reaches_from_nothing_to_a_doubling_bound(attempt: int, random_value: float) -> None:
    """SPEC §2: "delay with full jitter as a pure function of (attempt, random value passed in, …)"."""
    bound_s = min(60.0, 2.0 * 2 ** (attempt - 1))
    assert retry_delay_s(attempt, 0.0) == 0.0
    assert retry_delay_s(attempt, 1.0) == bound_s
    assert retry_delay_s(attempt, random_value) <= bound_s


@given(st.floats(0, 600), st.floats(0, 1))
def test_a_retry_after_is_waited_for_first(after_s: float, random_value: float) -> None:
    assert retry_delay_s(1, random_value, after_s) >= after_s


# --- the reward


@given(OUTCOMES, st.floats())
def test_only_a_gradable_run_gets_a_reward_and_only_a_finite_one(outcome: Outcome, reward: float) -> None:
    """SPEC §2: "A failed outcome has *no reward field*"."""
    graded = grade(outcome, reward)
    assert is_successful(graded) == (decide(outcome).gradable and math.isfinite(reward))
    if is_successful(graded):
        assert graded.unwrap().outcome is outcome
        assert graded.unwrap().reward == reward


def test_the_refusal_says_how_the_run_ended() -> None:
    failure = gradable(outcome_of(Reason.MODEL_TRANSPORT)).failure()
    assert failure.message == "a run that ended as failed/model_transport has no reward"
    by_operator = gradable(
        outcome_of(Reason.STOPPED, stopped_by=StoppedBy.OPERATOR), DEFAULT_POLICY
    ).failure()
    assert by_operator.message == "a run that ended as incomplete/stopped by the operator has no reward"


def test_an_outcome_has_no_field_for_a_reward() -> None:
    assert not [name for name in Outcome.__slots__ if "reward" in name]


def test_every_failed_reason_has_a_failure_kind_and_no_other() -> None:
    assert set(FAILURE_KINDS) == set(Reason) - set(STATUSES)
