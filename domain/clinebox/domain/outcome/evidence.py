"""Everything that a judgement may rest on, each part optional, each with the file that it was read from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from returns.pipeline import is_successful

from clinebox.domain.cline.log import LOG_NAME, LogFacts, LogReader
from clinebox.domain.cline.stderr import STDERR_NAME, StderrFacts, StderrReader
from clinebox.domain.cline.stdout import STDOUT_NAME, StdoutFacts, StdoutReader
from clinebox.domain.model_calls.facts import ModelCallFacts
from clinebox.domain.model_calls.reader import parse_model_calls
from clinebox.domain.outcome.failed_step import FailedStep
from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.receipt import CleanupReceipt, ReceiptFailure, parse_cleanup_receipt
from clinebox.domain.session_files import RECEIPT

META_NAME: Final = "meta.json"


class ExpectedSource(StrEnum):
    """A witness that the caller knows must be there; without it `completed` is not believed."""

    RECEIPT = "receipt"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class ReceiptEvidence:
    """The cleanup receipt as it was read, or why it is none."""

    source: str
    receipt: CleanupReceipt | ReceiptFailure


@dataclass(frozen=True, slots=True)
class RequestedStop:
    """The stop that clinebox itself asked for; `at_s` is in epoch seconds."""

    by: StoppedBy
    at_s: float | None = None


@dataclass(frozen=True, slots=True)
class ExitEvidence:
    """How the process ended, from the file that says so; tells only "never started" from "killed early"."""

    source: str
    exit_code: int | None = None
    signal: str | None = None
    exec_error: str | None = None


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """What is known of one run. None means not read; an empty file is read, and empty.

    `truncated_sources` names files of which only a part was read (a bound was hit).
    """

    stdout: StdoutFacts | None = None
    log: LogFacts | None = None
    stderr: StderrFacts | None = None
    receipt: ReceiptEvidence | None = None
    model_calls: ModelCallFacts | None = None
    """The gateway's record of every model call."""
    requested_stop: RequestedStop | None = None
    failed_step: FailedStep | None = None
    """What failed before Cline could be started, so that there is no run to judge."""
    exit: ExitEvidence | None = None
    cline_version: str | None = None
    expected_base_url: str | None = None
    """The model server's address that Cline was configured with, such as `http://host:8000/v1`."""
    expected_sources: frozenset[ExpectedSource] = field(default_factory=frozenset)
    truncated_sources: frozenset[str] = field(default_factory=frozenset)


def evidence_from_bytes(
    *,
    stdout: bytes | None = None,
    cline_log: bytes | None = None,
    stderr: bytes | None = None,
    receipt: bytes | None = None,
    model_calls: bytes | None = None,
    expected_nonce: str | None = None,
    requested_stop: RequestedStop | None = None,
    exit_evidence: ExitEvidence | None = None,
    cline_version: str | None = None,
    expected_base_url: str | None = None,
    expected_sources: frozenset[ExpectedSource] = frozenset(),
    log_offset_bytes: int = 0,
    log_name: str = LOG_NAME,
) -> RunEvidence:
    """The evidence of a run whose files are in memory; adapters feed the readers chunk by chunk instead."""
    return RunEvidence(
        stdout=None if stdout is None else read_stdout(stdout),
        log=None if cline_log is None else read_log(cline_log, log_name, offset_bytes=log_offset_bytes),
        stderr=None if stderr is None else read_stderr(stderr),
        receipt=None if receipt is None else read_receipt(receipt, expected_nonce=expected_nonce),
        model_calls=None if model_calls is None else parse_model_calls(model_calls),
        requested_stop=requested_stop,
        exit=exit_evidence,
        cline_version=cline_version,
        expected_base_url=expected_base_url,
        expected_sources=expected_sources,
    )


def read_stdout(data: bytes, source: str = STDOUT_NAME) -> StdoutFacts:
    """Cline's stdout, whole."""
    reader = StdoutReader(source)
    reader.feed(data)
    return reader.finish()


def read_log(data: bytes, source: str = LOG_NAME, *, offset_bytes: int = 0) -> LogFacts:
    """Cline's own log, whole, judged from the run's own offset."""
    reader = LogReader(source, offset_bytes=offset_bytes)
    reader.feed(data)
    return reader.finish()


def read_stderr(data: bytes, source: str = STDERR_NAME) -> StderrFacts:
    """Cline's stderr, whole."""
    reader = StderrReader(source)
    reader.feed(data)
    return reader.finish()


def read_receipt(
    payload: bytes, source: str = RECEIPT, *, expected_nonce: str | None = None
) -> ReceiptEvidence:
    """The cleanup receipt, parsed or refused."""
    parsed = parse_cleanup_receipt(payload, expected_nonce=expected_nonce)
    return ReceiptEvidence(source, parsed.unwrap() if is_successful(parsed) else parsed.failure())
