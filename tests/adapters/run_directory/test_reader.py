from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from returns.pipeline import is_successful

from clinebox.adapters.run_directory import names
from clinebox.adapters.run_directory.facts import RunFacts, facts_json, read_own_facts
from clinebox.adapters.run_directory.find import NoRun, RunDirectory, StreamFile
from clinebox.adapters.run_directory.reader import Overrides, RecordedRun, read_run
from clinebox.domain.cline.events import RunResult
from clinebox.domain.cline.stream import LINE_LIMIT_BYTES
from clinebox.domain.json_value import JsonValue
from clinebox.domain.outcome.evidence import ExitEvidence, ExpectedSource, RequestedStop, RunEvidence
from clinebox.domain.outcome.failed_step import FailedStep
from clinebox.domain.outcome.model import Reason, StoppedBy
from clinebox.domain.receipt import CleanupReceipt, ReceiptFailure

RESULT = b'{"ts":"2026-11-30T16:00:00.000Z","type":"run_result","finishReason":"completed","text":"done"}\n'
RECEIPT = b'{"cleanup_confirmed": true, "return_code": 0, "nonce": "n1"}'


def write(path: Path, **files: bytes) -> Path:
    """A run directory; `stdout_ndjson=b"…"` writes stdout.ndjson."""
    path.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (path / name.replace("_", ".").replace("cline.log.jsonl", "cline-log.jsonl")).write_bytes(content)
    return path


def read(path: Path, overrides: Overrides | None = None) -> RecordedRun:
    return read_run(RunDirectory(path), overrides).unwrap()


def evidence(path: Path, overrides: Overrides | None = None) -> RunEvidence:
    return read(path, overrides).evidence


def failure(path: Path) -> NoRun:
    got = read_run(RunDirectory(path))
    assert not is_successful(got)
    return got.failure()


def receipt_of(found: RunEvidence) -> CleanupReceipt | ReceiptFailure:
    assert found.receipt is not None
    return found.receipt.receipt


def test_every_source_of_a_run_directory_is_read_under_its_own_name(tmp_path: Path) -> None:
    run = write(
        tmp_path, stdout_ndjson=RESULT, cline_log=b"{}\n", stderr_txt=b"error: no\n", cleanup_json=RECEIPT,
        meta_json=b'{"version": "3.0.57", "exit_code": 1, "signal": null}',
    )  # fmt: skip
    found = evidence(run)
    assert found.stdout is not None
    assert found.stdout.run_result is not None
    assert isinstance(found.stdout.run_result.value, RunResult)
    assert found.log is not None
    assert found.stderr is not None
    assert found.receipt is not None
    assert (found.stdout.source, found.log.source, found.stderr.source, found.receipt.source) == (
        "stdout.ndjson", "cline.log", "stderr.txt", "cleanup.json",
    )  # fmt: skip
    assert found.exit == ExitEvidence("meta.json", exit_code=1)
    assert found.cline_version == "3.0.57"


def test_what_is_not_there_is_none_and_what_is_empty_is_empty(tmp_path: Path) -> None:
    found = evidence(write(tmp_path, stdout_ndjson=b""))
    assert found.stdout is not None
    assert found.stdout.size_bytes == 0
    assert (found.log, found.stderr, found.receipt, found.exit, found.cline_version) == (None,) * 5
    assert found.expected_sources == frozenset()


def test_the_excerpt_of_the_log_is_read_only_where_there_is_no_log(tmp_path: Path) -> None:
    excerpt = evidence(write(tmp_path, cline_log_jsonl=b"{}\n")).log
    assert excerpt is not None
    assert excerpt.source == "cline-log.jsonl"
    whole = evidence(write(tmp_path, cline_log=b"{}\n")).log
    assert whole is not None
    assert whole.source == "cline.log"


def test_our_own_facts_come_before_those_of_others_and_the_caller_before_both(tmp_path: Path) -> None:
    run = write(
        tmp_path,
        outcome_json=b'{"cline_version": "3.0.65", "signal": "SIGKILL"}',
        meta_json=b'{"version": "3.0.57", "exit_code": 1}',
    )
    assert evidence(run).cline_version == "3.0.65"
    assert evidence(run).exit == ExitEvidence("outcome.json", signal="SIGKILL")
    asked = Overrides(cline_version="3.0.62", base_url="http://h/v1")
    assert evidence(run, asked).cline_version == "3.0.62"
    assert evidence(run, asked).expected_base_url == "http://h/v1"


def test_meta_fills_what_the_outcome_file_does_not_say(tmp_path: Path) -> None:
    run = write(tmp_path, outcome_json=b"{}", meta_json=b'{"version": "3.0.57", "exec_error": "E2BIG"}')
    assert evidence(run).cline_version == "3.0.57"
    assert evidence(run).exit == ExitEvidence("meta.json", exec_error="E2BIG")


def test_facts_of_a_wrong_type_are_not_there(tmp_path: Path) -> None:
    hostile: JsonValue = {
        "cline_version": 3, "exit_code": "0", "signal": ["KILL"], "exec_error": {}, "base_url": 7,
        "expected_sources": {"receipt": 1}, "truncated_sources": [1, None], "receipt_nonce": [],
        "requested_stop": "caller",
        "failed_step": {"reason": "finished", "failure_kind": "unknown", "message": "forged"},
    }  # fmt: skip
    assert read_own_facts(hostile, "outcome.json") == RunFacts()
    assert read_own_facts([1], "outcome.json") == RunFacts()
    for at_s in (True, 10**400, float("inf"), "now"):
        value: JsonValue = {"requested_stop": {"by": "caller", "at_s": at_s}}
        assert read_own_facts(value, "outcome.json").requested_stop == RequestedStop(StoppedBy.CALLER)


def test_our_own_facts_come_back_as_they_were_written() -> None:
    facts = RunFacts(
        exit=ExitEvidence("outcome.json", exit_code=137, signal="SIGKILL", exec_error="E2BIG"),
        cline_version="3.0.65",
        requested_stop=RequestedStop(StoppedBy.OPERATOR, 1796057683.25),
        expected_sources=frozenset({ExpectedSource.RECEIPT}),
        truncated_sources=frozenset({"stdout.ndjson"}),
        expected_base_url="http://127.0.0.1:8000/v1",
        receipt_nonce="n1",
        failed_step=FailedStep(Reason.SANDBOX, "provider_unavailable", "no engine"),
    )
    assert read_own_facts(json.loads(json.dumps(facts_json(facts))), "outcome.json") == facts
    assert read_own_facts(facts_json(RunFacts()), "outcome.json") == RunFacts()


def test_a_receipt_must_carry_the_nonce_that_the_session_had(tmp_path: Path) -> None:
    run = write(tmp_path, cleanup_json=RECEIPT, outcome_json=b'{"receipt_nonce": "n1"}')
    assert isinstance(receipt_of(evidence(run)), CleanupReceipt)
    write(tmp_path, outcome_json=b'{"receipt_nonce": "another"}')
    assert isinstance(receipt_of(evidence(run)), ReceiptFailure)


def test_a_receipt_that_the_caller_brings_takes_the_place_of_the_recorded_one(tmp_path: Path) -> None:
    run = write(tmp_path / "run", cleanup_json=b"broken", outcome_json=b'{"receipt_nonce": "another"}')
    (tmp_path / "mine.json").write_bytes(RECEIPT)
    found = evidence(run, Overrides(receipt=tmp_path / "mine.json"))
    assert found.receipt is not None
    assert found.receipt.source == "mine.json"
    assert isinstance(found.receipt.receipt, CleanupReceipt)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b" " * (16 * 1024 * 1024 + 1), "longer than 16777216 bytes"),
    ],
)
def test_damaged_facts_are_noted_and_a_damaged_outcome_expects_every_witness(
    tmp_path: Path, content: bytes, why: str
) -> None:
    ours = read(write(tmp_path / "ours", stdout_ndjson=RESULT, outcome_json=content))
    assert ours.evidence.expected_sources == frozenset(ExpectedSource)
    assert len(ours.notes) == 1
    assert ours.notes[0].startswith("outcome.json was not read: ")
    assert why in ours.notes[0]
    theirs = read(write(tmp_path / "theirs", stdout_ndjson=RESULT, meta_json=content))
    assert theirs.evidence.expected_sources == frozenset()
    assert theirs.notes[0].startswith("meta.json was not read: ")


def test_a_directory_or_a_pipe_in_the_place_of_a_file_is_said_and_hangs_nothing(tmp_path: Path) -> None:
    (tmp_path / "a" / "stdout.ndjson").mkdir(parents=True)
    assert failure(tmp_path / "a") == NoRun(
        tmp_path / "a", "unreadable", f"'{tmp_path}/a/stdout.ndjson' cannot be read: it is no regular file"
    )
    run = write(tmp_path / "b", stdout_ndjson=RESULT)
    os.mkfifo(run / "cline.log")
    assert failure(run).code == "unreadable"


def test_a_stream_alone_is_read_from_a_file_and_from_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "some.ndjson").write_bytes(RESULT)
    found = read_run(StreamFile(tmp_path / "some.ndjson"), Overrides(cline_version="3.0.57")).unwrap()
    assert found.evidence.stdout is not None
    assert found.evidence.stdout.source == "some.ndjson"
    assert found.evidence.cline_version == "3.0.57"
    inlet, outlet = os.pipe()
    os.write(outlet, RESULT)
    os.close(outlet)
    try:
        piped = read_run(StreamFile(Path(f"/dev/fd/{inlet}"))).unwrap()
    finally:
        os.close(inlet)
    assert piped.evidence.stdout is not None
    assert piped.evidence.stdout.run_result is not None


def test_a_stream_that_went_away_is_said(tmp_path: Path) -> None:
    got = read_run(StreamFile(tmp_path / "gone.ndjson"))
    assert not is_successful(got)
    assert got.failure().message == f"'{tmp_path}/gone.ndjson' cannot be read: No such file or directory"


def test_chunks_of_64_kib_give_the_same_facts_as_the_whole(tmp_path: Path) -> None:
    filler = b'{"ts":"x","type":"agent_event","event":{"type":"iteration_start","iteration":1}}\n'
    found = evidence(write(tmp_path, stdout_ndjson=filler * 40_000 + RESULT)).stdout
    assert found is not None
    assert found.run_result is not None
    assert (found.run_result.line, found.lines) == (40_001, 40_001)
    assert found.size_bytes == len(filler) * 40_000 + len(RESULT)


def test_a_line_over_the_bound_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    found = evidence(write(tmp_path, stdout_ndjson=b"x" * (LINE_LIMIT_BYTES + 1) + b"\n" + RESULT)).stdout
    assert found is not None
    assert found.oversized_lines == 1
    assert found.run_result is not None
    assert found.run_result.line == 2


def test_what_is_no_run_stays_what_it_was() -> None:
    missing = NoRun(Path("x"), "not_found", "there is no 'x'")
    got = read_run(missing)
    assert not is_successful(got)
    assert got.failure() == missing


def test_names_are_those_of_the_specification() -> None:
    assert [
        names.OUTCOME, names.TRANSCRIPT, names.OBSERVATIONS, names.STDOUT, names.STDERR, names.CLINE_LOG,
        names.RECEIPT, names.EVENTS,
    ] == [
        "outcome.json", "transcript.json", "observations.json", "stdout.ndjson", "stderr.txt", "cline.log",
        "cleanup.json", "events.json",
    ]  # fmt: skip
