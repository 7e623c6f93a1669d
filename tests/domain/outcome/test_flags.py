"""Flags are facts beside the outcome: they change no status (SPEC §2)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import evidence_from_bytes
from clinebox.domain.outcome.flags import FLAG_RULES
from clinebox.domain.outcome.model import Flag, Outcome, Reason

if TYPE_CHECKING:
    from conftest import Corpus, Run


CORPUS = Path(__file__).parents[2] / "corpus"


def judge(corpus: Corpus, name: str) -> Outcome:
    return classify(corpus[name].evidence()).unwrap()


def flagged(corpus: Corpus, flag: Flag) -> set[str]:
    return {run.name for run in corpus if flag in classify(run.evidence()).unwrap().flags}


def test_flags_are_sorted_and_each_has_its_details(corpus: Corpus) -> None:
    for recorded in corpus:
        outcome = classify(recorded.evidence()).unwrap()
        assert list(outcome.flags) == sorted(outcome.flags)
        assert tuple(outcome.flag_details) == outcome.flags


def test_every_flag_has_its_rule() -> None:
    assert set(FLAG_RULES) == set(Flag)


def test_a_blank_answer_is_completed_and_flagged(corpus: Corpus, run: Run) -> None:
    assert flagged(corpus, Flag.BLANK_ANSWER) == {
        f"{version}/{scenario}"
        for version in ("3.0.57", "3.0.65")
        for scenario in ("reasoning_only", "whitespace_text")
    }
    assert Flag.BLANK_ANSWER not in run.says("x").ends(text=" x ").outcome().flags


def test_a_run_that_did_nothing_is_flagged(corpus: Corpus, run: Run) -> None:
    assert Flag.NO_TOOL_CALLED in judge(corpus, "3.0.57/does_nothing").flags
    assert Flag.NO_TOOL_CALLED not in judge(corpus, "3.0.57/write_file").flags
    assert Flag.NO_TOOL_CALLED not in run.fails("x", "unknown").outcome().flags


def test_a_sub_agent_s_failure_is_told_with_its_cause(corpus: Corpus, run: Run) -> None:
    assert flagged(corpus, Flag.SUBAGENT_FAILED) == {"3.0.57/spawn_agent_empty"}
    details = judge(corpus, "3.0.57/spawn_agent_empty").flag_details[Flag.SUBAGENT_FAILED]
    assert details == {
        "count": 1,
        "failures": [
            {
                "line": 10,
                "message": "Model returned empty response",
                "error_class": None,
                "log": {"source": "cline-log.jsonl", "line": 3},
            }
        ],
    }


def test_a_sub_agent_s_http_status_is_found_in_the_log(run: Run) -> None:
    inside = run.calls("spawn_agent").start("agent_2", parent="agent_1")
    failed = inside.logs_status(500, "boom").logs_end("boom", agent="agent_2").error("boom", "unknown")
    end = failed.returns("spawn_agent", output={"finishReason": "error", "text": "boom"}).says("x").ends()
    details = end.outcome().flag_details[Flag.SUBAGENT_FAILED]
    assert details == {
        "count": 1,
        "failures": [
            {
                "line": 6,
                "message": "boom",
                "error_class": "unknown",
                "log": {"source": "cline.log", "line": 1, "name": "AI_APICallError", "status": 500},
            }
        ],
    }


def test_a_sub_agent_s_failure_is_seen_in_its_call_s_end_alone(run: Run) -> None:
    output = {"finishReason": "error", "text": "The operation timed out."}
    outcome = run.calls("spawn_agent").returns("spawn_agent", output=output).says("x").ends().outcome()
    assert Flag.SUBAGENT_FAILED in outcome.flags


@pytest.mark.parametrize("finish_reason", ["completed", "aborted", None])
def test_a_sub_agent_that_finished_is_no_failure(finish_reason: str | None, run: Run) -> None:
    output = {"finishReason": finish_reason, "text": "The operation timed out."}
    outcome = run.calls("spawn_agent").returns("spawn_agent", output=output).says("x").ends().outcome()
    assert Flag.SUBAGENT_FAILED not in outcome.flags


def test_a_teammate_s_failure_is_a_sub_agent_s(run: Run) -> None:
    event = {"type": "run_failed", "agentId": "mate", "error": "boom"}
    outcome = run.says("x").line({"type": "team_event", "event": event}).ends().outcome()
    assert (outcome.reason, Flag.SUBAGENT_FAILED in outcome.flags) == (Reason.FINISHED, True)


@pytest.mark.parametrize(
    ("version", "is_flagged"), [("3.0.57", True), ("3.0.60", True), ("3.0.61", False), (None, True)]
)
def test_zero_usage_after_non_zero_is_the_only_trace_of_a_cut(
    version: str | None,
    is_flagged: bool,  # noqa: FBT001
    run: Run,
) -> None:
    """Up to 3.0.60 a stream that just ends is an answer; an unknown version may be one of these."""
    cut = run.says("working").turn(2).says("half an ans", tokens_in=0).ends()
    outcome = cut.but(cline_version=version).outcome()
    assert (outcome.reason, Flag.STREAM_MAYBE_TRUNCATED in outcome.flags) == (Reason.FINISHED, is_flagged)


def test_a_server_that_never_sends_usage_is_no_cut(run: Run) -> None:
    outcome = (
        run.says("x", tokens_in=0).turn(2).says("y", tokens_in=0).ends().but(cline_version="3.0.57").outcome()
    )
    assert Flag.STREAM_MAYBE_TRUNCATED not in outcome.flags


def test_a_sub_agent_s_zero_usage_is_not_the_lead_s(run: Run) -> None:
    inside = run.says("go").calls("spawn_agent").start("agent_2", parent="agent_1").says("z", tokens_in=0)
    outcome = inside.returns("spawn_agent").ends().but(cline_version="3.0.57").outcome()
    assert Flag.STREAM_MAYBE_TRUNCATED not in outcome.flags


def test_a_kill_in_a_tool_names_the_call(corpus: Corpus) -> None:
    outcome = judge(corpus, "3.0.65/sigkill_in_tool")
    assert outcome.flag_details[Flag.KILLED_IN_TOOL] == {"line": 9, "tool_name": "run_commands"}
    assert Flag.TOOL_EFFECT_UNKNOWN in outcome.flags
    assert "the task itself may have killed it" in outcome.text


def test_a_kill_between_tools_does_not(corpus: Corpus) -> None:
    for name in ("3.0.65/sigterm_after_tool", "3.0.65/sigkill_mid_stream", "3.0.65/sigkill_in_model_call"):
        outcome = judge(corpus, name)
        assert not {Flag.KILLED_IN_TOOL, Flag.TOOL_EFFECT_UNKNOWN} & set(outcome.flags)


def test_a_kill_in_a_sub_agent_s_model_call_was_in_no_tool(run: Run) -> None:
    outcome = run.calls("spawn_agent").start("agent_2", parent="agent_1").outcome()
    assert Flag.TOOL_EFFECT_UNKNOWN in outcome.flags
    assert Flag.KILLED_IN_TOOL not in outcome.flags


def test_a_signal_is_flagged_and_decides_nothing(corpus: Corpus) -> None:
    assert flagged(corpus, Flag.SIGNAL_RECEIVED) == {
        "3.0.57/sigterm_then_answer",
        "3.0.65/sigterm_then_answer",
    }


def test_every_command_failed_is_flagged(corpus: Corpus, run: Run) -> None:
    assert "3.0.57/unreadable_workdir" in flagged(corpus, Flag.SANDBOX_TOOLS_FAILED)
    mixed = [{"query": "a", "result": "", "success": False}, {"query": "b", "result": "", "success": True}]
    outcome = run.calls().returns(output=mixed).says("x").ends().outcome()
    assert Flag.SANDBOX_TOOLS_FAILED not in outcome.flags


def test_a_retry_that_worked_is_a_recovered_fault(corpus: Corpus) -> None:
    outcome = judge(corpus, "3.0.57/html_once")
    assert outcome.flag_details[Flag.RECOVERED_FAULTS] == {
        "source": "cline-log.jsonl",
        "count": 1,
        "faults": [{"line": 1, "kind": "empty_response", "detail": "other", "status": None}],
    }
    assert Flag.RECOVERED_FAULTS not in judge(corpus, "3.0.57/html_forever").flags


def test_a_run_that_its_own_limit_aborted_had_recovered_too() -> None:
    """It went on after the retry; one that ended in an error did not."""
    recorded = CORPUS / "3.0.57" / "html_once"
    stdout, log = (recorded / "stdout.ndjson").read_bytes(), (recorded / "cline-log.jsonl").read_bytes()

    def flags(finish: bytes) -> tuple[Flag, ...]:
        ended = stdout.replace(b'"finishReason":"completed"', b'"finishReason":"%s"' % finish)
        return classify(evidence_from_bytes(stdout=ended, cline_log=log)).unwrap().flags

    assert Flag.RECOVERED_FAULTS in flags(b"completed")
    assert Flag.RECOVERED_FAULTS in flags(b"aborted")
    assert Flag.RECOVERED_FAULTS not in flags(b"error")


def test_survivors_are_listed(run: Run) -> None:
    survivor = {"pid": 12, "command": "sleep 49", "age_s": 1.0}
    outcome = run.says("x").ends().with_receipt(survivors=[survivor]).outcome()
    assert outcome.reason is Reason.FINISHED
    assert outcome.flag_details[Flag.BACKGROUND_PROCESSES_LEFT] == {
        "count": 1,
        "processes": [{"pid": 12, "command": "sleep 49"}],
    }


def test_a_file_that_was_read_in_part_is_told(run: Run) -> None:
    outcome = run.says("x").ends().but(truncated_sources=frozenset({"stderr.txt"})).outcome()
    assert outcome.flag_details[Flag.OUTPUT_TRUNCATED] == {"sources": ["stderr.txt"]}


def test_a_line_over_the_bound_is_told(run: Run) -> None:
    outcome = run.raw(b"x" * (9 << 20)).says("x").ends().outcome()
    assert outcome.reason is Reason.FINISHED
    assert outcome.flag_details[Flag.LINE_TRUNCATED] == {"lines": {"stdout.ndjson": 1}}
