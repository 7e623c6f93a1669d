"""The run's usage as it is reported: unknown is None and a gap, never 0 (SPEC §2)."""

from __future__ import annotations

from dataclasses import dataclass

from clinebox.domain.cline.events import TokenCounts
from clinebox.domain.cline.stdout import StdoutFacts
from clinebox.domain.cline.usage import is_zero
from clinebox.domain.model_calls.facts import UsageSum
from clinebox.domain.outcome.case import Case
from clinebox.domain.outcome.model import Usage


@dataclass(frozen=True, slots=True)
class UsageReading:
    """The counts, and in words what they are known to miss."""

    usage: Usage | None
    missing: tuple[str, ...] = ()


def reading_of(case: Case) -> UsageReading:
    """The gateway's exact sum; without it Cline's own: `run_result`, of a killed run every agent's turns.

    Cache reads are inside `inputTokens`, and reasoning tokens stand nowhere in Cline's streams (FORMAT.md §3,
    3.0.57 to 3.0.65).
    """
    if case.gateway is not None and case.gateway.usage.counted:
        return _of_gateway(case.gateway.usage)
    stdout = case.stdout
    if stdout is None:
        return UsageReading(None)
    if stdout.run_result is None:
        return _of_killed(stdout)
    counts = stdout.run_result.value.usage
    if is_zero(counts):
        return UsageReading(None)
    return UsageReading(_usage(counts), _missing(stdout))


def _of_gateway(total: UsageSum) -> UsageReading:
    """Every call that was counted: sub-agents, compactions and retries too, whether or not the run ended."""
    usage = Usage(
        input_tokens=total.prompt_tokens,
        cached_tokens=total.cached_tokens,
        output_tokens=total.completion_tokens,
        reasoning_tokens=total.reasoning_tokens,
    )
    partly = total.without_reasoning if total.reasoning_tokens is not None else 0
    counted = (
        (total.uncounted_answers, "model calls for which the server sent no usage"),
        (total.uncounted_broken, "model calls that broke before their usage was sent"),
        (total.uncounted_open, "model calls that had not ended"),
        (partly, "model calls without a count of reasoning tokens"),
    )
    return UsageReading(usage, tuple(f"{what}: {count}" for count, what in counted if count))


def _of_killed(stdout: StdoutFacts) -> UsageReading:
    facts = stdout.usage
    if not facts.is_counted:
        return UsageReading(None)
    usage = Usage(facts.input_tokens, facts.cached_tokens, facts.output_tokens, reasoning_tokens=None)
    return UsageReading(usage, ("the turn in which the run was ended", *_uncounted(stdout)))


def _usage(counts: TokenCounts) -> Usage:
    return Usage(
        input_tokens=counts.input or 0,
        cached_tokens=counts.cache_read,
        output_tokens=counts.output or 0,
        reasoning_tokens=None,
    )


def _missing(stdout: StdoutFacts) -> tuple[str, ...]:
    others = stdout.usage.other_agents_turns or stdout.subagents.started
    agents = ("sub-agents",) if others else ()
    return (*agents, *_uncounted(stdout))


def _uncounted(stdout: StdoutFacts) -> tuple[str, ...]:
    zeros = ("turns for which the server sent no usage",) if stdout.usage.zero_turns else ()
    compactions = ("compaction calls",) if stdout.compactions else ()
    broken = ("the turn that broke",) if _broke(stdout) else ()
    return (*zeros, *compactions, *broken)


def _broke(stdout: StdoutFacts) -> bool:
    ended = stdout.run_result is not None and stdout.run_result.value.finish_reason == "error"
    return ended and stdout.turn_output is not None and not stdout.turn_counted
