"""Each way a run can end, played by a scripted model against the real Cline."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.cline

OLD, NEW = "3.0.57", "3.0.65"
BOTH = pytest.mark.parametrize("version", [OLD, NEW])

WRITE_FILE: dict[str, Any] = {
    "text": "I'll write it.",
    "tool_calls": [{"name": "editor", "arguments": {"path": "a.txt", "new_text": "hello\n"}}],
}
ANSWER: dict[str, Any] = {"text": "All done."}
VERIFY = "grep -qx hello a.txt"


def command(*commands: str) -> dict[str, Any]:
    return {
        "text": "Running.",
        "tool_calls": [{"name": "run_commands", "arguments": {"commands": [*commands]}}],
    }


def fields(run: Any, *names: str) -> dict[str, Any]:
    return {name: run.object[name] for name in names}


@BOTH
def test_a_plain_answer_is_completed(start: Any, version: str) -> None:
    run = start("Say done.", turns=[ANSWER], version=version).finish()
    assert run.exit_code == 0, run.stderr
    assert fields(run, "status", "reason", "text", "gradable", "retryable", "cline_version") == {
        "status": "completed",
        "reason": "finished",
        "text": "All done.",
        "gradable": True,
        "retryable": False,
        "cline_version": version,
    }
    assert run.object["usage"]["input_tokens"] == 100
    assert run.object["flags"] == ["no_tool_called"]
    assert run.object["receipt"]["cleanup_confirmed"] is True
    assert "reward" not in run.object
    [evidence] = run.object["evidence"]
    assert evidence["source"] == "stdout.ndjson"
    line = run.file("stdout.ndjson").split("\n")[evidence["line"] - 1]
    assert json.loads(line)["type"] == "run_result"


@BOTH
def test_work_that_the_verifier_accepts_is_graded_1(start: Any, version: str) -> None:
    run = start("Write.", "--verify", VERIFY, turns=[WRITE_FILE, ANSWER], version=version).finish()
    assert run.exit_code == 0, run.stderr
    assert fields(run, "status", "reward", "verifier_error") == {
        "status": "completed",
        "reward": 1.0,
        "verifier_error": None,
    }
    assert (run.out.parent / "work" / "a.txt").read_text() == "hello\n"


def test_work_that_the_verifier_refuses_is_completed_and_graded_0(start: Any) -> None:
    run = start("Write.", "--verify", VERIFY, turns=[ANSWER]).finish()
    assert run.exit_code == 0, run.stderr
    assert fields(run, "status", "reward") == {"status": "completed", "reward": 0.0}


def test_a_verifier_that_breaks_gives_no_reward_at_all(start: Any) -> None:
    run = start("Write.", "--verify", "no-such-program", turns=[ANSWER]).finish()
    assert run.exit_code == 1
    assert "reward" not in run.object
    assert run.object["status"] == "completed"
    assert "127" in run.object["verifier_error"]


def test_a_reward_file_of_the_verifier_counts_and_one_of_the_agent_does_not(start: Any) -> None:
    plant = command("mkdir -p /logs/verifier && echo 1 > /logs/verifier/reward.txt")
    verify = 'test ! -e "$CLINEBOX_LOGS_DIR/reward.txt" && echo 0.25 > "$CLINEBOX_LOGS_DIR/reward.txt"'
    run = start("Cheat.", "--verify", verify, turns=[plant, ANSWER]).finish()
    assert run.object["reward"] == 0.25


def test_429_for_good_is_a_retryable_failure_with_its_status(start: Any) -> None:
    turn = {"status": 429, "body": {"error": {"message": "slow down"}}, "repeat": -1}
    old = start("Go.", "--verify", "true", turns=[turn], version=OLD, name="old")
    # Retry-After is honoured up to 60 s; without it, 3.0.65 waits 62 s in all (FORMAT.md §5 and §7).
    hinted = {**turn, "headers": {"retry-after": "1"}}
    new = start("Go.", "--verify", "true", turns=[hinted], version=NEW, name="new")
    for started in (old, new):
        run = started.finish()
        assert run.exit_code == 1
        assert fields(run, "status", "reason", "failure_kind", "status_code", "gradable", "retryable") == {
            "status": "failed",
            "reason": "model_request",
            "failure_kind": "model_request_error",
            "status_code": 429,
            "gradable": False,
            "retryable": True,
        }
        assert "reward" not in run.object
        assert run.object["evidence"][0]["source"] == "model_calls.jsonl"
        assert not (run.out / "verifier.txt").exists()


@BOTH
@pytest.mark.parametrize("fault", ["reset_mid_stream", "close_mid_stream"])
def test_a_connection_cut_in_mid_answer_is_a_transport_failure(start: Any, version: str, fault: str) -> None:
    turn = {"text": "The quick brown fox jumps over the lazy dog.", "fault": fault, "repeat": -1}
    run = start("Go.", turns=[turn], version=version).finish()
    assert fields(run, "status", "reason", "failure_kind", "status_code") == {
        "status": "failed",
        "reason": "model_transport",
        "failure_kind": "model_transport_error",
        "status_code": None,
    }
    assert run.exit_code == 1


def test_a_stream_without_a_finish_reason_fails_on_the_new_version(start: Any) -> None:
    cut = {"text": "Half an ans", "finish_reason": None, "usage": None, "done": False}
    run = start("Go.", turns=[command("true"), cut], version=NEW).finish()
    assert fields(run, "status", "reason") == {"status": "failed", "reason": "model_transport"}


def test_a_stream_without_a_finish_reason_fails_on_the_old_version_by_the_gateway_alone(start: Any) -> None:
    """3.0.57 calls it completed; without the gateway's record only a flag can be had."""
    cut = {"text": "Half an ans", "finish_reason": None, "usage": None, "done": False}
    turns = [command("true"), cut]
    watched = start("Go.", turns=turns, version=OLD, name="watched")
    direct = start("Go.", "--no-gateway", turns=turns, version=OLD, name="direct").finish()
    run = watched.finish()
    assert fields(run, "status", "reason") == {"status": "failed", "reason": "model_transport"}
    assert fields(direct, "status", "reason") == {"status": "completed", "reason": "finished"}
    assert "stream_maybe_truncated" in direct.object["flags"]
    assert not (direct.out / "model_calls.jsonl").exists()


@BOTH
def test_a_model_that_says_nothing_for_good_is_an_empty_response(start: Any, version: str) -> None:
    run = start("Go.", turns=[{"text": "", "repeat": -1}], version=version).finish()
    assert fields(run, "status", "reason", "failure_kind", "retryable") == {
        "status": "failed",
        "reason": "empty_response",
        "failure_kind": "agent_invalid_output",
        "retryable": True,
    }


@BOTH
def test_a_deadline_in_the_middle_of_a_tool_is_graded_and_leaves_no_process(
    start: Any, version: str, processes_with: Any, long_s: str
) -> None:
    # An escapee in a session of its own, with a name that only this test uses.
    turn = command(f"setsid sleep {long_s} & setsid sleep {long_s}")
    started = start("Go.", "--timeout", "20", "--verify", "true", turns=[turn, ANSWER], version=version)
    run = started.finish()
    assert run.exit_code == 0, run.stderr
    assert fields(run, "status", "reason", "timed_out", "stopped_by", "reward") == {
        "status": "incomplete",
        "reason": "deadline",
        "timed_out": True,
        "stopped_by": "deadline",
        "reward": 1.0,
    }
    assert run.object["receipt"]["cleanup_confirmed"] is True
    assert run.object["receipt"]["survivors"] == []
    assert "tool_effect_unknown" in run.object["flags"]
    assert processes_with(long_s) == []


@pytest.mark.parametrize(
    ("way", "reason", "kind"),
    [
        ("--gateway", "model_transport", "model_transport_error"),
        ("--no-gateway", "deadline_before_output", "unknown"),
    ],
)
def test_a_deadline_before_any_output_is_the_models_only_where_the_gateway_saw_it_wait(
    start: Any, way: str, reason: str, kind: str
) -> None:
    turn = {"fault": "hang_before_headers"}
    run = start("Go.", "--timeout", "8", "--verify", "true", way, turns=[turn]).finish()
    assert run.exit_code == 1
    assert fields(run, "status", "reason", "failure_kind", "timed_out", "gradable", "retryable") == {
        "status": "failed",
        "reason": reason,
        "failure_kind": kind,
        "timed_out": True,
        "gradable": False,
        "retryable": True,
    }


@BOTH
def test_an_agent_that_kills_its_harness_leaves_no_result_and_a_hint(start: Any, version: str) -> None:
    run = start("Go.", turns=[command("kill -9 $PPID"), ANSWER], version=version).finish()
    assert run.exit_code == 1
    assert fields(run, "status", "reason", "failure_kind") == {
        "status": "failed",
        "reason": "no_run_result",
        "failure_kind": "clinebox:no_run_result",
    }
    assert "killed_in_tool" in run.object["flags"]
    assert "the task itself may have killed it" in run.object["text"]


def test_a_service_that_the_task_left_running_is_there_for_the_verifier_and_gone_afterwards(
    start: Any, processes_with: Any, long_s: str
) -> None:
    leave = command(f"nohup sleep {long_s} > /dev/null 2>&1 &")
    run = start(
        "Serve.", "--verify", f"grep -lzx {long_s} /proc/[0-9]*/cmdline", turns=[leave, ANSWER]
    ).finish()
    assert run.object["reward"] == 1.0, run.file("verifier.txt")
    assert run.object["flags"] == ["background_processes_left"]
    assert processes_with(long_s) == []


def test_survivors_are_ended_before_the_verifier_when_asked(
    start: Any, processes_with: Any, long_s: str
) -> None:
    leave = command(f"nohup sleep {long_s} > /dev/null 2>&1 &")
    options = ("--survivors", "kill", "--verify", f"! grep -lzx {long_s} /proc/[0-9]*/cmdline")
    run = start("Serve.", *options, turns=[leave, ANSWER]).finish()
    assert run.object["reward"] == 1.0, run.file("verifier.txt")
    assert processes_with(long_s) == []
