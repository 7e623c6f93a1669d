"""Our own stop or deadline, which precedes whatever Cline says (SPEC §2, precedence)."""

from __future__ import annotations

from clinebox.domain.model_calls.facts import ModelCallFacts, SeenCall
from clinebox.domain.outcome.case import Case, Finding
from clinebox.domain.outcome.entries import call_entry, cited_entry, stop_entries
from clinebox.domain.outcome.model import EvidenceEntry, Reason, StoppedBy
from clinebox.domain.outcome.rules_gateway import FAULT_WORDS, pending_call, wait_sentence


def own_stop(case: Case) -> Finding | None:
    """Who of ours ended the run, unless it had already ended and only the process lingered."""
    stop = case.own_stop
    if stop is None or case.lingered:
        return None
    entries = stop_entries(case.evidence.receipt, case.evidence.requested_stop)
    match stop:
        case StoppedBy.DEADLINE:
            return _deadline(case, entries)
        case StoppedBy.CALLER | StoppedBy.OPERATOR:
            return Finding(Reason.STOPPED, entries, stopped_by=stop)
        case StoppedBy.OUTPUT_LIMIT:
            text = "The run wrote more than its output bound allows, and was stopped."
            return Finding(Reason.OUTPUT_LIMIT, entries, text, stopped_by=stop)


def _deadline(case: Case, entries: tuple[EvidenceEntry, ...]) -> Finding:
    seen = _output(case)
    if seen is not None:
        return Finding(Reason.DEADLINE, (*entries, seen), stopped_by=StoppedBy.DEADLINE)
    calls = case.gateway
    if calls is not None and calls.newest is not None:
        return _never_answered(calls, calls.newest, entries)
    text = "The deadline came before the model had produced any output."
    if calls is not None:
        note = "the gateway saw no model call at all"
    else:
        silent_s = case.version.rules.silent_retry_s
        note = f"this Cline may retry a failing model call for {silent_s} s without a word"
    return Finding(Reason.DEADLINE_BEFORE_OUTPUT, entries, text, stopped_by=StoppedBy.DEADLINE, notes=(note,))


def _output(case: Case) -> EvidenceEntry | None:
    """The first recorded output, by whoever saw it; of a cut record what is left of it counts too."""
    # `iteration_start` is written before the request, so it is no output (SURPRISES.md C4).
    stdout, calls = case.stdout, case.evidence.model_calls
    if stdout is not None and stdout.model_output is not None:
        return cited_entry(stdout.source, stdout.model_output, "event")
    if calls is not None and calls.first_output is not None:
        return call_entry(calls.source, calls.first_output, "produced_output")
    return None


def _never_answered(calls: ModelCallFacts, newest: SeenCall, entries: tuple[EvidenceEntry, ...]) -> Finding:
    """Calls, and none that ever produced output: the way to the model, and no fault of the agent's."""
    fault = newest.fault
    waiting = pending_call(calls)
    how = wait_sentence(newest.call) if waiting is not None or fault is None else FAULT_WORDS[fault.kind]
    text = f"The deadline came before any model output (model calls: {calls.completions}): {how}."
    entry = call_entry(calls.source, newest, "produced_output" if fault is None else fault.field)
    return Finding(Reason.MODEL_TRANSPORT, (*entries, entry), text, stopped_by=StoppedBy.DEADLINE)
