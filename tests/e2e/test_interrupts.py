"""An operator's stop at any moment: a receipt, exit code 130, never a grade, and nothing left."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clinebox.adapters.scripted_model import (
    Fault,
    RunningScriptedModel,
    Script,
    ToolCall,
    Turn,
    running_scripted_model,
)

pytestmark = pytest.mark.cline

STOPPED = {"status": "incomplete", "reason": "stopped", "stopped_by": "operator", "gradable": False}


@pytest.fixture
def serve() -> Iterator[Callable[..., RunningScriptedModel]]:
    with_open: list[Any] = []

    def begin(*turns: Turn) -> RunningScriptedModel:
        context = running_scripted_model(Script(turns=turns))
        with_open.append(context)
        return context.__enter__()

    yield begin
    for context in with_open:
        context.__exit__(None, None, None)


def until(holds: Callable[[], object], patience_s: float = 60.0) -> bool:
    """Whether it comes to hold; looked at ten times a second."""
    gives_up = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > gives_up:
            return False
        threading.Event().wait(0.1)
    return True


def options(model: RunningScriptedModel) -> tuple[str, ...]:
    return ("--model-url", model.base_url, "--model", "scripted-model", "--verify", "true")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_interrupt_stops_cleanly_and_is_never_graded(
    start: Any, serve: Any, number: signal.Signals
) -> None:
    model = serve(Turn(fault=Fault.HANG_BEFORE_HEADERS))
    started = start("Wait.", *options(model))
    model.wait_until(lambda requests: len(requests) >= 1, timeout_s=60)
    started.process.send_signal(number)
    run = started.finish(60)
    assert run.exit_code == 130, run.stderr
    assert {name: run.object[name] for name in STOPPED} == STOPPED
    assert run.object["receipt"]["cleanup_confirmed"] is True
    assert run.object["receipt"]["stopped_by"] == "operator"
    assert "reward" not in run.object
    assert (run.out / "outcome.json").is_file()


def test_two_interrupts_kill_and_still_leave_a_run_directory_and_no_process(
    start: Any, serve: Any, processes_with: Any, long_s: str
) -> None:
    sleeper = ToolCall(name="run_commands", arguments={"commands": [f"trap '' INT TERM; sleep {long_s}"]})
    model = serve(Turn(tool_calls=(sleeper,)), Turn(text="done"))
    started = start("Wait.", *options(model))
    assert until(lambda: processes_with(long_s))
    started.process.send_signal(signal.SIGINT)
    started.process.send_signal(signal.SIGINT)
    run = started.finish(60)
    assert run.exit_code == 130, run.stderr
    assert run.object["gradable"] is False
    assert "reward" not in run.object
    assert (run.out / "outcome.json").is_file()
    assert processes_with(long_s) == []


def test_an_interrupt_while_the_verifier_runs_gives_no_grade(
    start: Any, serve: Any, processes_with: Any, long_s: str
) -> None:
    model = serve(Turn(text="done"))
    url = ("--model-url", model.base_url, "--model", "scripted-model")
    started = start("Go.", *url, "--verify", f"sleep {long_s}")
    assert until(lambda: processes_with(long_s))
    started.process.send_signal(signal.SIGINT)
    run = started.finish(60)
    assert run.exit_code == 130, run.stderr
    assert "reward" not in run.object
    assert processes_with(long_s) == []


def test_a_stderr_whose_reader_goes_away_ends_nothing(start: Any, serve: Any) -> None:
    model = serve(Turn(fault=Fault.HANG_BEFORE_HEADERS), Turn(text="done"))
    started = start("Go.", *options(model))
    model.wait_until(lambda requests: len(requests) >= 1, timeout_s=60)
    started.process.stderr.close()
    model.release()
    run = started.finish(120)
    assert run.exit_code == 0
    assert run.object["reward"] == 1.0
