"""`clinebox gateway` that is stopped, stopped twice, and killed, with calls under way."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from clinebox.adapters.scripted_model import Fault, Turn
from clinebox.domain.model_calls.reader import parse_model_calls

if TYPE_CHECKING:
    from tests.e2e.gateway_alone.conftest import OpenGate

LASTING = "lasting-token-0123456789"
PATIENCE_S = 60.0
ASK = {"stream": True, "stream_options": {"include_usage": True}, "messages": []}
ANSWER = Turn.model_validate({"text": "hi there", "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
HANGS = Turn(text="one two three", fault=Fault.HANG_MID_STREAM)


def test_a_gateway_that_is_killed_has_lost_no_call_that_had_ended(
    model: Any, open_gate: OpenGate, tmp_path: Path
) -> None:
    gate = open_gate(model(*[ANSWER] * 20).base_url, "--calls-dir", str(tmp_path / "calls"), "--no-preflight")
    sessions = [gate.open() for _ in range(4)]
    for _ in range(5):
        for session in sessions:
            gate.ask(session["base_url"])
    gate.signal(signal.SIGKILL)
    assert gate.process.wait(timeout=PATIENCE_S) == -signal.SIGKILL
    for session in sessions:
        written = (tmp_path / "calls" / f"{session['id']}.jsonl").read_bytes()
        lines = [json.loads(line) for line in written.splitlines()]
        assert [(line["number"], line["end"]) for line in lines] == [(n, "finished") for n in range(1, 6)]
        assert not parse_model_calls(written).is_whole, "nobody may take it for all that was called"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_lets_what_is_under_way_finish_and_takes_nothing_new(
    model: Any, open_gate: OpenGate, tmp_path: Path, number: signal.Signals
) -> None:
    served = model(HANGS)
    gate = open_gate(served.base_url, "--calls-dir", str(tmp_path / "calls"), "--no-preflight")
    session = gate.open()
    asked = gate.ask_in_background(session["base_url"])
    served.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
    gate.signal(number)
    gate.until_draining()
    refused = gate.http.post(f"{session['base_url']}/chat/completions", json=ASK)
    assert (refused.status_code, refused.headers["x-clinebox-gateway"]) == (503, "draining")
    assert gate.http.post(f"{gate.url}/sessions", headers=gate.operator).status_code == 503
    assert gate.http.get(f"{gate.url}/sessions", headers=gate.operator).status_code == 200
    served.release()
    assert "[DONE]" in str(asked.came)
    assert gate.exit() == 0
    assert gate.stdout[-1] == {
        "status": "stopped",
        "cut_requests": 0,
        "killed": False,
        "unwritten_records": 0,
    }
    assert parse_model_calls((tmp_path / "calls" / f"{session['id']}.jsonl").read_bytes()).is_whole


def test_a_second_signal_cuts_what_is_under_way_and_its_record_says_so(
    model: Any, open_gate: OpenGate, tmp_path: Path
) -> None:
    served = model(HANGS)
    gate = open_gate(served.base_url, "--calls-dir", str(tmp_path / "calls"), "--no-preflight")
    session = gate.open()
    asked = gate.ask_in_background(session["base_url"])
    served.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
    gate.signal(signal.SIGTERM)
    gate.until_draining()
    gate.signal(signal.SIGTERM)
    assert gate.exit() == 130
    assert isinstance(asked.came, httpx.RemoteProtocolError | httpx.ReadError)
    assert (gate.stdout[-1]["killed"], gate.stdout[-1]["cut_requests"]) == (True, 1)
    written = (tmp_path / "calls" / f"{session['id']}.jsonl").read_bytes()
    assert parse_model_calls(written).is_whole
    assert json.loads(written)["end"] == "client_closed"


def test_a_call_of_the_lasting_session_that_was_cut_is_on_disk(
    model: Any, open_gate: OpenGate, tmp_path: Path
) -> None:
    served = model(HANGS)
    gate = open_gate(served.base_url, "--calls-dir", str(tmp_path / "calls"), "--no-preflight")
    asked = gate.ask_in_background(f"{gate.url}/s/{LASTING}/v1")
    served.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
    gate.signal(signal.SIGTERM)
    gate.signal(signal.SIGINT)
    assert gate.exit() == 130
    assert isinstance(asked.came, httpx.HTTPError)
    [file] = (tmp_path / "calls").iterdir()
    assert json.loads(file.read_text())["end"] == "client_closed"


def test_a_drain_ends_with_its_time(model: Any, open_gate: OpenGate) -> None:
    served = model(HANGS)
    gate = open_gate(served.base_url, "--drain", "0.2", "--no-preflight")
    asked = gate.ask_in_background(gate.open()["base_url"])
    served.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
    gate.signal(signal.SIGTERM)
    assert gate.exit() == 0
    assert isinstance(asked.came, httpx.HTTPError)
    assert (gate.stdout[-1]["killed"], gate.stdout[-1]["cut_requests"]) == (False, 1)
