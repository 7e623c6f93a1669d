"""A run that could be scored is believed only with every expected witness, and none against it (SPEC §2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from clinebox.domain.model_calls.codec import MODEL_CALLS_NAME
from clinebox.domain.model_calls.facts import ModelCallFacts
from clinebox.domain.model_calls.faults import OPEN
from clinebox.domain.outcome.case import Case, Finding
from clinebox.domain.outcome.conflicts import conflicts
from clinebox.domain.outcome.conflicts_gateway import gateway_conflicts
from clinebox.domain.outcome.endpoint import is_below
from clinebox.domain.outcome.entries import call_entry, cited_entry, file_entry
from clinebox.domain.outcome.evidence import ExpectedSource
from clinebox.domain.outcome.model import EvidenceEntry, Reason
from clinebox.domain.outcome.rules_gateway import FAULT_WORDS, FINISH_REASONS, finding_of
from clinebox.domain.receipt import ReceiptFailure

IN_CLINE_S_WORDS: Final = frozenset({Reason.OUTPUT_CAP, Reason.CUT_SHORT, Reason.MISTAKE_LIMIT})
"""Reasons that may be scored, that Cline's own words make, and that the gateway's record may contradict."""


def doubt(case: Case, finding: Finding) -> Finding:
    """The finding, or what is left of it once the other witnesses were heard."""
    if finding.reason is Reason.FINISHED:
        return _doubt_completed(case, finding)
    if finding.reason is Reason.MODEL_REQUEST:
        return _doubt_status(case, finding)
    return _doubt_words(case, finding) if finding.reason in IN_CLINE_S_WORDS else finding


def _doubt_completed(case: Case, finding: Finding) -> Finding:
    against = conflicts(case)
    if against:
        entries = (*finding.evidence, *(conflict.entry for conflict in against))
        notes = tuple(f"conflicting evidence: {conflict.sentence}" for conflict in against)
        return Finding(Reason.UNKNOWN, entries, notes=notes)
    missing = _missing_receipt(case) or _missing_calls(case)
    if missing is not None:
        entry, note = missing
        return Finding(Reason.UNKNOWN, (*finding.evidence, entry), notes=(note,))
    elsewhere = called_elsewhere(case) or _no_call(case)
    if elsewhere is not None:
        entry, text = elsewhere
        return Finding(Reason.HARNESS_SETUP, (entry, *finding.evidence), text)
    return _by_last_call(case, finding)


def _by_last_call(case: Case, finding: Finding) -> Finding:
    """A `completed` is what its last answer was: whole, capped, filtered, or broken."""
    calls = case.gateway
    if calls is None or calls.last is None:
        return finding
    fault = calls.last.fault
    if fault is not None:
        found = finding_of(calls.source, calls.last, fault, finding.evidence)
        text = f"Cline took it for an answer, but {FAULT_WORDS[fault.kind]} (call {calls.last.call.number})."
        return replace(found, text=text)
    reason = FINISH_REASONS.get(calls.last.call.response.finish_reason or "")
    if reason is None or calls.last.call.response.tool_call_count:
        return finding
    return Finding(reason, (call_entry(calls.source, calls.last, "finish_reason"), *finding.evidence))


def _doubt_words(case: Case, finding: Finding) -> Finding:
    """A cap, a cut or a mistake in Cline's words, held against the calls as the gateway saw them."""
    missing = _missing_calls(case)
    if missing is not None:
        entry, note = missing
        return Finding(Reason.UNKNOWN, (*finding.evidence, entry), notes=(note,))
    calls = case.gateway
    if calls is None:
        return finding
    if calls.last is None:
        return _unsaid(calls, finding)
    fault = calls.last.fault
    if finding.reason is Reason.MISTAKE_LIMIT:
        # Arguments that the server cut, or an engine that died, make a call invalid: not the model's mistake.
        broken = fault is not None and fault.kind not in OPEN
        return finding_of(calls.source, calls.last, fault, finding.evidence) if broken and fault else finding
    capped = fault is None and calls.last.call.response.finish_reason == "length"
    return finding if capped and finding.reason is Reason.OUTPUT_CAP else _unsaid(calls, finding)


def _doubt_status(case: Case, finding: Finding) -> Finding:
    """A status in Cline's log over calls that all went well: somebody between them answered."""
    calls = case.gateway
    if calls is None or calls.last is None or calls.last.fault is not None or not gateway_conflicts(case):
        return finding
    return _unsaid(calls, finding)


def _unsaid(calls: ModelCallFacts, finding: Finding) -> Finding:
    said = None if calls.last is None else calls.last.call.response.finish_reason
    saw = "no model call at all" if calls.last is None else f"a last answer with finish reason {said!r}"
    note = f"Cline's words say {finding.reason}, but the gateway saw {saw}"
    entries = () if calls.last is None else (call_entry(calls.source, calls.last, "finish_reason"),)
    return Finding(Reason.UNKNOWN, (*entries, *finding.evidence), notes=(*finding.notes, note))


def _missing_receipt(case: Case) -> tuple[EvidenceEntry, str] | None:
    # A receipt that is there and cannot be read was meant to be read, whether or not it was announced.
    evidence = case.evidence.receipt
    if evidence is None:
        if ExpectedSource.RECEIPT not in case.evidence.expected_sources:
            return None
        return file_entry(
            "cleanup.json", "cleanup_confirmed", "missing"
        ), "the expected cleanup receipt is missing"
    if not isinstance(evidence.receipt, ReceiptFailure):
        return None
    return file_entry(
        evidence.source, "cleanup_confirmed", evidence.receipt.message
    ), evidence.receipt.message


def _missing_calls(case: Case) -> tuple[EvidenceEntry, str] | None:
    """The gateway's record, expected and not there, or there and not whole: the last call may be lost."""
    calls = case.evidence.model_calls
    if calls is None:
        if ExpectedSource.GATEWAY not in case.evidence.expected_sources:
            return None
        return file_entry(MODEL_CALLS_NAME, "number", "missing"), "the expected gateway record is missing"
    if calls.is_whole:
        return None
    note = f"the gateway's record {calls.source} is not whole: {calls.calls} calls in {calls.lines} lines"
    return file_entry(calls.source, "of", "not whole"), note


def _no_call(case: Case) -> tuple[EvidenceEntry, str] | None:
    calls = case.gateway
    if calls is None or calls.completions:
        return None
    text = "No model call came to the gateway: Cline called another endpoint than the configured one."
    return file_entry(calls.source, "number", "no model call"), text


def masked_record(case: Case) -> EvidenceEntry | None:
    """The first record of Cline's whose names a masker covered (docs/masking.md)."""
    for facts in (case.stdout, case.log):
        if facts is not None and facts.masked_names is not None:
            return cited_entry(facts.source, facts.masked_names, "type")
    return None


def called_elsewhere(case: Case) -> tuple[EvidenceEntry, str] | None:
    """A failed call to another address than the configured one, by Cline's own log."""
    log, base_url = case.log, case.evidence.expected_base_url
    if log is None or base_url is None:
        return None
    stray = next((url for url in log.urls if not is_below(url.value, base_url)), None)
    if stray is None:
        return None
    called, wanted = stray.value[:200], base_url[:200]
    text = f"Cline called {called} and not the configured {wanted}: its settings were not read."
    return cited_entry(log.source, stray, "err.url"), text
