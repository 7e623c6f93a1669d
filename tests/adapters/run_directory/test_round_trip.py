"""A run directory that the writer wrote is judged again as the run itself was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clinebox.adapters.run_directory import names
from clinebox.adapters.run_directory.facts import RunFacts
from clinebox.adapters.run_directory.find import RunDirectory
from clinebox.adapters.run_directory.log_cut import BODY_KEY
from clinebox.adapters.run_directory.reader import read_run
from clinebox.adapters.run_directory.writer import RunDirectoryWriter, outcome_file
from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import (
    ExitEvidence,
    ExpectedSource,
    RequestedStop,
    evidence_from_bytes,
)
from clinebox.domain.outcome.failed_step import FailedStep
from clinebox.domain.outcome.model import Outcome, Reason, Status, StoppedBy
from clinebox.domain.outcome.policy import decide

CORPUS = Path(__file__).parents[2] / "corpus"
RUNS = sorted(path.parent.relative_to(CORPUS).as_posix() for path in CORPUS.glob("*/*/stdout.ndjson"))
POSITIVE = b'{"cleanup_confirmed": true, "return_code": 0, "stopped_by": null, "nonce": "n1"}'


def write_and_judge(
    path: Path, files: dict[str, bytes], facts: RunFacts, *, nonce: str | None = None
) -> tuple[Outcome, Outcome]:
    """What the run was judged from its raw bytes, and what its run directory is judged."""
    evidence = evidence_from_bytes(
        stdout=files.get(names.STDOUT),
        cline_log=files.get(names.CLINE_LOG),
        stderr=files.get(names.STDERR),
        receipt=files.get(names.RECEIPT),
        expected_nonce=nonce,
        requested_stop=facts.requested_stop,
        exit_evidence=facts.exit,
        cline_version=facts.cline_version,
        expected_base_url=facts.expected_base_url,
        expected_sources=facts.expected_sources,
    )
    first = classify(replace(evidence, failed_step=facts.failed_step)).unwrap()
    writer = RunDirectoryWriter.create(path, mask=bytes).unwrap()
    for name, content in files.items():
        writer.write(name, [b"", *(content[at : at + 1000] for at in range(0, len(content), 1000))])
    kept = replace(facts, receipt_nonce=nonce)
    writer.write_json(names.OUTCOME, outcome_file(first, decide(first), kept, {"reward": 1.0}))
    assert writer.failures == ()
    again = classify(read_run(RunDirectory(path)).unwrap().evidence).unwrap()
    return without_bodies(first, first), without_bodies(again, first)


def without_bodies(outcome: Outcome, raw: Outcome) -> Outcome:
    """The outcome less those excerpts that quote a request body in the raw log, because that is cut."""
    quoted = [BODY_KEY in entry.excerpt for entry in raw.evidence]
    kept = [
        replace(entry, excerpt="") if body else entry
        for entry, body in zip(outcome.evidence, quoted, strict=True)
    ]
    return replace(outcome, evidence=tuple(kept))


def recorded(run: str) -> tuple[dict[str, bytes], RunFacts]:
    source = CORPUS / run
    meta = json.loads((source / "meta.json").read_bytes())
    files = {
        names.STDOUT: (source / "stdout.ndjson").read_bytes(),
        names.STDERR: (source / "stderr.txt").read_bytes(),
        names.CLINE_LOG: (source / "cline-log.jsonl").read_bytes(),
    }
    ended = ExitEvidence(names.OUTCOME, meta["exit_code"], meta["signal"], meta.get("exec_error"))
    return files, RunFacts(exit=ended, cline_version=meta["version"])


@pytest.mark.parametrize("run", RUNS)
def test_a_recorded_run_that_was_written_is_judged_again_as_it_was(tmp_path: Path, run: str) -> None:
    first, again = write_and_judge(tmp_path, *recorded(run))
    assert again == first


@pytest.mark.parametrize("by", list(StoppedBy))
def test_a_stop_that_only_we_know_of_is_still_known_when_judged_again(tmp_path: Path, by: StoppedBy) -> None:
    files, facts = recorded("3.0.57/sigkill_in_tool")
    stopped = replace(facts, requested_stop=RequestedStop(by, 1796058862.5))
    first, again = write_and_judge(tmp_path, files, stopped)
    assert (first.stopped_by, again) == (by, first)


def test_a_receipt_that_was_expected_and_is_lost_is_missed(tmp_path: Path) -> None:
    files, facts = recorded("3.0.57/plain")
    ours = replace(facts, expected_sources=frozenset({ExpectedSource.RECEIPT}))
    first, again = write_and_judge(tmp_path, {**files, names.RECEIPT: POSITIVE}, ours, nonce="n1")
    assert (first.status, again) == (Status.COMPLETED, first)
    (tmp_path / names.RECEIPT).unlink()
    lost = classify(read_run(RunDirectory(tmp_path)).unwrap().evidence).unwrap()
    assert (lost.status, lost.reason) == (Status.FAILED, Reason.UNKNOWN)


def test_a_step_that_failed_before_any_stream_is_still_known_when_judged_again(tmp_path: Path) -> None:
    step = FailedStep(Reason.RUNTIME_INSTALL, "clinebox:runtime_install", "no network")
    first, again = write_and_judge(tmp_path, {}, RunFacts(cline_version="3.0.65", failed_step=step))
    assert (first.reason, first.text, again) == (Reason.RUNTIME_INSTALL, "no network", first)


def test_a_forged_receipt_is_refused_also_when_judged_again(tmp_path: Path) -> None:
    files, facts = recorded("3.0.57/plain")
    first, again = write_and_judge(tmp_path, {**files, names.RECEIPT: POSITIVE}, facts, nonce="other")
    assert (first.status, again) == (Status.FAILED, first)


def test_a_negative_receipt_precedes_all_when_judged_again(tmp_path: Path) -> None:
    files, facts = recorded("3.0.57/plain")
    negative = b'{"cleanup_confirmed": false, "error": "2 processes left"}'
    first, again = write_and_judge(tmp_path, {**files, names.RECEIPT: negative}, facts)
    assert (first.reason, again) == (Reason.UNCONFIRMED_CLEANUP, first)


def test_a_log_with_request_bodies_is_judged_the_same_without_them(tmp_path: Path) -> None:
    files, facts = recorded("3.0.57/http_429_forever")
    lines = [json.loads(line) for line in files[names.CLINE_LOG].splitlines()]
    for line in lines:
        line.get("err", {})["requestBodyValues"] = {"messages": ["é PROMPT" * 100]}
    raw = b"".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for line in lines
    )
    first, again = write_and_judge(tmp_path, {**files, names.CLINE_LOG: raw}, facts)
    assert (first.reason, first.status_code, again) == (Reason.MODEL_REQUEST, 429, first)
    assert b"PROMPT" not in (tmp_path / names.CLINE_LOG).read_bytes()
    assert b"PROMPT" in raw


def test_a_line_over_the_bound_is_judged_the_same(tmp_path: Path) -> None:
    files, facts = recorded("3.0.57/http_429_forever")
    long = b'{"level":50,"err":{"requestBodyValues":"' + b"x" * 9_000_000 + b'"}}\n'
    first, again = write_and_judge(tmp_path, {**files, names.CLINE_LOG: long + files[names.CLINE_LOG]}, facts)
    assert again == first
