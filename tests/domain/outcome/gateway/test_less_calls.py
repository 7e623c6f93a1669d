"""SPEC §2: "Less evidence is never better", with the gateway's record too, where it was announced.

And: "a `completed` whose expected receipt or gateway record is missing or cut is failed/unknown."
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clinebox.domain.model_calls.reader import parse_model_calls
from clinebox.domain.model_calls.record import CallEnd, CallFlag, CallUsage, ModelCall
from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import ExpectedSource, RunEvidence, read_log, read_stdout
from clinebox.domain.outcome.model import Outcome, Reason, Status
from clinebox.domain.outcome.policy import decide

if TYPE_CHECKING:
    from conftest import Calls, Run

EXPECTED = frozenset({ExpectedSource.GATEWAY})
CAP = "Model reached the maximum output token limit before completing the turn"
EMPTY = "Model returned empty response"


def judge(evidence: RunEvidence) -> Outcome:
    return classify(evidence).unwrap()


def is_better(less: Outcome, whole: Outcome) -> bool:
    became_gradable = decide(less).gradable and not decide(whole).gradable
    return became_gradable or (less.status is Status.COMPLETED and whole.status is not Status.COMPLETED)


ENDINGS = {
    "completed": lambda run: run.ends(),
    "cap": lambda run: run.fails(CAP),
    "cut short": lambda run: run.logs_end(EMPTY).fails(EMPTY),
    "nothing said": lambda run: run.logs_retry(1, "stop").logs_retry(2, "stop").logs_end(EMPTY).fails(EMPTY),
    "overflow": lambda run: run.fails("too long", "context_window_exceeded"),
    "refused": lambda run: run.logs_status(500, "no").logs_end("no").fails("no", "unknown"),
    "mistakes": lambda run: (
        run.error("1 tool call(s) failed: x", recoverable=True).ends("aborted").aborted("external_abort")
    ),
    "deadline": lambda run: run.with_receipt(timed_out=True, stopped_by="deadline"),
    "killed": lambda run: run.calls(),
}


def kinds(calls: Calls) -> list[ModelCall]:
    """A call of each kind."""
    return [
        *(calls.ok(finish) for finish in ("stop", "length", "content_filter", "abort", "weird", None)),
        *(calls.empty(finish) for finish in ("stop", "length", None)),
        *(calls.tool(), calls.tool(tools=None), calls.ok(tools=False), calls.status(500), calls.status(400)),
        *(calls.refused(), calls.refused_by_us(), calls.cut(), calls.html(), calls.malformed()),
        calls.silent(212, end=CallEnd.CLIENT_CLOSED),
        calls.stalled(20, end=None),
        calls.call(path="/models"),
    ]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_record_that_was_announced_and_is_cut_or_gone_never_makes_a_run_better(
    data: st.DataObject, run: Run, calls: Calls
) -> None:
    made = data.draw(st.lists(st.sampled_from(kinds(calls)), max_size=5))
    spoken = run.says("Hello") if data.draw(st.booleans()) else run
    built = ENDINGS[data.draw(st.sampled_from(sorted(ENDINGS)))](spoken)
    record = calls.as_bytes(made)
    evidence = replace(built.evidence(), expected_sources=EXPECTED, model_calls=parse_model_calls(record))
    whole = judge(evidence)
    end = data.draw(st.none() | st.integers(0, len(record)))
    less = replace(evidence, model_calls=None if end is None else parse_model_calls(record[:end]))
    assert not is_better(judge(less), whole)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_with_a_whole_record_less_of_cline_s_own_files_is_never_better(
    data: st.DataObject, run: Run, calls: Calls
) -> None:
    made = data.draw(st.lists(st.sampled_from(kinds(calls)), max_size=5))
    spoken = run.says("Hello") if data.draw(st.booleans()) else run
    built = ENDINGS[data.draw(st.sampled_from(sorted(set(ENDINGS) - {"deadline"})))](spoken)
    evidence = replace(built.evidence(), expected_sources=EXPECTED, model_calls=calls(*made))
    stdout = b"".join(line + b"\n" for line in built.stdout)
    log = b"".join(line + b"\n" for line in built.log or ())
    less = replace(
        evidence,
        stdout=data.draw(st.none() | st.integers(0, len(stdout)).map(lambda end: read_stdout(stdout[:end]))),
        log=data.draw(st.none() | st.integers(0, len(log)).map(lambda end: read_log(log[:end]))),
    )
    assert not is_better(judge(less), judge(evidence))


def test_an_announced_record_that_is_missing_leaves_completed_unknown(run: Run) -> None:
    outcome = run.says("x").ends().but(expected_sources=EXPECTED).outcome()
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.UNKNOWN)
    assert outcome.notes == ("the expected gateway record is missing",)


@pytest.mark.parametrize("expected", [EXPECTED, frozenset()])
@pytest.mark.parametrize(
    "edit",
    [
        lambda data: data[:-2],
        lambda data: data.splitlines(keepends=True)[0],
        lambda data: data.splitlines(keepends=True)[1],
        lambda data: data + data,
        lambda data: b"{}\n" + data,
        lambda data: data.replace(b'"of":2', b'"of":null'),
        lambda data: data.replace(b'"of":2', b'"of":3'),
        lambda data: b"".join(reversed(data.splitlines(keepends=True))),
    ],
)
def test_a_record_that_is_there_and_not_whole_leaves_completed_unknown(
    edit: object, expected: frozenset[ExpectedSource], run: Run, calls: Calls
) -> None:
    seen = calls(calls.tool(), calls.ok(), edit=edit)  # type: ignore[arg-type]
    assert not seen.is_whole
    outcome = run.says("x").ends().but(model_calls=seen, expected_sources=expected).outcome()
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.UNKNOWN)
    assert "is not whole" in outcome.notes[0]


def test_a_run_without_a_gateway_is_judged_as_ever(run: Run) -> None:
    assert run.says("x").ends().outcome().reason is Reason.FINISHED


@pytest.mark.parametrize("ending", ["cap", "cut short", "mistakes"])
def test_what_the_gateway_might_have_contradicted_is_not_scored_without_it(ending: str, run: Run) -> None:
    built = ENDINGS[ending](run.says("x"))
    assert decide(built.outcome()).gradable
    assert built.but(expected_sources=EXPECTED).outcome().reason is Reason.UNKNOWN


@pytest.mark.parametrize("ending", ["overflow", "deadline"])
def test_what_it_could_not_contradict_stays(ending: str, run: Run) -> None:
    built = ENDINGS[ending](run.says("x"))
    assert built.but(expected_sources=EXPECTED).outcome().reason is built.outcome().reason


def test_a_failing_run_keeps_its_cause_without_the_record(run: Run) -> None:
    outcome = ENDINGS["refused"](run).but(expected_sources=EXPECTED).outcome()
    assert (outcome.reason, outcome.status_code) == (Reason.MODEL_REQUEST, 500)


def test_a_negative_receipt_precedes_the_gateway_too(run: Run, calls: Calls) -> None:
    ended = run.says("x").ends().with_receipt(cleanup_confirmed=False)
    outcome = ended.but(model_calls=calls(calls.ok("abort"))).outcome()
    assert outcome.reason is Reason.UNCONFIRMED_CLEANUP
    assert outcome.superseded is not None
    assert outcome.superseded.reason is Reason.MODEL_TRANSPORT


def test_a_run_that_only_lingered_is_what_its_last_answer_was(run: Run, calls: Calls) -> None:
    ended = run.says("x").ends().with_receipt(stopped_by="deadline", timed_out=True)
    assert ended.but(model_calls=calls(calls.ok())).outcome().reason is Reason.FINISHED
    outcome = ended.but(model_calls=calls(calls.cut())).outcome()
    assert (outcome.reason, outcome.timed_out) == (Reason.MODEL_TRANSPORT, False)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes_in_the_record_s_place_are_judged(data: st.DataObject, run: Run, calls: Calls) -> None:
    """Total on hostile bytes: never an exception, and nothing completed over a record that is no record."""
    record = calls.as_bytes([calls.tool(), calls.ok(usage=CallUsage(1, None, 2, None), flags=[*CallFlag])])
    lines = record.split(b"\n")
    line = st.sampled_from(lines)
    spoiled = st.tuples(line, st.integers(0, 900), st.binary(max_size=6)).map(
        lambda triple: triple[0][: triple[1]] + triple[2] + triple[0][triple[1] :]
    )
    garbage = st.sampled_from(
        [b"null", b"[" * 5_000, b'{"number":1e400}', b"\x00\xff", b'{"number":1,"path":7}']
    )
    content = b"\n".join(data.draw(st.lists(line | spoiled | garbage | st.binary(max_size=9), max_size=5)))
    seen = parse_model_calls(content)
    outcome = run.says("x").ends().but(model_calls=seen, expected_sources=EXPECTED).outcome()
    if outcome.status is Status.COMPLETED:
        assert seen.is_whole
        assert seen.completions
