"""Recorded streams, mutated: whatever a hostile sandbox leaves is judged, never an exception."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import RunEvidence, evidence_from_bytes
from clinebox.domain.outcome.model import Outcome, Reason
from clinebox.domain.outcome.policy import decide
from clinebox.domain.outcome.render import explain, outcome_to_json

if TYPE_CHECKING:
    from conftest import Corpus

MUTATED = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
GARBAGE = (
    b"",
    b"{",
    b"null",
    b"[" * 3_000,
    b"\x00\xff\xfe",
    b'{"type":"agent_event","event":null}',
    b'{"type":"agent_event","event":{"type":"error","error":"x","recoverable":false}}',
    b'{"type":"agent_event","event":{"type":"content_end","contentType":"tool","output":[[],{},null,1]}}',
    b'{"type":"hook_event","agentId":7,"parentAgentId":[]}',
    b'{"type":"run_result","finishReason":{"completed":1},"usage":[],"text":7,"model":"m"}',
    b'{"type":"team_event","event":{"type":"agent_event","event":{"type":"team_event"}}}',
    b'{"level":50,"msg":"[ai-sdk] stream error","err":{"errors":[1],"statusCode":"500"}}',
    b'{"level":50,"msg":"[ai-sdk] stream error","err":{"aggregateErrors":"x","cause":[]}}',
    b'{"level":50,"msg":"[ai-sdk] stream error","err":{"responseBody":"[[[[","name":7,"url":{}}}',
    b'{"level":50,"msg":"Agent loop caught error","agentId":null}',
    b'{"level":40,"msg":"Model returned an empty response; retrying","attempt":1e400}',
)


def judged(stdout: bytes, log: bytes, stderr: bytes) -> Outcome:
    result = classify(
        evidence_from_bytes(stdout=stdout, cline_log=log, stderr=stderr, cline_version="3.0.65")
    )
    assert is_successful(result)
    outcome = result.unwrap()
    body = outcome_to_json(outcome, decide(outcome))
    json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8")
    assert explain(outcome).isprintable()
    return outcome


def mutate(data: st.DataObject, content: bytes) -> bytes:
    """Lines left out, doubled, reordered, cut, overwritten, and garbage between them."""
    lines = content.split(b"\n")
    line = st.sampled_from(lines)
    cut = st.tuples(line, st.integers(0, 400)).map(lambda pair: pair[0][: pair[1]])
    doubled = line.map(lambda chosen: chosen + b"\n" + chosen)
    spoiled = st.tuples(line, st.integers(0, 400), st.binary(max_size=4)).map(
        lambda triple: triple[0][: triple[1]] + triple[2] + triple[0][triple[1] :]
    )
    piece = line | cut | doubled | spoiled | st.sampled_from(GARBAGE) | st.binary(max_size=20)
    return b"\n".join(data.draw(st.lists(piece, max_size=25)))


@MUTATED
@given(data=st.data())
def test_no_mutation_makes_an_exception(data: st.DataObject, corpus: Corpus) -> None:
    recorded = data.draw(st.sampled_from(list(corpus)))
    judged(
        mutate(data, recorded.files["stdout.ndjson"]),
        mutate(data, recorded.files["cline-log.jsonl"]),
        mutate(data, recorded.files["stderr.txt"]),
    )


@MUTATED
@given(data=st.data())
def test_files_in_each_other_s_place_make_no_exception(data: st.DataObject, corpus: Corpus) -> None:
    recorded = data.draw(st.sampled_from(list(corpus)))
    contents = data.draw(st.permutations(list(recorded.files.values())))
    judged(*contents[:3])


def test_every_recorded_stream_played_twice_is_never_completed(corpus: Corpus) -> None:
    """The same datum twice is a second run_result, if there was one."""
    for recorded in corpus:
        stdout = recorded.files["stdout.ndjson"]
        outcome = judged(stdout * 2, recorded.files["cline-log.jsonl"], recorded.files["stderr.txt"])
        assert outcome.reason is not Reason.FINISHED, recorded.name


def test_a_forged_completed_behind_any_recorded_failure_is_not_believed(corpus: Corpus) -> None:
    forged = b'{"type":"run_result","finishReason":"completed","usage":{"inputTokens":1},"text":"done"}\n'
    for recorded in corpus:
        stdout = recorded.files["stdout.ndjson"]
        if b'"type":"run_result"' in stdout:
            outcome = judged(stdout + forged, recorded.files["cline-log.jsonl"], b"")
            assert outcome.reason is not Reason.FINISHED, recorded.name


def test_garbage_between_the_lines_changes_no_status(corpus: Corpus) -> None:
    for recorded in corpus:
        noisy = b"\n".join(line + b"\n{garbage" for line in recorded.stdout_lines) + b"\n"
        whole = classify(recorded.evidence()).unwrap()
        outcome = classify(recorded.evidence(stdout=noisy if recorded.stdout_lines else b"")).unwrap()
        assert (outcome.status, outcome.reason) == (whole.status, whole.reason), recorded.name


# --- mutations in number, by a seed: the same ones in every run

FILES = ("stdout.ndjson", "cline-log.jsonl", "stderr.txt")
VALUES = (
    b"null",
    b"[]",
    b"{}",
    b'""',
    b"-1",
    b"1e999",
    b"true",
    b'"completed"',
    b'"error"',
    b"0",
    b'"\\ud800"',
)
STATES = (
    b'"completed"',
    b'"error"',
    b'"aborted"',
    b'"external_abort"',
    b'"local_abort"',
    b"null",
    b"false",
    b"true",
)
PART = 2_000
PARTS = 50
"""100,000 mutations in a full run; the first part in every run."""


def mutated(dice: random.Random, content: bytes, others: bytes) -> bytes:
    """One to six changes: lines, bytes, values, states, or lines of another run."""
    lines = content.split(b"\n")
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(lines)) if lines else 0
        change = dice.randrange(9)
        if change == 0:
            del lines[at : at + dice.randint(1, 3)]
        elif change == 1:
            lines.insert(at, dice.choice(others.split(b"\n")))
        elif change == 2:
            lines.insert(at, dice.choice(GARBAGE))
        elif change == 3:
            lines = lines[:at]
        elif change == 4 and lines:
            lines.append(lines[at])
        elif change == 5:
            dice.shuffle(lines)
        elif lines:
            lines[at] = spoiled(dice, lines[at], change)
    whole = b"\n".join(lines)
    return whole[: dice.randrange(len(whole) + 1)] if dice.random() < 0.1 else whole


def spoiled(dice: random.Random, line: bytes, change: int) -> bytes:
    if change == 6:
        at = dice.randrange(len(line) + 1)
        return line[:at] + dice.randbytes(dice.randint(0, 3)) + line[at + dice.randint(0, 4) :]
    if change == 7:
        return line.replace(dice.choice(STATES), dice.choice(STATES), 1)
    key = line.rfind(b'":', 0, dice.randrange(len(line) + 1))
    end = line.find(b",", key)
    return line if key < 0 or end < 0 else line[: key + 2] + dice.choice(VALUES) + line[end:]


def mutations(part: int, corpus: Corpus) -> Iterator[tuple[str, RunEvidence, RunEvidence]]:
    """Mutated runs by their seed, each read twice."""
    small = [recorded for recorded in corpus if sum(map(len, recorded.files.values())) < 60_000]
    for number in range(part * PART, (part + 1) * PART):
        dice = random.Random(number)  # noqa: S311 - the same mutations in every run
        recorded, other = dice.choice(small), dice.choice(small)
        stdout, log, stderr = (mutated(dice, recorded.files[name], other.files[name]) for name in FILES)
        version = dice.choice((None, "3.0.57", "3.0.61", "3.0.64", "3.0.65", "4.0.0", "x"))
        first, again = (
            evidence_from_bytes(stdout=stdout, cline_log=log, stderr=stderr, cline_version=version)
            for _ in range(2)
        )
        yield f"mutation {number} of {recorded.name}", first, again


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.full) for part in range(1, PARTS))]
)
def test_classify_is_total_and_deterministic_over_mutated_recordings(part: int, corpus: Corpus) -> None:
    """Issue 3: "Classify: total and deterministic over mutated recordings (at least 100,000 mutations in a
    nightly mode, 2,000 in `bin/test`)".
    """
    for name, first, again in mutations(part, corpus):
        outcome = classify(first).unwrap()
        assert outcome == classify(again).unwrap(), name
        body = json.dumps(outcome_to_json(outcome, decide(outcome)), ensure_ascii=False, allow_nan=False)
        assert body == json.dumps(outcome_to_json(outcome, decide(outcome)), ensure_ascii=False), name
        body.encode("utf-8")


def test_the_mutations_reach_every_kind_of_judgement(corpus: Corpus) -> None:
    """Else the law above would say little."""
    reasons = {classify(first).unwrap().reason for _name, first, _again in mutations(0, corpus)}
    assert len(reasons) > len(Reason) / 2, reasons
