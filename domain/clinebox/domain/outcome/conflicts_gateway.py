"""Where Cline's words and the gateway's record disagree: two facts, and the gateway's decides (SPEC §2)."""

from __future__ import annotations

from typing import Final

from clinebox.domain.model_calls.facts import ModelCallFacts, SeenCall
from clinebox.domain.model_calls.faults import FaultKind
from clinebox.domain.outcome.case import Case
from clinebox.domain.outcome.conflict import Conflict
from clinebox.domain.outcome.entries import call_entry, cited_entry
from clinebox.domain.outcome.rules_gateway import FAULT_WORDS
from clinebox.domain.outcome.sentences import SentenceKind

NO_ANSWER: Final = frozenset({FaultKind.STATUS, FaultKind.REFUSED, FaultKind.GATEWAY, FaultKind.REDIRECT})
"""Faults in which not one word of a model's came: Cline cannot have completed on them."""


def gateway_conflicts(case: Case) -> tuple[Conflict, ...]:
    """Every disagreement about how the run ended; none without a result and a whole record."""
    calls = case.gateway
    if case.result is None or calls is None or calls.last is None:
        return ()
    found = (
        _completed_on_nothing(case, calls, calls.last),
        _other_status(case, calls),
        _other_ending(case, calls.last),
    )
    return tuple(conflict for conflict in found if conflict is not None)


def _completed_on_nothing(case: Case, calls: ModelCallFacts, last: SeenCall) -> Conflict | None:
    fault = last.fault
    completed = case.result is not None and case.result.value.finish_reason == "completed"
    if not completed or fault is None or fault.kind not in NO_ANSWER:
        return None
    sentence = f"the run_result says completed, but in its last model call {FAULT_WORDS[fault.kind]}"
    return Conflict(sentence, call_entry(calls.source, last, fault.field))


def _other_status(case: Case, calls: ModelCallFacts) -> Conflict | None:
    """Cline's log has a status that none of the failed attempts had, or has none where the last had one."""
    log, cause = case.log, case.cause
    if log is None or cause is None or calls.last is None:
        return None
    seen = {status for attempt in calls.unproductive for status in _statuses(attempt)}
    last = calls.last.fault
    refused = last.status if last is not None and last.kind is FaultKind.STATUS else None
    said = cause.value.status
    if said in seen or (said is None and refused is None):
        return None
    saw = "no such status" if refused is None else f"status {refused}"
    sentence = f"{log.source} says {'no status' if said is None else f'status {said}'}, the gateway saw {saw}"
    return Conflict(
        sentence, cited_entry(log.source, cause, "err.name" if said is None else cause.value.status_field)
    )


def _statuses(attempt: SeenCall) -> tuple[int, ...]:
    """What Cline can have been told of it: the upstream's status, an error object's, or the gateway's own."""
    fault = attempt.fault
    told = (None if fault is None else fault.status, attempt.call.gateway_status)
    return tuple(status for status in told if status is not None)


def _other_ending(case: Case, last: SeenCall) -> Conflict | None:
    """Cline's sentence for a capped or empty answer over an answer that was neither."""
    sentence, stdout, error = case.sentence, case.stdout, case.lead_error
    if sentence is None or stdout is None or error is None or last.fault is not None:
        return None
    finish = last.call.response.finish_reason
    capped = sentence.kind is SentenceKind.OUTPUT_CAP and finish != "length"
    emptied = sentence.kind is SentenceKind.EMPTY_RESPONSE and last.is_productive
    if not capped and not (emptied and finish not in {"length", "content_filter"}):
        return None
    told = f"Cline says {sentence.text!r}, the gateway saw a whole answer with finish reason {finish!r}"
    return Conflict(told, cited_entry(stdout.source, error, "event.error.message"))
