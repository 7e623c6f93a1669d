"""The evidence as the rules look at it: derived once, so that every rule is a few lines."""

from __future__ import annotations

from dataclasses import dataclass

from clinebox.domain.cline.cited import Cited
from clinebox.domain.cline.events import AgentError, RunAborted, RunResult
from clinebox.domain.cline.log import AgentEnd, LogFacts
from clinebox.domain.cline.log_lines import StreamError
from clinebox.domain.cline.stdout import StdoutFacts
from clinebox.domain.cline.versions import VersionReading, read_version
from clinebox.domain.model_calls.facts import ModelCallFacts
from clinebox.domain.outcome.evidence import RunEvidence
from clinebox.domain.outcome.model import EvidenceEntry, Reason, StoppedBy
from clinebox.domain.outcome.sentences import SENTENCES, Sentence, SentenceKind
from clinebox.domain.receipt import CleanupReceipt


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found: the reason, and the lines that decided it."""

    reason: Reason
    evidence: tuple[EvidenceEntry, ...]
    text: str = ""
    status_code: int | None = None
    stopped_by: StoppedBy | None = None
    notes: tuple[str, ...] = ()
    failure_kind: str | None = None
    """Where the reason alone does not tell it: a sandbox's failure has several kinds."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run's evidence, with what every rule needs of it."""

    evidence: RunEvidence
    version: VersionReading
    receipt: CleanupReceipt | None
    """The receipt that could be read; a refused one is no receipt."""

    @property
    def stdout(self) -> StdoutFacts | None:
        """Cline's stdout, if it was read."""
        return self.evidence.stdout

    @property
    def result(self) -> Cited[RunResult] | None:
        """Cline's own word on how the run ended."""
        return self.stdout.run_result if self.stdout is not None else None

    @property
    def aborted(self) -> Cited[RunAborted] | None:
        """The `run_aborted` beside the result."""
        return self.stdout.run_aborted if self.stdout is not None else None

    def was_aborted(self, reason: str) -> bool:
        """Whether the run's `run_aborted` has this reason."""
        return self.aborted is not None and self.aborted.value.reason == reason

    @property
    def lead_error(self) -> Cited[AgentError] | None:
        """The lead's last terminal error, if the run's result is an error."""
        if self.stdout is None or self.result is None or self.result.value.finish_reason != "error":
            return None
        return self.stdout.lead_error

    @property
    def log(self) -> LogFacts | None:
        """Cline's own log; where it holds nothing, its records may have gone to stderr (SURPRISES.md C14)."""
        log, stderr = self.evidence.log, self.evidence.stderr
        if log is not None and log.records:
            return log
        return (stderr.log if stderr is not None else None) or log

    @property
    def gateway(self) -> ModelCallFacts | None:
        """The gateway's record, if it is whole: of a cut one nobody knows which call was the last."""
        calls = self.evidence.model_calls
        return calls if calls is not None and calls.is_whole else None

    @property
    def lead_end(self) -> AgentEnd | None:
        """How the lead's loop ended, by Cline's own log of this very run."""
        log = self.log
        if log is None or self.stdout is None:
            return None
        return log.end_of(self.stdout.lead_agent_id)

    @property
    def own_stop(self) -> StoppedBy | None:
        """Who of ours ended the process. The supervisor did it, so its receipt is believed first."""
        receipt = self.receipt
        if receipt is not None and receipt.stopped_by is not None:
            return receipt.stopped_by
        if receipt is not None and receipt.timed_out:
            return StoppedBy.DEADLINE
        requested = self.evidence.requested_stop
        return requested.by if requested is not None else None

    @property
    def lingered(self) -> bool:
        """The run had ended by itself, and only the process was ended by us.

        A stop that reaches a live run leaves no run_result (SIGINT), or one with a `local_abort` beside it
        (SIGTERM): FORMAT.md §4, Cline 3.0.57 to 3.0.65.
        """
        return self.own_stop is not None and self.result is not None and not self.was_aborted("local_abort")

    @property
    def cause(self) -> Cited[StreamError] | None:
        """The SDK's error that ended the lead, or None where the log holds none that fits.

        An earlier fault that was recovered may stand directly before the lead's end, because a stream that
        breaks after content leaves no line of its own (FORMAT.md §6). Then the texts differ.
        """
        log, error = self.log, self.lead_error
        if log is None or error is None or self.stdout is None:
            return None
        end = self.lead_end
        fault = end.stream_error if end is not None else log.pending
        if fault is None or _is_older(fault, self.stdout):
            return None
        message = error.value.message or ""
        agrees = any(text in message for text in fault.value.texts)
        known = self.sentence is not None
        return fault if agrees or (end is not None and not known) else None

    @property
    def sentence(self) -> Sentence | None:
        """Which of Cline's known sentences the lead's terminal error is, in this version."""
        error = self.lead_error
        message = error.value.message if error is not None else None
        if not message:
            return None
        known = (
            row for row in SENTENCES if row.matches(message) and row.versions.holds(self.version.version)
        )
        return next(known, None)

    def says(self, kind: SentenceKind) -> bool:
        """Whether the lead's terminal error is this sentence and Cline itself wrote it.

        A server's words reach stdout as the same `message`. They carry an `errorClass`, Cline's own do not
        (3.0.57 to 3.0.65); should a later version give its own a class, the log must show no server's error.
        """
        error, sentence = self.lead_error, self.sentence
        if error is None or sentence is None or sentence.kind is not kind:
            return False
        return error.value.error_class is None or self._log_shows_no_server_error

    @property
    def _log_shows_no_server_error(self) -> bool:
        # A line that could not be read may have been the server's error: it repeats the whole request.
        end, log = self.lead_end, self.log
        whole = log is not None and not log.oversized_lines and not log.bad_lines
        return end is not None and end.stream_error is None and whole


def _is_older(fault: Cited[StreamError], stdout: StdoutFacts) -> bool:
    # Both times are ISO 8601 in UTC by the same process's clock, so the texts compare.
    turn = stdout.lead_turn
    return turn is not None and turn.ts is not None and fault.ts is not None and fault.ts < turn.ts


def open_case(evidence: RunEvidence) -> Case:
    """The case of one run."""
    read = evidence.receipt.receipt if evidence.receipt is not None else None
    receipt = read if isinstance(read, CleanupReceipt) else None
    return Case(evidence, read_version(evidence.cline_version), receipt)
