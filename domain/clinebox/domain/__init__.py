"""The pure core: what happened in a recorded Cline run, decided from evidence alone.

The names below are the public API. They keep their meaning within a major version; everything else in the
package may move. Nothing here does I/O, reads a clock or raises on input.
"""

from clinebox.domain.envelope import HostError, host_error, parse_host_error, render_host_error
from clinebox.domain.failure_wire import decode_header, encode_header, render_failure
from clinebox.domain.failures import Cause, FailureEvent, FailureReport, build_report, merge, validate
from clinebox.domain.grading import grade
from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import (
    ExitEvidence,
    ExpectedSource,
    RequestedStop,
    RunEvidence,
    evidence_from_bytes,
)
from clinebox.domain.outcome.model import (
    EvidenceEntry,
    Flag,
    Outcome,
    Reason,
    Status,
    StoppedBy,
    Usage,
)
from clinebox.domain.outcome.policy import Policy, Verdict, decide, retry_delay_s
from clinebox.domain.outcome.render import explain, outcome_to_json
from clinebox.domain.preflight import Proceed, Refuse, verdict
from clinebox.domain.receipt import CleanupReceipt, parse_cleanup_receipt, render_cleanup_receipt
from clinebox.domain.secrets.environment import secrets_from_environment
from clinebox.domain.secrets.interpolation import resolve
from clinebox.domain.secrets.masker import Masker
from clinebox.domain.secrets.tail import OutputTail

__all__ = [
    "Cause",
    "CleanupReceipt",
    "EvidenceEntry",
    "ExitEvidence",
    "ExpectedSource",
    "FailureEvent",
    "FailureReport",
    "Flag",
    "HostError",
    "Masker",
    "Outcome",
    "OutputTail",
    "Policy",
    "Proceed",
    "Reason",
    "Refuse",
    "RequestedStop",
    "RunEvidence",
    "Status",
    "StoppedBy",
    "Usage",
    "Verdict",
    "build_report",
    "classify",
    "decide",
    "decode_header",
    "encode_header",
    "evidence_from_bytes",
    "explain",
    "grade",
    "host_error",
    "merge",
    "outcome_to_json",
    "parse_cleanup_receipt",
    "parse_host_error",
    "render_cleanup_receipt",
    "render_failure",
    "render_host_error",
    "resolve",
    "retry_delay_s",
    "secrets_from_environment",
    "validate",
    "verdict",
]
