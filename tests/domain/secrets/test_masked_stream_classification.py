"""What is written of a run is judged as the run was, also where chunks of its records were rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import evidence_from_bytes
from clinebox.domain.secrets.masker import Masker
from clinebox.domain.secrets.record_stream import RecordStreamMasker

CORPUS = Path(__file__).parents[2] / "corpus"
SECRETS = ("quick brown fox", "scripted", "/v1/chat/completions", "call_0_0")
"""Words of the recorded answers, tools and addresses: as good as keys, and cut by the chunks."""
RUNS = sorted(path.parent for path in CORPUS.glob("*/*/stdout.ndjson"))


def judged(stdout: bytes, log: bytes, stderr: bytes, version: str) -> tuple[object, ...]:
    evidence = evidence_from_bytes(stdout=stdout, cline_log=log, stderr=stderr, cline_version=version)
    outcome = classify(evidence).unwrap()
    return (
        outcome.status,
        outcome.reason,
        outcome.failure_kind,
        outcome.status_code,
        outcome.flags,
        outcome.usage,
        [(entry.source, entry.line, entry.field) for entry in outcome.evidence],
    )


def lines(masker: Masker, data: bytes) -> bytes:
    return b"\n".join(masker.mask(line) for line in data.split(b"\n"))


@pytest.mark.parametrize("run", RUNS, ids=[f"{run.parent.name}/{run.name}" for run in RUNS])
def test_a_masked_record_stream_is_judged_as_the_raw_one(run: Path) -> None:
    """Law: classify(masked) == classify(raw) (SPEC §6), several secrets at once, whatever the size.

    For secrets that are values. What overlaps what Cline itself writes (quoted names, sentences) can
    only make a run less gradable: docs/masking.md, and the law in test_masked_classification.py.
    """
    raw = tuple((run / name).read_bytes() for name in ("stdout.ndjson", "cline-log.jsonl", "stderr.txt"))
    stdout, log, stderr = raw
    masker = Masker(SECRETS)
    records = RecordStreamMasker(masker)
    written = b"\n".join(records.line(line) for line in stdout.split(b"\n"))
    assert len(written.split(b"\n")) == len(stdout.split(b"\n"))
    version = run.parent.name
    assert judged(written, lines(masker, log), lines(masker, stderr), version) == judged(*raw, version)
