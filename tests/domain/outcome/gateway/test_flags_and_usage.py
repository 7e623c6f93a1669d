"""What the record tells beside the outcome: waits, recovered faults, sub-agents, and exact usage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from clinebox.domain.json_value import as_list, as_mapping
from clinebox.domain.model_calls.record import CallEnd, CallUsage
from clinebox.domain.outcome.model import Flag, Reason, Usage
from clinebox.domain.outcome.policy import Policy, decide
from clinebox.domain.outcome.render import explain, outcome_to_json

if TYPE_CHECKING:
    from conftest import Calls, Run


def expired(run: Run) -> Run:
    return run.with_receipt(timed_out=True, stopped_by="deadline", return_code=None)


# --- the call that was pending


def test_a_deadline_tells_the_call_its_phase_and_its_wait(run: Run, calls: Calls) -> None:
    seen = calls(*[calls.tool()] * 3, calls.silent(212, end=CallEnd.CLIENT_CLOSED))
    outcome = expired(run.says("x").turn(2)).but(model_calls=seen).outcome()
    assert outcome.flag_details[Flag.MODEL_CALL_PENDING] == {
        "source": "model_calls.jsonl",
        "line": 4,
        "call": 4,
        "phase": "waiting",
        "since_s": 1_796_058_030.0,
        "wait_s": 212.0,
        "sentence": "call 4 had been waiting 212 s for its first byte",
    }


@pytest.mark.parametrize("end", [None, CallEnd.CLIENT_CLOSED])
@pytest.mark.parametrize(("silent_s", "phase"), [(2.0, "streaming"), (31.0, "idle")])
def test_a_stream_that_went_on_is_told_from_one_that_hung(
    silent_s: float, phase: str, end: CallEnd | None, run: Run, calls: Calls
) -> None:
    outcome = expired(run).but(model_calls=calls(calls.stalled(silent_s, end=end))).outcome()
    details = as_mapping(outcome.flag_details[Flag.MODEL_CALL_PENDING])
    assert (details["phase"], details["wait_s"]) == (phase, silent_s)


def test_the_wait_is_the_policy_s(run: Run, calls: Calls) -> None:
    """SPEC §2: "policy may ungrade above a configured wait"."""
    seen = calls(calls.tool(), calls.silent(212, end=CallEnd.CLIENT_CLOSED))
    outcome = expired(run.says("x").turn(2)).but(model_calls=seen).outcome()
    assert outcome.reason is Reason.DEADLINE
    assert decide(outcome).gradable
    assert decide(outcome, policy=Policy(ungrade_pending_wait_s=300)).gradable
    verdict = decide(outcome, policy=Policy(ungrade_pending_wait_s=200))
    assert (verdict.gradable, verdict.retryable) == (False, True)


def test_a_steady_stream_is_never_ungraded_by_its_length(run: Run, calls: Calls) -> None:
    seen = calls(calls.ok(None, end=None, lasts_s=600, recorded_at_s=600.0))
    outcome = expired(run.says("x").turn(2)).but(model_calls=seen).outcome()
    assert decide(outcome, policy=Policy(ungrade_pending_wait_s=100)).gradable


def test_a_deadline_in_a_tool_has_no_pending_call_whatever_stdout_suggests(run: Run, calls: Calls) -> None:
    outcome = expired(run.says("x").turn(2)).but(model_calls=calls(calls.tool())).outcome()
    assert Flag.MODEL_CALL_PENDING not in outcome.flags


def test_nobody_s_deadline_is_no_pending_call(run: Run, calls: Calls) -> None:
    seen = calls(calls.tool(), calls.silent(5, end=CallEnd.CLIENT_CLOSED))
    assert Flag.MODEL_CALL_PENDING not in run.calls().but(model_calls=seen).outcome().flags


# --- recovered faults


def test_what_a_retry_recovered_is_listed_by_call(run: Run, calls: Calls) -> None:
    seen = calls(calls.status(503), calls.refused(), calls.empty(), calls.ok())
    outcome = run.says("x").ends().but(model_calls=seen).outcome()
    assert outcome.flag_details[Flag.RECOVERED_FAULTS] == {
        "source": "model_calls.jsonl",
        "count": 3,
        "faults": [
            {"line": 1, "call": 1, "kind": "status", "detail": None, "status": 503},
            {"line": 2, "call": 2, "kind": "refused", "detail": None, "status": None},
            {"line": 3, "call": 3, "kind": "empty_response", "detail": "stop", "status": None},
        ],
    }


def test_a_redirect_is_listed_as_one_and_used_no_tokens(run: Run, calls: Calls) -> None:
    outcome = run.says("x").ends().but(model_calls=calls(calls.redirected(), calls.ok())).outcome()
    assert outcome.flag_details[Flag.RECOVERED_FAULTS] == {
        "source": "model_calls.jsonl",
        "count": 1,
        "faults": [{"line": 1, "call": 1, "kind": "redirect", "detail": None, "status": None}],
    }
    assert Flag.USAGE_PARTIAL not in outcome.flags


def test_a_fault_that_nothing_made_good_is_not_recovered(run: Run, calls: Calls) -> None:
    seen = calls(calls.tool(), calls.status(503), calls.status(503))
    outcome = run.fails("no", "unknown").but(model_calls=seen).outcome()
    assert Flag.RECOVERED_FAULTS not in outcome.flags


def test_a_killed_run_may_have_recovered_before(run: Run, calls: Calls) -> None:
    outcome = run.calls().but(model_calls=calls(calls.ok("abort"), calls.tool())).outcome()
    assert as_mapping(outcome.flag_details[Flag.FAULTY_TURN])["count"] == 1


def test_a_long_run_lists_a_bounded_part_of_its_faults(run: Run, calls: Calls) -> None:
    seen = calls(*[calls.status(503)] * 200, calls.ok())
    details = as_mapping(
        run.says("x").ends().but(model_calls=seen).outcome().flag_details[Flag.RECOVERED_FAULTS]
    )
    assert len(as_list(details["faults"])) == 20


def test_usage_that_fell_to_zero_is_no_hint_where_the_gateway_saw_the_answer(run: Run, calls: Calls) -> None:
    told = run.says("x").turn(2).says("y", tokens_in=0).ends()
    assert Flag.STREAM_MAYBE_TRUNCATED in _of_3_0_57(told).outcome().flags
    seen = calls(calls.tool(), calls.ok(usage=None))
    assert Flag.STREAM_MAYBE_TRUNCATED not in _of_3_0_57(told).but(model_calls=seen).outcome().flags


def _of_3_0_57(run: Run) -> Run:
    return type(run)(run.stdout, run.log, "3.0.57", run.receipt, run.extra)


# --- sub-agents


def sub_agent_of(run: Run) -> Run:
    begun = run.calls("spawn_agent", "s1").start("agent_2", "agent_1").error("boom", "unknown")
    return begun.returns("spawn_agent", "s1", {"finishReason": "error", "text": "boom"}).says("sorry").ends()


def test_a_sub_agent_s_failure_is_joined_to_its_call_by_time(run: Run, calls: Calls) -> None:
    """The synthetic run ends within milliseconds of 17:00:00; the call ended in that second."""
    seen = calls(calls.call(http_status=500, lasts_s=0.005), calls.ok())
    outcome = sub_agent_of(run).but(model_calls=seen).outcome()
    assert outcome.reason is Reason.FINISHED
    (failure,) = as_list(as_mapping(outcome.flag_details[Flag.SUBAGENT_FAILED])["failures"])
    assert as_mapping(failure)["model_call"] == {
        "source": "model_calls.jsonl",
        "line": 1,
        "call": 1,
        "kind": "status",
        "detail": None,
        "status": 500,
        "joined_by": "time",
    }


def test_a_fault_of_another_time_is_not_a_sub_agent_s(run: Run, calls: Calls) -> None:
    seen = calls(calls.tool(), calls.tool(), calls.status(500), calls.ok())
    outcome = sub_agent_of(run).but(model_calls=seen).outcome()
    (failure,) = as_list(as_mapping(outcome.flag_details[Flag.SUBAGENT_FAILED])["failures"])
    assert "model_call" not in as_mapping(failure)


# --- usage


def test_usage_is_the_sum_of_every_call_with_compactions_sub_agents_and_retries(
    run: Run, calls: Calls
) -> None:
    seen = calls(calls.tool(), calls.status(500), calls.ok(tools=False), calls.ok("abort"), calls.ok())
    outcome = run.says("x").ends().but(model_calls=seen).outcome()
    assert outcome.usage == Usage(input_tokens=400, cached_tokens=160, output_tokens=40, reasoning_tokens=12)
    assert Flag.USAGE_PARTIAL not in outcome.flags


def test_a_killed_run_has_the_exact_sum_too(run: Run, calls: Calls) -> None:
    seen = calls(calls.tool(), calls.tool(), calls.silent(30, end=CallEnd.CLIENT_CLOSED))
    outcome = expired(run.says("x").turn(2)).but(model_calls=seen).outcome()
    assert outcome.usage == Usage(200, 80, 20, 6)
    assert outcome.flag_details[Flag.USAGE_PARTIAL] == {"missing": ["model calls that had not ended: 1"]}


def test_what_no_server_sent_stays_null(run: Run, calls: Calls) -> None:
    seen = calls(calls.ok(usage=CallUsage(7, None, 2, None)))
    outcome = run.says("x").ends().but(model_calls=seen).outcome()
    assert outcome.usage == Usage(7, None, 2, None)
    assert Flag.USAGE_PARTIAL not in outcome.flags


def test_what_some_calls_did_not_tell_is_named(run: Run, calls: Calls) -> None:
    half = CallUsage(7, None, None, None)
    seen = calls(
        calls.tool(),
        calls.tool(usage=None),
        calls.cut(),
        calls.ok(usage=CallUsage(1, None, 1, None)),
        calls.ok(usage=half),
    )
    outcome = run.says("x").ends().but(model_calls=seen).outcome()
    assert outcome.usage == Usage(101, 40, 11, 3)
    assert outcome.flag_details[Flag.USAGE_PARTIAL] == {
        "missing": [
            "model calls for which the server sent no usage: 2",
            "model calls that broke before their usage was sent: 1",
            "model calls without a count of reasoning tokens: 1",
        ]
    }


def test_without_any_count_at_the_gateway_cline_s_own_is_used(run: Run, calls: Calls) -> None:
    outcome = run.says("x").ends().but(model_calls=calls(calls.ok(usage=None))).outcome()
    assert outcome.usage == Usage(100, 0, 10, None)
    unknown = (
        run.says("x", tokens_in=0).ends(tokens_in=0).but(model_calls=calls(calls.ok(usage=None))).outcome()
    )
    assert (unknown.usage, Flag.USAGE_UNKNOWN in unknown.flags) == (None, True)


def test_a_zero_that_the_server_sent_is_a_zero(run: Run, calls: Calls) -> None:
    outcome = run.says("x").ends().but(model_calls=calls(calls.ok(usage=CallUsage(0, 0, 0, 0)))).outcome()
    assert outcome.usage == Usage(0, 0, 0, 0)


# --- for people and programs


@pytest.mark.parametrize("case", ["abort", "conflict", "deadline", "recovered"])
def test_an_outcome_with_the_gateway_reads_well(case: str, run: Run, calls: Calls, snapshot: object) -> None:
    built = {
        "abort": run.says("x").ends().but(model_calls=calls(calls.tool(), calls.ok("abort"))),
        "conflict": run.logs_status(400, "no")
        .logs_end("no")
        .fails("no", "unknown")
        .but(model_calls=calls(calls.status(500))),
        "deadline": expired(run).but(model_calls=calls(calls.silent(212, end=CallEnd.CLIENT_CLOSED))),
        "recovered": run.says("x").ends().but(model_calls=calls(calls.status(429), calls.cut(), calls.ok())),
    }
    outcome = built[case].outcome()
    body = outcome_to_json(outcome, decide(outcome))
    assert json.dumps(body, indent=1, ensure_ascii=False) == snapshot
    assert explain(outcome) == snapshot
