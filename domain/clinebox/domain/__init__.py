"""The pure core: what happened in a recorded Cline run, decided from evidence alone.

The names below are the public API. They keep their meaning within a major version; everything else in the
package may move. Nothing here does I/O, reads a clock or raises on input.
"""

from clinebox.domain.envelope import HostError, host_error, parse_host_error, render_host_error
from clinebox.domain.failure_wire import DecodedReport, decode_header, encode_header, render_failure
from clinebox.domain.failures import (
    Boundary,
    Cause,
    FailureEvent,
    FailureReport,
    Stage,
    build_report,
    merge,
    validate,
)
from clinebox.domain.grading import Exited, NotRun, TimedOut, VerifierError, grade
from clinebox.domain.outcome.classify import ClassifyFailure, classify
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
from clinebox.domain.preflight import (
    Answered,
    ConnectionRefused,
    ProbeBroke,
    Proceed,
    Redirected,
    Refuse,
    Unresolved,
    verdict,
)
from clinebox.domain.receipt import (
    CleanupReceipt,
    ReceiptFailure,
    Survivor,
    parse_cleanup_receipt,
    render_cleanup_receipt,
)
from clinebox.domain.secrets.environment import EnvironmentSecrets, secrets_from_environment
from clinebox.domain.secrets.interpolation import resolve
from clinebox.domain.secrets.masker import Masker
from clinebox.domain.secrets.tail import OutputTail

__all__ = [
    "Answered",
    "Boundary",
    "Cause",
    "ClassifyFailure",
    "CleanupReceipt",
    "ConnectionRefused",
    "DecodedReport",
    "EnvironmentSecrets",
    "EvidenceEntry",
    "ExitEvidence",
    "Exited",
    "ExpectedSource",
    "FailureEvent",
    "FailureReport",
    "Flag",
    "HostError",
    "Masker",
    "NotRun",
    "Outcome",
    "OutputTail",
    "Policy",
    "ProbeBroke",
    "Proceed",
    "Reason",
    "ReceiptFailure",
    "Redirected",
    "Refuse",
    "RequestedStop",
    "RunEvidence",
    "Stage",
    "Status",
    "StoppedBy",
    "Survivor",
    "TimedOut",
    "Unresolved",
    "Usage",
    "Verdict",
    "VerifierError",
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
