"""Recorded streams, mutated: whatever a hostile sandbox leaves is judged, never an exception."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import evidence_from_bytes
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
