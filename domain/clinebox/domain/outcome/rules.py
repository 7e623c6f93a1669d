"""The rules of SPEC §2 as one table, in order of precedence: the first that finds something decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from clinebox.domain.cline.cited import Cited
from clinebox.domain.cline.stdout import StdoutFacts
from clinebox.domain.outcome.case import Case, Finding
from clinebox.domain.outcome.entries import cited_entry
from clinebox.domain.outcome.model import EvidenceEntry, Reason
from clinebox.domain.outcome.rules_error import (
    context_overflow,
    empty_answer,
    model_request,
    model_transport,
    output_cap,
    unexplained_error,
)
from clinebox.domain.outcome.rules_gateway import gateway_cause
from clinebox.domain.outcome.rules_start import (
    failed_step,
    killed,
    killed_while_starting,
    never_started,
    nothing_at_all,
    ran_without_stdout,
)
from clinebox.domain.outcome.rules_stop import own_stop

Rule: TypeAlias = Callable[[Case], Finding | None]

LOOP_PREFIX: Final = "Detected "
LOOP_WORDS: Final = " consecutive identical calls"
"""`Detected 5 consecutive identical calls` (SURPRISES.md F4, 3.0.57): the number is Cline's own limit."""


def finished(case: Case) -> Finding | None:
    """`completed` in Cline's own result (FORMAT.md §3)."""
    result = case.result
    if result is None or result.value.finish_reason != "completed":
        return None
    return Finding(Reason.FINISHED, _result(case))


def own_limit(case: Case) -> Finding | None:
    """`aborted` with `external_abort` is never a user's abort: it is the mistake limit or the loop detector.

    Exit code 0 in both (FORMAT.md §4, 3.0.57 to 3.0.65); the recorded mistake tells which.
    """
    result, stdout = case.result, case.stdout
    if result is None or stdout is None or result.value.finish_reason != "aborted":
        return None
    if not case.was_aborted("external_abort") or case.aborted is None:
        return None
    beside = (cited_entry(stdout.source, case.aborted, "reason"), *_result(case))
    recorded = _recorded_mistake(case, stdout)
    if recorded is None:
        return Finding(Reason.MISTAKE_LIMIT, beside, notes=("no mistake was recorded before the abort",))
    entry, sentence = recorded
    reason = Reason.LOOP_DETECTED if is_loop_sentence(sentence) else Reason.MISTAKE_LIMIT
    return Finding(reason, (entry, *beside))


def _recorded_mistake(case: Case, stdout: StdoutFacts) -> tuple[EvidenceEntry, str] | None:
    told = stdout.lead_mistake
    if told is not None:
        return cited_entry(stdout.source, told, "event.error.message"), told.value.message or ""
    log = case.log
    if log is None or log.mistake is None:
        return None
    return cited_entry(log.source, log.mistake, "details"), log.mistake.value.details


def is_loop_sentence(sentence: str) -> bool:
    """Whether a recorded mistake is the loop detector's.

    >>> is_loop_sentence("Detected 5 consecutive identical calls")
    True
    >>> is_loop_sentence("1 tool call(s) failed: [editor] Detected 5 consecutive identical calls")
    False
    """
    number, found, _rest = sentence.removeprefix(LOOP_PREFIX).partition(LOOP_WORDS)
    return sentence.startswith(LOOP_PREFIX) and bool(found) and number.isdecimal()


def other_result(case: Case) -> Finding | None:
    """A result that no version measured can write, or an abort whose reason is not beside it."""
    if case.result is None:
        return None
    word = case.result.value.finish_reason
    shown = "no finishReason" if word is None else f"finishReason {word[:40]!r}"
    return Finding(Reason.UNKNOWN, _result(case), notes=(f"a run_result with {shown} that no rule explains",))


def _result(case: Case) -> tuple[EvidenceEntry, ...]:
    result: Cited[object] | None = case.result
    if case.stdout is None or result is None:
        return ()
    return (cited_entry(case.stdout.source, result, "finishReason"),)


RULES: Final[tuple[Rule, ...]] = (
    own_stop,
    failed_step,
    finished,
    own_limit,
    # Within an error, the causes in the table's order, top to bottom.
    context_overflow,
    gateway_cause,
    output_cap,
    empty_answer,
    model_request,
    model_transport,
    unexplained_error,
    other_result,
    # No result, and nobody of ours ended it.
    killed,
    ran_without_stdout,
    killed_while_starting,
    never_started,
    nothing_at_all,
)
