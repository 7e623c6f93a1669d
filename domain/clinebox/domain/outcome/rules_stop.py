"""Our own stop or deadline, which precedes whatever Cline says (SPEC §2, precedence)."""

from __future__ import annotations

from clinebox.domain.outcome.case import Case, Finding
from clinebox.domain.outcome.entries import cited_entry, stop_entries
from clinebox.domain.outcome.model import EvidenceEntry, Reason, StoppedBy


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
    # `iteration_start` is written before the request, so it is no output (SURPRISES.md C4).
    stdout = case.stdout
    output = stdout.model_output if stdout is not None else None
    if stdout is None or output is None:
        text = "The deadline came before the model had produced any output."
        silent_s = case.version.rules.silent_retry_s
        note = f"this Cline may retry a failing model call for {silent_s} s without a word"
        return Finding(
            Reason.DEADLINE_BEFORE_OUTPUT, entries, text, stopped_by=StoppedBy.DEADLINE, notes=(note,)
        )
    seen = cited_entry(stdout.source, output, "event")
    return Finding(Reason.DEADLINE, (*entries, seen), stopped_by=StoppedBy.DEADLINE)
