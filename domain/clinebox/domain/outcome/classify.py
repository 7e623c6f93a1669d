"""From evidence to outcome: total, deterministic, no I/O, never an exception on any bytes (SPEC §2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from returns.result import Failure, Result, Success

from clinebox.domain.outcome.case import Case, Finding, open_case
from clinebox.domain.outcome.conflicts_gateway import gateway_conflicts
from clinebox.domain.outcome.doubt import called_elsewhere, doubt, masked_record
from clinebox.domain.outcome.endpoint import is_url
from clinebox.domain.outcome.entries import file_entry
from clinebox.domain.outcome.evidence import RunEvidence
from clinebox.domain.outcome.flags import flags_of
from clinebox.domain.outcome.model import Outcome, Reason, Status, StoppedBy
from clinebox.domain.outcome.rules import RULES
from clinebox.domain.outcome.usage import reading_of

STATUSES: Final[Mapping[Reason, Status]] = {
    Reason.FINISHED: Status.COMPLETED,
    Reason.CONTEXT_OVERFLOW: Status.INCOMPLETE,
    Reason.OUTPUT_CAP: Status.INCOMPLETE,
    Reason.CONTENT_FILTER: Status.INCOMPLETE,
    Reason.CUT_SHORT: Status.INCOMPLETE,
    Reason.MISTAKE_LIMIT: Status.INCOMPLETE,
    Reason.LOOP_DETECTED: Status.INCOMPLETE,
    Reason.DEADLINE: Status.INCOMPLETE,
    Reason.STOPPED: Status.INCOMPLETE,
}
"""Every other reason is a failure."""

FAILURE_KINDS: Final[Mapping[Reason, str]] = {
    Reason.EMPTY_RESPONSE: "agent_invalid_output",
    Reason.MODEL_REQUEST: "model_request_error",
    Reason.MODEL_TRANSPORT: "model_transport_error",
    Reason.DEADLINE_BEFORE_OUTPUT: "unknown",
    Reason.NO_RUN_RESULT: "clinebox:no_run_result",
    Reason.HARNESS_SETUP: "clinebox:harness_setup",
    Reason.OUTPUT_LIMIT: "clinebox:output_limit",
    Reason.RUNTIME_INSTALL: "clinebox:runtime_install",
    Reason.SANDBOX: "clinebox:sandbox",
    Reason.GATEWAY_UNREACHABLE: "clinebox:gateway_unreachable",
    Reason.UNCONFIRMED_CLEANUP: "clinebox:unconfirmed_cleanup",
    Reason.UNKNOWN: "unknown",
}
"""WIRE.md's vocabulary; a failure without a registered kind is namespaced."""


@dataclass(frozen=True, slots=True)
class ClassifyFailure:
    """The *caller's* own statement about the run is unusable, in a sentence for people."""

    message: str


def classify(evidence: RunEvidence) -> Result[Outcome, ClassifyFailure]:
    """The outcome of one run, whatever bytes the sandbox left; the same evidence gives the same outcome.

    Failure only for what the caller itself states wrongly: an `expected_base_url` that is no http(s)
    address, against which every call would look misdirected. Nothing read from a sandbox can fail.
    """
    base_url = evidence.expected_base_url
    if base_url is not None and not is_url(base_url):
        message = (
            f"the expected base URL {base_url[:200]!r} is no http or https address such as http://host/v1"
        )
        return Failure(ClassifyFailure(message))
    case = open_case(evidence)
    outcome = _outcome(case, _judge(case))
    return Success(_unconfirmed(case, outcome) or outcome)


def _judge(case: Case) -> Finding:
    found = (rule(case) for rule in RULES)
    # The last rule always finds something, so there is a first.
    finding = doubt(case, next(finding for finding in found if finding is not None))
    return finding if finding.reason not in STATUSES else _unless_masked(case, finding)


def _unless_masked(case: Case, finding: Finding) -> Finding:
    """What may be scored is believed only where every record can be read: masking never makes it better."""
    entry = masked_record(case)
    if entry is None:
        return finding
    note = f"a masked value covers names in {entry.source}, line {entry.line}: what it said cannot be told"
    return replace(
        finding, reason=Reason.UNKNOWN, evidence=(*finding.evidence, entry), notes=(*finding.notes, note)
    )


def _outcome(case: Case, finding: Finding) -> Outcome:
    flags = flags_of(case, finding)
    return Outcome(
        status=STATUSES.get(finding.reason, Status.FAILED),
        reason=finding.reason,
        failure_kind=finding.failure_kind or FAILURE_KINDS.get(finding.reason),
        status_code=finding.status_code,
        timed_out=finding.stopped_by is StoppedBy.DEADLINE,
        stopped_by=finding.stopped_by,
        text=finding.text or _own_text(case, finding),
        flags=tuple(sorted(flags)),
        flag_details={flag: flags[flag] for flag in sorted(flags)},
        notes=(*finding.notes, *_notes(case, finding)),
        usage=reading_of(case).usage,
        evidence=finding.evidence,
        cline_version=case.evidence.cline_version,
    )


def _own_text(case: Case, finding: Finding) -> str:
    """The final answer or Cline's error; a run that we ended has neither."""
    if finding.stopped_by is not None or case.result is None:
        return ""
    return case.result.value.text or ""


def _notes(case: Case, finding: Finding) -> tuple[str, ...]:
    version = (case.version.note,) if case.version.note is not None else ()
    elsewhere = called_elsewhere(case)
    stray = (elsewhere[1],) if elsewhere is not None and finding.reason is not Reason.HARNESS_SETUP else ()
    log = case.log
    gone = (
        (f"{log.source} is shorter than this run's own offset",)
        if log is not None and log.starts_beyond_end
        else ()
    )
    receipt = case.receipt.notes if case.receipt is not None else ()
    error = _error_beside_confirmation(case)
    against = (f"conflicting evidence: {conflict.sentence}" for conflict in gateway_conflicts(case))
    disagreed = tuple(note for note in against if note not in finding.notes)
    return (*version, *stray, *gone, *disagreed, *error, *(f"receipt: {note}" for note in receipt))


def _error_beside_confirmation(case: Case) -> tuple[str, ...]:
    """Said of a run whose end is confirmed; a negative receipt's text stays out (SPEC §4)."""
    receipt = case.receipt
    if receipt is None or not receipt.cleanup_confirmed or receipt.error is None:
        return ()
    return (f"receipt: {receipt.error}",)


def _unconfirmed(case: Case, outcome: Outcome) -> Outcome | None:
    """A negative receipt precedes all: something of the run may still be alive (SPEC §4)."""
    evidence, receipt = case.evidence.receipt, case.receipt
    if evidence is None or receipt is None or receipt.cleanup_confirmed:
        return None
    return replace(
        outcome,
        status=Status.FAILED,
        reason=Reason.UNCONFIRMED_CLEANUP,
        failure_kind=FAILURE_KINDS[Reason.UNCONFIRMED_CLEANUP],
        status_code=None,
        text="The cleanup was not confirmed: processes of the run may still be alive.",
        notes=(*outcome.notes, f"without the negative receipt: {outcome.status}/{outcome.reason}"),
        evidence=(file_entry(evidence.source, "cleanup_confirmed", "false"), *outcome.evidence),
        superseded=outcome,
    )
