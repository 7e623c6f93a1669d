"""Evidence entries: which file, which line, which field, and what stands there."""

from __future__ import annotations

from clinebox.domain.cline.cited import EXCERPT_LIMIT_CHARS, Cited, excerpt
from clinebox.domain.model_calls.facts import SeenCall
from clinebox.domain.outcome.evidence import ExitEvidence, ReceiptEvidence, RequestedStop
from clinebox.domain.outcome.model import EvidenceEntry
from clinebox.domain.receipt import CleanupReceipt


def cited_entry(source: str, cited: Cited[object], field: str) -> EvidenceEntry:
    """A line that was read."""
    return EvidenceEntry(source, cited.line, field, cited.excerpt)


def call_entry(source: str, seen: SeenCall, field: str) -> EvidenceEntry:
    """A model call of the gateway's record, quoted from the field that tells."""
    return EvidenceEntry(source, seen.line, field, excerpt(seen.raw, b'"%b":' % field.encode()))


def file_entry(source: str, field: str, value: object) -> EvidenceEntry:
    """A value of a file that is one object: it has no line."""
    return EvidenceEntry(source, None, field, str(value)[:EXCERPT_LIMIT_CHARS])


def exit_entries(evidence: ExitEvidence | None) -> tuple[EvidenceEntry, ...]:
    """How the process ended, by whatever of it is known: `exec_error`, `signal`, `exit_code`."""
    if evidence is None:
        return ()
    told = (
        ("exec_error", evidence.exec_error),
        ("signal", evidence.signal),
        ("exit_code", evidence.exit_code),
    )
    return tuple(file_entry(evidence.source, field, value) for field, value in told if value is not None)


def stop_entries(
    receipt: ReceiptEvidence | None, requested: RequestedStop | None
) -> tuple[EvidenceEntry, ...]:
    """Who of ours ended the run: the receipt's word, and our own request."""
    entries: list[EvidenceEntry] = []
    if receipt is not None and isinstance(receipt.receipt, CleanupReceipt):
        if receipt.receipt.stopped_by is not None:
            entries.append(file_entry(receipt.source, "stopped_by", receipt.receipt.stopped_by))
        elif receipt.receipt.timed_out:
            entries.append(file_entry(receipt.source, "timed_out", "true"))
    if requested is not None:
        at = "" if requested.at_s is None else f" at {requested.at_s:.3f}"
        entries.append(file_entry("clinebox", "requested_stop", f"{requested.by}{at}"))
    return tuple(entries)
