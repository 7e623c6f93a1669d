"""From what a run left in its sandbox to an outcome, and to the run directory's stream files, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from returns.pipeline import is_successful

from clinebox.adapters.run_directory import names
from clinebox.adapters.run_directory.facts import RunFacts
from clinebox.adapters.run_directory.writer import RunDirectoryWriter
from clinebox.adapters.supervisor.client import Finished
from clinebox.domain import session_files
from clinebox.domain.cline.launch import CLINE_LOG
from clinebox.domain.cline.log import LogReader
from clinebox.domain.cline.stderr import StderrReader
from clinebox.domain.cline.stdout import StdoutReader
from clinebox.domain.cline.stream import StreamDecoder
from clinebox.domain.cline.transcript import TranscriptFolder
from clinebox.domain.cline.transcript_model import Transcript
from clinebox.domain.model_calls.codec import model_call_lines
from clinebox.domain.model_calls.facts import ModelCallFacts
from clinebox.domain.model_calls.reader import ModelCallReader
from clinebox.domain.model_calls.record import ModelCall
from clinebox.domain.model_calls.turns import JoinedCall, join_turns, turns_of
from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import ExpectedSource, ReceiptEvidence, RequestedStop, RunEvidence
from clinebox.domain.outcome.failed_step import FailedStep
from clinebox.domain.outcome.model import Outcome
from clinebox.domain.receipt import render_cleanup_receipt
from clinebox.entrypoints.agent_session import AgentSession
from clinebox.entrypoints.collect import Collector
from clinebox.entrypoints.model_access import ModelAccess
from clinebox.entrypoints.run_request import RunRequest


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome, the facts that let it be judged again, and what was said and done."""

    outcome: Outcome
    facts: RunFacts
    transcript: Transcript | None
    notes: tuple[str, ...] = ()
    model_calls: tuple[JoinedCall, ...] | None = None
    """What the gateway saw; None where none was used."""


class _TranscriptReader:
    """The transcript, made of what is written: it is for people and programs outside, and judges nothing."""

    def __init__(self) -> None:
        self._decoder = StreamDecoder()
        self._folder = TranscriptFolder()

    def feed(self, chunk: bytes) -> None:
        for record in self._decoder.feed(chunk):
            self._folder.add(record)

    def finish(self) -> Transcript:
        for record in self._decoder.finish():
            self._folder.add(record)
        return self._folder.finish()


@dataclass(frozen=True, slots=True)
class _Collected:
    """What a run left behind, read and copied."""

    evidence: RunEvidence
    """The streams alone."""
    transcript: Transcript | None
    truncated: frozenset[str]
    notes: tuple[str, ...]


async def judge_run(
    session: AgentSession,
    finished: Finished | None,
    writer: RunDirectoryWriter,
    request: RunRequest,
    access: ModelAccess,
    *,
    stop: RequestedStop | None,
) -> Judgement:
    """Collect the streams of an ended run and judge it; raw bytes are judged, masked bytes are written.

    `finished` is None for a run that was cut off without a receipt. The way to the model ends first, so that
    its record is whole.
    """
    calls = access.end()
    left = await _collect(session, writer)
    joined = None if calls is None else _joined(calls, left.transcript)
    model_calls = None if joined is None else _record_calls(joined, writer)
    receipt = None if finished is None else finished.receipt
    if receipt is not None:
        writer.write(names.RECEIPT, [render_cleanup_receipt(receipt)])
    facts = RunFacts(
        cline_version=request.cline_version,
        requested_stop=stop,
        expected_sources=_expected(model_calls),
        truncated_sources=left.truncated,
        expected_base_url=access.base_url,
        receipt_nonce=None if receipt is None else receipt.nonce,
    )
    witnesses = replace(
        left.evidence,
        receipt=None if receipt is None else ReceiptEvidence(names.RECEIPT, receipt),
        model_calls=model_calls,
    )
    return Judgement(_outcome(_with_facts(witnesses, facts)), facts, left.transcript, left.notes, joined)


async def _collect(session: AgentSession, writer: RunDirectoryWriter) -> _Collected:
    collector = Collector(session.sandbox, writer)
    stdout, stderr, log = StdoutReader(names.STDOUT), StderrReader(names.STDERR), LogReader(names.CLINE_LOG)
    transcript = _TranscriptReader()
    has_stdout = await collector.copy(
        session.path(session_files.STDOUT), names.STDOUT, stdout, masked=transcript
    )
    has_stderr = await collector.copy(session.path(session_files.STDERR), names.STDERR, stderr)
    has_log = await collector.copy(session.path(CLINE_LOG), names.CLINE_LOG, log)
    evidence = RunEvidence(
        stdout=stdout.finish() if has_stdout else None,
        log=log.finish() if has_log else None,
        stderr=stderr.finish() if has_stderr else None,
    )
    said = transcript.finish() if has_stdout else None
    return _Collected(evidence, said, frozenset(collector.truncated), tuple(collector.notes))


def _with_facts(evidence: RunEvidence, facts: RunFacts) -> RunEvidence:
    """The facts that `outcome.json` keeps, as the judge takes them."""
    return replace(
        evidence,
        requested_stop=facts.requested_stop,
        failed_step=facts.failed_step,
        cline_version=facts.cline_version,
        expected_base_url=facts.expected_base_url,
        expected_sources=facts.expected_sources,
        truncated_sources=facts.truncated_sources,
    )


def _joined(calls: Sequence[ModelCall], transcript: Transcript | None) -> tuple[JoinedCall, ...]:
    turns = join_turns(calls, () if transcript is None else turns_of(transcript))
    return tuple(JoinedCall(call, turn) for call, turn in zip(calls, turns, strict=True))


def _record_calls(joined: Sequence[JoinedCall], writer: RunDirectoryWriter) -> ModelCallFacts:
    """What the gateway saw, written once and judged; an empty record is one too: no call was made."""
    reader = ModelCallReader(names.MODEL_CALLS)
    lines = model_call_lines([each.call for each in joined], [each.turn for each in joined])
    with writer.open(names.MODEL_CALLS) as sink:
        for line in (b"", *lines):
            reader.feed(line)
            sink.write(line)
    return reader.finish()


def _expected(model_calls: ModelCallFacts | None) -> frozenset[ExpectedSource]:
    gateway = () if model_calls is None else (ExpectedSource.GATEWAY,)
    return frozenset({ExpectedSource.RECEIPT, *gateway})


def judge_step(step: FailedStep | None, request: RunRequest, stop: RequestedStop | None) -> Judgement:
    """The outcome of a run that never came to its activation: a failed step, or a stop before it."""
    facts = RunFacts(
        cline_version=request.cline_version,
        requested_stop=stop,
        failed_step=step,
        expected_base_url=request.model.base_url,
    )
    return Judgement(_outcome(_with_facts(RunEvidence(), facts)), facts, None)


def _outcome(evidence: RunEvidence) -> Outcome:
    result = classify(evidence)
    if not is_successful(result):  # only our own base URL can be refused, and the request was checked
        raise ValueError(result.failure().message)
    return result.unwrap()
