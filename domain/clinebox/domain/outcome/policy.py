"""What to do about an outcome: grade it, retry it, or neither; never the same function as the judgement.

Pure, total and configurable (SPEC §2, Policy): one table, read by (reason, status, who stopped it, attempt).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NewType

from returns.result import Failure, Result, Success

from clinebox.domain.json_value import as_mapping
from clinebox.domain.outcome.model import Flag, Outcome, Reason, Status, StoppedBy

MAX_ATTEMPTS: Final = 3
TWICE: Final = 2
ONCE: Final = 1

ATTEMPTS: Final[Mapping[Reason, int]] = {
    Reason.MODEL_TRANSPORT: MAX_ATTEMPTS,
    Reason.MODEL_REQUEST: MAX_ATTEMPTS,  # if its status is worth another try, see RETRYABLE_STATUSES
    Reason.UNKNOWN: MAX_ATTEMPTS,
    Reason.NO_RUN_RESULT: MAX_ATTEMPTS,
    Reason.DEADLINE_BEFORE_OUTPUT: MAX_ATTEMPTS,
    Reason.SANDBOX: MAX_ATTEMPTS,
    Reason.RUNTIME_INSTALL: MAX_ATTEMPTS,
    Reason.GATEWAY_UNREACHABLE: MAX_ATTEMPTS,
    Reason.UNCONFIRMED_CLEANUP: MAX_ATTEMPTS,
    Reason.OUTPUT_LIMIT: TWICE,
    Reason.EMPTY_RESPONSE: TWICE,
    Reason.HARNESS_SETUP: ONCE,
}
"""How many attempts a failure is worth. A run that is not failed has had its one."""

RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429})
FIRST_SERVER_ERROR: Final = 500

BASE_DELAY_S: Final = 2.0
DELAY_LIMIT_S: Final = 60.0
RETRY_AFTER_LIMIT_S: Final = 600.0
"""A server that asks for more is not waited for longer than this."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a user may decide otherwise; the defaults are SPEC §2's."""

    max_attempts: int = MAX_ATTEMPTS
    grade_killed_in_tool: bool = False
    """Grade a run that the task itself may have killed, as an incomplete one."""
    ungrade_pending_wait_s: float | None = None
    """Do not grade a deadline that found a model call waiting for longer than this; None grades it."""


DEFAULT_POLICY: Final = Policy()


@dataclass(frozen=True, slots=True)
class Verdict:
    """May the run be scored, and is another attempt worth it? Both false: it is final and has no score."""

    gradable: bool
    retryable: bool


def decide(outcome: Outcome, attempt: int = 1, policy: Policy = DEFAULT_POLICY) -> Verdict:
    """The verdict on the outcome of this attempt (1-based); total, never an exception.

    An operator's stop is never graded, and never retried by the same process: a resumed batch runs it anew.
    """
    if outcome.stopped_by is StoppedBy.OPERATOR:
        return Verdict(gradable=False, retryable=False)
    if _waited_too_long(outcome, policy):
        return Verdict(gradable=False, retryable=attempt < policy.max_attempts)
    if outcome.status is not Status.FAILED or _killed_itself(outcome, policy):
        return Verdict(gradable=True, retryable=False)
    worth = min(_attempts(outcome), policy.max_attempts)
    return Verdict(gradable=False, retryable=attempt < worth)


def _attempts(outcome: Outcome) -> int:
    if outcome.reason is Reason.MODEL_REQUEST and not is_retryable_status(outcome.status_code):
        return ONCE
    return ATTEMPTS.get(outcome.reason, ONCE)


def is_retryable_status(status_code: int | None) -> bool:
    """Whether a model request with this status may succeed when asked again; an unknown status may."""
    return status_code is None or status_code in RETRYABLE_STATUSES or status_code >= FIRST_SERVER_ERROR


def _killed_itself(outcome: Outcome, policy: Policy) -> bool:
    return (
        policy.grade_killed_in_tool
        and outcome.reason is Reason.NO_RUN_RESULT
        and Flag.KILLED_IN_TOOL in outcome.flags
    )


def _waited_too_long(outcome: Outcome, policy: Policy) -> bool:
    wait_s = as_mapping(outcome.flag_details.get(Flag.MODEL_CALL_PENDING)).get("wait_s")
    limit_s = policy.ungrade_pending_wait_s
    if limit_s is None or outcome.reason is not Reason.DEADLINE:
        return False
    return isinstance(wait_s, int | float) and wait_s > limit_s


def retry_delay_s(attempt: int, random_value: float, retry_after_s: float | None = None) -> float:
    """Seconds to wait after this attempt (1-based): full jitter over a doubling bound, never over 660 s.

    `random_value` is uniform in 0..1 and passed in. A server's Retry-After is waited for first, so that all
    who were told the same do not come back at once.

    >>> retry_delay_s(1, 0.5), retry_delay_s(3, 1.0), retry_delay_s(1, 0.5, retry_after_s=4.0)
    (1.0, 8.0, 5.0)
    """
    # 2**6 · 2 s is past the limit, so a larger exponent says nothing more.
    bound_s = min(DELAY_LIMIT_S, BASE_DELAY_S * 2.0 ** min(max(attempt - 1, 0), 6))
    return _clamped(retry_after_s, RETRY_AFTER_LIMIT_S) + _clamped(random_value, 1.0) * bound_s


def _clamped(value: float | None, limit: float) -> float:
    if value is None or math.isnan(value):
        return 0.0
    return min(max(value, 0.0), limit)


GradableOutcome = NewType("GradableOutcome", Outcome)
"""An outcome that a verdict allows to be scored; made by `gradable` alone."""
Reward = NewType("Reward", float)
"""A finite number that a verifier gave; made by `grade` alone."""


@dataclass(frozen=True, slots=True)
class Graded:
    """A run with its reward. The types admit no failed run and no number that no verifier gave."""

    outcome: GradableOutcome
    reward: Reward


@dataclass(frozen=True, slots=True)
class NotGradable:
    """Why there is no reward, in a sentence for people."""

    message: str


def gradable(outcome: Outcome, policy: Policy = DEFAULT_POLICY) -> Result[GradableOutcome, NotGradable]:
    """The outcome as one that may be scored. Failure when the policy forbids it."""
    if decide(outcome, policy=policy).gradable:
        return Success(GradableOutcome(outcome))
    by = f" by the {outcome.stopped_by}" if outcome.stopped_by is not None else ""
    return Failure(NotGradable(f"a run that ended as {outcome.status}/{outcome.reason}{by} has no reward"))


def grade(outcome: Outcome, reward: float, policy: Policy = DEFAULT_POLICY) -> Result[Graded, NotGradable]:
    """The run with its reward: the only way to one.

    Failure when the policy does not allow the run to be scored, or the reward is no finite number.
    """
    if not math.isfinite(reward):
        return Failure(NotGradable(f"a reward of {reward} is no finite number"))
    return gradable(outcome, policy).map(lambda allowed: Graded(allowed, Reward(reward)))
