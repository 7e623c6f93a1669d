"""Reads what a run left on disk into evidence, 64 KiB at a time, into the domain's pure readers."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.run_directory import names
from clinebox.adapters.run_directory.facts import RunFacts, read_meta_facts, read_own_facts
from clinebox.adapters.run_directory.find import (
    NO_RUN,
    STDIN,
    UNREADABLE,
    Found,
    NoRun,
    RunDirectory,
    StreamFile,
)
from clinebox.domain.cline.log import LogFacts, LogReader
from clinebox.domain.cline.stderr import StderrReader
from clinebox.domain.cline.stdout import StdoutFacts, StdoutReader
from clinebox.domain.json_value import parse_json
from clinebox.domain.model_calls.facts import ModelCallFacts
from clinebox.domain.model_calls.reader import ModelCallReader
from clinebox.domain.outcome.evidence import ExpectedSource, ReceiptEvidence, RunEvidence, read_receipt
from clinebox.domain.receipt import RECEIPT_LIMIT_BYTES

CHUNK_BYTES: Final = 64 * 1024
FACTS_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""A larger meta.json or outcome.json is not read, and a note says so."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the caller knows better than the files, each by the option of `classify`."""

    receipt: Path | None = None
    model_calls: Path | None = None
    cline_version: str | None = None
    base_url: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run as it was read: the evidence, and what of its facts could not be read."""

    path: Path
    evidence: RunEvidence
    notes: tuple[str, ...] = ()


class _Reader(Protocol):
    def feed(self, chunk: bytes) -> None: ...


def read_run(found: Found, overrides: Overrides | None = None) -> Result[RecordedRun, NoRun]:
    """The evidence of what `find_runs` found; memory does not grow with the files.

    Failure(NoRun) when there is no run, or when one of its files is there and cannot be read: less evidence
    would be another judgement.
    """
    asked = overrides or Overrides()
    try:
        match found:
            case NoRun():
                return Failure(found)
            case RunDirectory(path):
                return Success(_read_directory(path, asked))
            case StreamFile(path):
                return _read_stream(path, asked)
    except OSError as error:
        where = error.filename or found.path
        return Failure(NoRun(found.path, UNREADABLE, f"{str(where)!r} cannot be read: {error.strerror}"))


def read_receipt_file(path: Path, *, expected_nonce: str | None = None) -> ReceiptEvidence | None:
    """The cleanup receipt in a file, parsed or refused; None where there is no such file.

    Raises OSError when it is there and cannot be read.
    """
    content = _read_bounded(path, RECEIPT_LIMIT_BYTES + 1)
    return None if content is None else read_receipt(content, path.name, expected_nonce=expected_nonce)


def _read_directory(path: Path, asked: Overrides) -> RecordedRun:
    own, own_notes = _read_facts(path / names.OUTCOME)
    meta, meta_notes = _read_facts(path / names.META)
    stdout = StdoutReader(names.STDOUT)
    stderr = StderrReader(names.STDERR)
    has_stdout = _feed(path / names.STDOUT, stdout)
    has_stderr = _feed(path / names.STDERR, stderr)
    evidence = RunEvidence(
        stdout=stdout.finish() if has_stdout else None,
        log=_read_log(path),
        stderr=stderr.finish() if has_stderr else None,
        receipt=_receipt(path / names.RECEIPT, asked, own.receipt_nonce),
        model_calls=_model_calls(asked.model_calls or path / names.MODEL_CALLS),
        requested_stop=own.requested_stop,
        failed_step=own.failed_step,
        exit=own.exit or meta.exit,
        cline_version=asked.cline_version or own.cline_version or meta.cline_version,
        expected_base_url=asked.base_url or own.expected_base_url,
        expected_sources=own.expected_sources,
        truncated_sources=own.truncated_sources,
    )
    return RecordedRun(path, evidence, (*own_notes, *meta_notes))


def _read_stream(path: Path, asked: Overrides) -> Result[RecordedRun, NoRun]:
    stdout = _read_stdin() if path == STDIN else _read_stdout(path)
    if not _is_clines(stdout):
        message = f"{str(path)!r} holds no run: no line of it is a record of Cline's"
        return Failure(NoRun(path, NO_RUN, message))
    evidence = RunEvidence(
        stdout=stdout,
        receipt=_receipt(None, asked, None),
        model_calls=None if asked.model_calls is None else _model_calls(asked.model_calls),
        cline_version=asked.cline_version,
        expected_base_url=asked.base_url,
    )
    return Success(RecordedRun(path, evidence))


def _is_clines(stdout: StdoutFacts) -> bool:
    """Whether a file given by itself may be Cline's: an empty one may (killed early), a README is not."""
    began = stdout.lead_agent_id is not None or stdout.lead_turns > 0 or stdout.model_output is not None
    return stdout.size_bytes == 0 or began or stdout.run_result is not None


def _read_stdin() -> StdoutFacts:
    reader = StdoutReader("-")
    for chunk in _chunks(sys.stdin.buffer):
        reader.feed(chunk)
    return reader.finish()


def _read_stdout(path: Path) -> StdoutFacts:
    reader = StdoutReader(path.name)
    with path.open("rb") as file:
        for chunk in _chunks(file):
            reader.feed(chunk)
    return reader.finish()


def _read_log(path: Path) -> LogFacts | None:
    for name in (names.CLINE_LOG, names.CLINE_LOG_EXCERPT):
        reader = LogReader(name)
        if _feed(path / name, reader):
            return reader.finish()
    return None


def _model_calls(path: Path) -> ModelCallFacts | None:
    reader = ModelCallReader(path.name)
    return reader.finish() if _feed(path, reader) else None


def _receipt(path: Path | None, asked: Overrides, nonce: str | None) -> ReceiptEvidence | None:
    if asked.receipt is not None:
        # A nonce is the session's own: a receipt that the caller brings is not held against it.
        return read_receipt_file(asked.receipt)
    return None if path is None else read_receipt_file(path, expected_nonce=nonce)


def _read_facts(path: Path) -> tuple[RunFacts, tuple[str, ...]]:
    content = _read_bounded(path, FACTS_LIMIT_BYTES + 1)
    if content is None:
        return RunFacts(), ()
    if len(content) > FACTS_LIMIT_BYTES:
        return _lost_facts(path, f"it is longer than {FACTS_LIMIT_BYTES} bytes")
    parsed = parse_json(content)
    if not is_successful(parsed):
        return _lost_facts(path, f"it is not JSON ({parsed.failure()})")
    read = read_own_facts if path.name == names.OUTCOME else read_meta_facts
    return read(parsed.unwrap(), path.name), ()


def _lost_facts(path: Path, why: str) -> tuple[RunFacts, tuple[str, ...]]:
    """A damaged outcome.json may have announced every witness, so all are expected: less is never better."""
    own = path.name == names.OUTCOME
    facts = RunFacts(expected_sources=frozenset(ExpectedSource) if own else frozenset())
    return facts, (f"{path.name} was not read: {why}",)


def _feed(path: Path, reader: _Reader) -> bool:
    """Whether the file is there; then the reader has all of it."""
    file = _open_regular(path)
    if file is None:
        return False
    with file:
        for chunk in _chunks(file):
            reader.feed(chunk)
    return True


def _read_bounded(path: Path, limit_bytes: int) -> bytes | None:
    file = _open_regular(path)
    if file is None:
        return None
    with file:
        return file.read(limit_bytes)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _open_regular(path: Path) -> BinaryIO | None:
    """The file for reading, or None where there is none; a pipe or device in its place is an OSError.

    Opened without blocking and judged afterwards: a named pipe in a folder from elsewhere must hang nothing.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(0, "it is no regular file", str(path))
    return os.fdopen(handle, "rb")
