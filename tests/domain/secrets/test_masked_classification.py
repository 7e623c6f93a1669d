"""Masking the recorded runs changes no judgement, and no record's validity."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from clinebox.domain.json_value import JsonValue, parse_json
from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import RequestedStop, evidence_from_bytes
from clinebox.domain.outcome.model import Outcome, StoppedBy
from clinebox.domain.outcome.policy import decide
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


def judged(parts: tuple[bytes, bytes, bytes], name: str, stopped_by: StoppedBy | None = None) -> Outcome:
    stdout, log, stderr = parts
    version = name.split("/", maxsplit=1)[0]
    stop = None if stopped_by is None else RequestedStop(stopped_by)
    return classify(
        evidence_from_bytes(
            stdout=stdout, cline_log=log, stderr=stderr, cline_version=version, requested_stop=stop
        )
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
    """Law: masked NDJSON is valid line by line and classify(masked) == classify(raw), but for masked text.

    For every secret but those that overlap what Cline itself writes: its sentences, its words and times
    beside other text, and the quoted names of its records (docs/masking.md). For them the law below holds.
    """
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


def long_lines(data: bytes) -> list[bytes]:
    return [line for line in data.split(b"\n") if len(line) >= MINIMUM_LENGTH]


@st.composite
def runs_and_slices(draw: st.DrawFn) -> tuple[str, str]:
    """A run, and any stretch of a line of its streams: also names, quotes, brackets, times and sentences."""
    name = draw(st.sampled_from(NAMES).filter(lambda name: any(map(long_lines, streams(name)))))
    lines = [line for part in streams(name) for line in long_lines(part)]
    # The last lines decide.
    line = draw(st.sampled_from(lines[-4:])) if draw(st.booleans()) else draw(st.sampled_from(lines))
    start = draw(st.integers(0, len(line) - MINIMUM_LENGTH))
    return name, line[start : start + draw(st.integers(MINIMUM_LENGTH, 120))].decode("utf-8", "replace")


@given(runs_and_slices(), st.sampled_from([None, StoppedBy.DEADLINE, StoppedBy.CALLER]))
@settings(max_examples=300)
@example(("3.0.57/empty_body_forever", '{"level": 40, "time": "2026-11-30T'), None)
def test_masking_never_makes_a_run_gradable(chosen: tuple[str, str], stopped_by: StoppedBy | None) -> None:
    """Law: a masked stream is never more gradable than the raw one, whatever the secret overlaps."""
    name, secret = chosen
    masker = Masker([secret])
    raw = streams(name)
    masked = (masker.mask(raw[0]), masker.mask(raw[1]), masker.mask(raw[2]))
    for before, after in zip(raw[0].split(b"\n"), masked[0].split(b"\n"), strict=True):
        assert not is_record(before) or is_record(after)
    outcome = judged(masked, name, stopped_by)
    assert not decide(outcome).gradable or decide(judged(raw, name, stopped_by)).gradable


def is_record(line: bytes) -> bool:
    value = parse_json(line).value_or(None)
    return isinstance(value, dict) and bool(value)


@pytest.mark.parametrize(
    "secret",
    [
        '"iterations":1,"usage":{"inputTokens":100',
        '"type":"iteration_start","iteration":1}}',
        '"agent_start","agentId":"agent_17',
    ],
)
def test_a_record_with_masked_names_decides_nothing_that_is_scored(secret: str) -> None:
    outcome = judged_with(secret)
    assert (outcome.status, outcome.reason) == ("failed", "unknown")
    assert outcome.notes[-1].startswith("a masked value covers names in stdout.ndjson, line ")
    assert "***" in outcome.evidence[-1].excerpt


@pytest.mark.parametrize(
    "secret",
    [
        '"finishReason":"completed","iter',  # every word of it is Cline's: not masked
        '"text":"is is the',  # still seen to be text, whatever it said
        '1,"hadToolCalls":false,"tool',  # the same of a turn's end
    ],
)
def test_a_record_that_is_still_read_decides_as_before(secret: str) -> None:
    assert judged_with(secret).status == "completed"


def judged_with(secret: str) -> Outcome:
    """A run that completed in one turn, with this secret in it, as it is judged when it is masked."""
    stdout, log, stderr = streams("3.0.65/plain")
    assert secret.encode() in stdout
    return judged((Masker([secret]).mask(stdout), log, stderr), "3.0.65/plain")


def test_a_secret_that_is_in_no_run_changes_no_byte_of_any() -> None:
    masker = Masker(["sk-proj-AbCd1234EfGh", "correct horse\nbattery staple"])
    for name in NAMES:
        assert tuple(map(masker.mask, streams(name))) == streams(name)
