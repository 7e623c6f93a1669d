"""Every recorded run is judged as expected.json says, and says by which line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import RunEvidence
from clinebox.domain.outcome.model import EvidenceEntry, Outcome
from clinebox.domain.outcome.policy import decide
from clinebox.domain.outcome.render import explain, outcome_to_json

if TYPE_CHECKING:
    from conftest import Corpus, RecordedRun


def judge(evidence: RunEvidence) -> Outcome:
    return classify(evidence).unwrap()


def test_there_are_286_rows(corpus: Corpus) -> None:
    assert len(list(corpus)) == 286


def test_a_recorded_run_is_judged_as_expected(recorded_name: str, corpus: Corpus) -> None:
    outcome = judge(corpus[recorded_name].evidence())
    assert {
        "status": outcome.status,
        "reason": outcome.reason,
        "failure_kind": outcome.failure_kind,
        "status_code": outcome.status_code,
    } == corpus.expected(recorded_name)


def test_every_judgement_names_a_line_that_is_really_there(corpus: Corpus) -> None:
    for recorded in corpus:
        outcome = judge(recorded.evidence())
        assert outcome.evidence, recorded.name
        for entry in outcome.evidence:
            assert holds(recorded, entry), (recorded.name, entry)


def holds(recorded: RecordedRun, entry: EvidenceEntry) -> bool:
    """Whether that line of that file holds the excerpt, and the field if it is a key of JSON."""
    assert len(entry.excerpt) <= 300
    if entry.line is None:
        return str(recorded.meta[entry.field]) == entry.excerpt
    line = recorded.files[entry.source].split(b"\n")[entry.line - 1].decode("utf-8", "replace")
    return bool(entry.excerpt) and entry.excerpt in line


def test_five_runs_left_nothing_in_any_stream_and_are_judged_by_their_exit(corpus: Corpus) -> None:
    judged = {recorded.name: judge(recorded.evidence()) for recorded in corpus}
    by_exit = {
        name: outcome.evidence[0].field
        for name, outcome in judged.items()
        if all(entry.line is None for entry in outcome.evidence)
    }
    assert by_exit == {
        "3.0.57/prompt_140k": "exec_error",
        "3.0.57/sigkill_at_start": "signal",
        "3.0.57/sigterm_at_start": "signal",
        "3.0.65/sigkill_at_start": "signal",
        "3.0.65/sigterm_at_start": "signal",
    }


def test_the_exit_code_decides_nothing_where_stdout_has_a_record(corpus: Corpus) -> None:
    for recorded in corpus:
        if recorded.files["stdout.ndjson"]:
            outcome = judge(recorded.evidence(with_exit=False))
            assert outcome.reason == corpus.expected(recorded.name)["reason"], recorded.name


def test_the_same_run_is_always_judged_the_same(corpus: Corpus) -> None:
    for recorded in corpus:
        first, second = (render(judge(recorded.evidence())) for _ in range(2))
        assert first == second


def test_every_outcome_can_be_written_as_json_and_said_in_one_line(corpus: Corpus) -> None:
    for recorded in corpus:
        outcome = judge(recorded.evidence())
        assert json.loads(render(outcome))["status"] == outcome.status
        line = explain(outcome)
        assert line.isprintable(), recorded.name
        assert len(line) <= 300


def render(outcome: Outcome) -> bytes:
    return json.dumps(outcome_to_json(outcome, decide(outcome)), ensure_ascii=False).encode()
