"""`clinebox gateway` as an operator runs it: sessions, their records, and who may what."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clinebox.adapters.scripted_model import Script, Turn, running_scripted_model
from clinebox.domain.model_calls.reader import parse_model_calls

if TYPE_CHECKING:
    from tests.e2e.gateway_alone.conftest import OpenGate

KEY = "sk-the-real-key-0123456789"
OPERATOR = "operator-token-0123456789"
LASTING = "lasting-token-0123456789"
WITHOUT_PROMETHEUS = """
import sys
sys.modules["prometheus_client"] = None  # as if it were not installed
from clinebox.entrypoints.cli.main import main
main()
"""
ASK = {"stream": True, "stream_options": {"include_usage": True}, "messages": []}
ANSWER = Turn.model_validate({"text": "hi there", "usage": {"prompt_tokens": 3, "completion_tokens": 2}})


def test_hosts_get_sessions_call_the_model_and_have_their_records(model: Any, open_gate: OpenGate) -> None:
    served = model(ANSWER)
    gate = open_gate(served.base_url, "--no-preflight")
    one, two = gate.open(), gate.open(sampling={"temperature": 0.25}, ttl_s=600)
    assert one["base_url"] == f"{gate.url}/s/{one['token']}/v1"
    assert (one["model"], one["token"] != two["token"]) == ("some-model", True)
    assert '"hi' in gate.ask(two["base_url"])
    assert served.requests[0].body["temperature"] == 0.25
    glance = gate.http.get(f"{gate.url}/sessions/{two['id']}/calls", headers=gate.operator)
    assert [json.loads(line)["of"] for line in glance.text.splitlines()] == [None]
    facts = parse_model_calls(gate.end(two["id"]))
    assert facts.is_whole
    assert gate.end(one["id"]) == b""
    again = gate.http.post(f"{two['base_url']}/chat/completions", json=ASK)
    assert (again.status_code, again.headers["x-clinebox-gateway"]) == (401, "wrong_token")
    assert gate.end(two["id"]) != b"", "an answer that got lost can be asked for again"


def test_one_lasting_session_needs_no_operator(model: Any, open_gate: OpenGate, tmp_path: Path) -> None:
    calls = tmp_path / "made" / "calls"
    gate = open_gate(
        model(ANSWER, ANSWER).base_url,
        "--calls-dir",
        str(calls),
        "--no-preflight",
        tokens=("--session-token-env", "LASTING_TOKEN"),
    )
    for _ in range(2):
        gate.ask(f"{gate.url}/s/{LASTING}/v1")
    [file] = calls.iterdir()
    assert [json.loads(line)["number"] for line in file.read_text().splitlines()] == [1, 2]
    assert gate.http.post(f"{gate.url}/sessions", json={}).status_code == 404


@pytest.mark.parametrize(
    "sent", [{}, {"authorization": "Bearer wrong"}, {"authorization": OPERATOR}, {"authorization": "Basic x"}]
)
def test_whoever_is_not_the_operator_gets_a_401_everywhere(
    model: Any, open_gate: OpenGate, sent: dict[str, str]
) -> None:
    gate = open_gate(model(ANSWER).base_url, "--no-preflight")
    session = gate.open()
    for method, path in [
        ("POST", "/sessions"),
        ("GET", "/sessions"),
        ("GET", f"/sessions/{session['id']}/calls"),
        ("DELETE", f"/sessions/{session['id']}"),
        ("DELETE", "/sessions/none"),
    ]:
        answer = gate.http.request(method, gate.url + path, headers=sent)
        assert (answer.status_code, answer.headers["x-clinebox-gateway"]) == (401, "wrong_operator_token")
    assert len(gate.http.get(f"{gate.url}/sessions", headers=gate.operator).json()["sessions"]) == 1
    assert 'kind="wrong_operator_token"} 5.0' in gate.http.get(f"{gate.url}/metrics").text


def test_a_sandboxs_token_is_no_operators(model: Any, open_gate: OpenGate) -> None:
    gate = open_gate(model(ANSWER).base_url, "--no-preflight")
    for token in (LASTING, gate.open()["token"], KEY):
        answer = gate.http.post(f"{gate.url}/sessions", headers={"authorization": f"Bearer {token}"})
        assert answer.status_code == 401
    assert gate.http.get(f"{gate.url}/s/{OPERATOR}/v1/models").status_code == 401


def test_no_secret_stands_in_logs_arguments_records_or_metrics(
    model: Any, open_gate: OpenGate, tmp_path: Path
) -> None:
    quoting = Turn.model_validate({"status": 401, "body": {"error": {"message": f"bad key {KEY}"}}})
    calls = tmp_path / "calls"
    gate = open_gate(model(ANSWER, quoting).base_url, "--calls-dir", str(calls), "--no-preflight")
    session = gate.open()
    gate.ask(session["base_url"])
    assert gate.http.post(f"{session['base_url']}/chat/completions", json=ASK).status_code == 401
    shown = [Path(f"/proc/{gate.process.pid}/cmdline").read_bytes()]
    shown.append(gate.http.get(f"{gate.url}/metrics").content)
    shown.append(gate.http.get(f"{gate.url}/sessions", headers=gate.operator).content)
    shown.append(gate.end(session["id"]))
    shown += [file.read_bytes() for file in calls.iterdir()]
    gate.signal(signal.SIGTERM)
    assert gate.exit() == 0
    shown += [gate.stderr.read_bytes(), json.dumps(gate.stdout).encode()]
    for secret in (KEY, OPERATOR, LASTING, session["token"]):
        assert [text for text in shown if secret.encode() in text] == []
    assert [file.name for file in calls.iterdir() if file.suffix != ".jsonl"] == []


def test_a_rejected_key_ends_it_before_it_listens(open_gate: OpenGate) -> None:
    with running_scripted_model(Script(turns=(ANSWER,)), require_key="another") as served:
        gate = open_gate(served.base_url)
        assert gate.exit() == 1
    [said] = gate.stdout
    assert said["error"]["code"] == "preflight_refused"
    for word in (served.base_url, "some-model", "MODEL_KEY", "401"):
        assert word in said["error"]["message"]


def test_a_key_that_proves_nothing_is_said_and_it_listens(model: Any, open_gate: OpenGate) -> None:
    gate = open_gate(model(Turn.model_validate({"status": 503})).base_url)
    assert gate.stdout[0]["status"] == "listening"
    assert "inconclusive: it answered HTTP 503" in gate.stderr.read_text()


def test_a_port_in_use_is_a_sentence_and_exit_code_2(model: Any, open_gate: OpenGate) -> None:
    served = model(ANSWER)
    taken = open_gate(served.base_url, "--no-preflight")
    place = taken.url.removeprefix("http://")
    second = open_gate(served.base_url, "--no-preflight", "--listen", place)
    assert second.exit() == 2
    assert second.stdout[0]["error"]["message"] == f"--listen: {place} cannot be had: Address already in use"


def test_a_full_disk_stops_no_call_and_is_told(model: Any, open_gate: OpenGate, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    gate = open_gate(model(ANSWER, ANSWER).base_url, "--calls-dir", str(calls), "--no-preflight")
    session = gate.open()
    (calls / f"{session['id']}.jsonl").symlink_to("/dev/full")  # ENOSPC at every write (full(4))
    gate.ask(session["base_url"])
    gate.ask(session["base_url"])
    assert "clinebox_gateway_unwritten_records 2.0" in gate.http.get(f"{gate.url}/metrics").text
    assert parse_model_calls(gate.end(session["id"])).is_whole
    gate.signal(signal.SIGTERM)
    assert gate.exit() == 0
    assert gate.stdout[-1]["unwritten_records"] == 2
    assert gate.stderr.read_text().count("a record could not be written") == 1


def test_without_the_metrics_extra_it_says_so_and_serves(model: Any, open_gate: OpenGate) -> None:
    gate = open_gate(model(ANSWER).base_url, "--no-preflight", main=("-c", WITHOUT_PROMETHEUS))
    assert gate.stdout[0]["metrics"] is False
    assert "no metrics: they need clinebox[metrics]" in gate.stderr.read_text()
    gate.ask(gate.open()["base_url"])
    assert gate.http.get(f"{gate.url}/metrics").status_code == 404


@pytest.mark.cline
def test_a_host_without_the_key_runs_cline_through_it(
    model: Any, open_gate: OpenGate, start: Callable[..., Any]
) -> None:
    writes = {"name": "run_commands", "arguments": {"commands": ["echo hi > made.txt"]}}
    served = model(Turn.model_validate({"tool_calls": [writes]}), ANSWER)
    gate = open_gate(served.base_url, "--no-preflight")
    session = gate.open()
    there = ("--model-url", session["base_url"], "--model", session["model"], "--api-key-env", "TOKEN")
    run = start("Make it.", *there, "--no-preflight", env={"TOKEN": session["token"]})
    ended = run.finish()
    assert (ended.exit_code, ended.object["reason"]) == (0, "finished"), ended.stderr
    assert (run.out.parent / "work" / "made.txt").read_text() == "hi\n"
    record = gate.end(session["id"])
    assert parse_model_calls(record).is_whole
    told = [json.loads(line) for line in record.splitlines()]
    assert [call["finish_reason"] for call in told] == ["tool_calls", "stop"]
    assert KEY not in ended.file("stdout.ndjson") + ended.file("cline.log") + json.dumps(ended.object)
