"""Masking the recorded runs changes no judgement, and no record's validity."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from clinebox.domain.json_value import JsonValue
from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import evidence_from_bytes
from clinebox.domain.outcome.model import Outcome
from clinebox.domain.secrets.forms import MINIMUM_LENGTH
from clinebox.domain.secrets.masker import Masker
from clinebox.domain.secrets.vocabulary import CLINE_SENTENCES, is_cline_vocabulary

CORPUS = Path(__file__).parents[2] / "corpus"
SENTENCES = [sentence.encode() for sentence in CLINE_SENTENCES]
LARGEST_BYTES = 100_000
NAMES = sorted(
    name
    for name in json.loads((CORPUS / "expected.json").read_bytes())
    if (CORPUS / name / "stdout.ndjson").stat().st_size < LARGEST_BYTES
)


@cache
def streams(name: str) -> tuple[bytes, bytes, bytes]:
    stdout, log, stderr = (
        (CORPUS / name / file).read_bytes() for file in ("stdout.ndjson", "cline-log.jsonl", "stderr.txt")
    )
    return stdout, log, stderr


@cache
def strings(name: str) -> tuple[str, ...]:
    """Every string value in the run's records that is long enough to be a secret."""
    found: set[str] = set()
    for line in b"\n".join(streams(name)).split(b"\n"):
        if line.startswith(b"{"):
            found.update(leaves(json.loads(line)))
    return tuple(sorted(text for text in found if len(text.strip()) >= MINIMUM_LENGTH))


def leaves(value: JsonValue) -> list[str]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value] if isinstance(value, str) else []


def judged(parts: tuple[bytes, bytes, bytes], name: str) -> Outcome:
    stdout, log, stderr = parts
    version = name.split("/", maxsplit=1)[0]
    return classify(
        evidence_from_bytes(stdout=stdout, cline_log=log, stderr=stderr, cline_version=version)
    ).unwrap()


def judgement(outcome: Outcome) -> tuple[object, ...]:
    return (
        *(outcome.status, outcome.reason, outcome.failure_kind, outcome.status_code, outcome.timed_out),
        *(outcome.flags, outcome.usage, [(entry.source, entry.line) for entry in outcome.evidence]),
    )


def vocabulary_in(text: str) -> set[str]:
    """The words of a text that rules may read: masking a part of one, with other text, blanks it."""
    return {word for word in text.split() if is_cline_vocabulary(word) and len(word) >= MINIMUM_LENGTH}


@st.composite
def runs_and_secrets(draw: st.DrawFn) -> tuple[str, str]:
    """A run, and a secret that stands in it: a string of its records, or a piece of one."""
    name = draw(st.sampled_from([name for name in NAMES if strings(name)]))
    text = draw(st.sampled_from(strings(name)))
    start = draw(st.integers(0, len(text) - MINIMUM_LENGTH))
    secret = text[start : start + draw(st.integers(MINIMUM_LENGTH, 40))]
    # A quote would be part of JSON that is quoted inside a record (a response body), not of a value.
    assume('"' not in secret)
    assume(not any(word in secret for word in vocabulary_in(text)))
    return name, secret


@given(runs_and_secrets())
def test_masking_changes_no_judgement(chosen: tuple[str, str]) -> None:
    """Law: masked NDJSON is valid line by line and classify(masked) == classify(raw), but for masked text."""
    name, secret = chosen
    masker = Masker([secret])
    raw = streams(name)
    masked = (masker.mask(raw[0]), masker.mask(raw[1]), masker.mask(raw[2]))
    # A secret that overlaps a sentence of Cline's own cannot be masked without blanking the sentence.
    assume(all(b"".join(raw).count(said) == b"".join(masked).count(said) for said in SENTENCES))
    for line in masked[0].split(b"\n")[:-1]:
        assert isinstance(json.loads(line), dict)
    before, after = judged(raw, name), judged(masked, name)
    assert judgement(after) == judgement(before)
    assert after.text == masker.mask_text(before.text)


def test_a_secret_that_is_in_no_run_changes_no_byte_of_any() -> None:
    masker = Masker(["sk-proj-AbCd1234EfGh", "correct horse\nbattery staple"])
    for name in NAMES:
        assert tuple(map(masker.mask, streams(name))) == streams(name)
