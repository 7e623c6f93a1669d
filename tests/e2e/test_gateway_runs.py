"""Runs through the gateway: what it saw decides, and no key is in the sandbox."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clinebox.adapters.gateway import Gateway, Upstream
from clinebox.adapters.scripted_model import Script, ToolCall, Turn, running_scripted_model
from clinebox.domain.cline.pins import NEWEST
from clinebox.domain.cline.prompt import prepare_prompt
from clinebox.domain.outcome.model import Reason
from clinebox.domain.ports import HostPort
from clinebox.domain.secrets.masker import Masker
from clinebox.entrypoints.bootstrap import local_ports, run_directory
from clinebox.entrypoints.gateway_host import GatewayHost
from clinebox.entrypoints.observer import SilentObserver
from clinebox.entrypoints.run_once import AgentRun, FinishedRun
from clinebox.entrypoints.run_request import ModelEndpoint, RunRequest

pytestmark = pytest.mark.cline

KEY = "sk-test-0123456789abcdef"
LOOK_FOR_IT = """\
cat "$CLINE_PROVIDER_SETTINGS_PATH" > settings.txt
{ cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; env; grep -rsa "" /tmp /home /logs . "$CLINE_DATA_DIR/.."; \
} 2>/dev/null | tr '\\0' '\\n' > seen.txt
true
"""


def lines_of(run: Any, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.file(name).splitlines()]


def shell(command: str) -> ToolCall:
    return ToolCall(name="run_commands", arguments={"commands": [command]})


def test_the_key_is_nowhere_in_the_sandbox_nor_in_what_is_written(start: Any) -> None:
    script = Script(
        turns=(Turn(text="ok"), Turn(tool_calls=(shell(LOOK_FOR_IT),)), Turn(text=f"It is {KEY}."))
    )
    with running_scripted_model(script, require_key=KEY) as model:
        options = (
            "--model-url",
            model.base_url,
            "--model",
            "m",
            "--api-key-env",
            "THE_KEY",
            "--capture-bodies",
        )
        run = start("Find the key.", *options, env={"THE_KEY": KEY}).finish()
    assert run.object["status"] == "completed", run.object
    work = run.out.parent / "work"
    assert "apiKey" in (work / "settings.txt").read_text()  # the settings were there to be read
    assert b"CLINE_DATA_DIR=" in (work / "seen.txt").read_bytes()  # and so was the environment
    files = [path for path in (*run.out.rglob("*"), *work.rglob("*")) if path.is_file()]
    assert [path.name for path in files if KEY.encode() in path.read_bytes()] == []
    assert KEY not in run.stderr
    assert KEY not in json.dumps(run.object)
    assert run.object["text"] == "It is ***."


def test_the_sessions_token_is_masked_in_what_is_written(start: Any) -> None:
    tell = shell('cat "$CLINE_PROVIDER_SETTINGS_PATH"')
    run = start(
        "Tell.", turns=[Turn(tool_calls=(tell,)).model_dump(exclude_unset=True), {"text": "done"}]
    ).finish()
    assert run.object["status"] == "completed", run.object
    settings = next(line for line in run.file("stdout.ndjson").splitlines() if "apiKey" in line)
    assert "/s/***/v1" in settings


def test_each_attempt_is_a_line_joined_to_its_turn(start: Any) -> None:
    refused = {"status": 503, "body": {"error": {"message": "busy"}}}
    work = {"tool_calls": [{"name": "run_commands", "arguments": {"commands": ["true"]}}]}
    run = start("Go.", turns=[work, refused, {"text": "done"}]).finish()
    assert run.object["status"] == "completed", run.object
    calls = lines_of(run, "model_calls.jsonl")
    assert [(call["http_status"], call["turn"]["iteration"]) for call in calls] == [
        (200, 1),
        (503, 2),
        (200, 2),
    ]
    assert [call["of"] for call in calls] == [3, 3, 3]
    assert "recovered_faults" in run.object["flags"]
    bundle = json.loads(run.file("observations.json"))
    [lead] = [record for record in bundle["records"] if record["kind"] == "agent_invocation"]
    assert [call["model_call_id"] for call in lead["model_calls"]] == ["1", "2", "3"]
    assert "model_calls_not_captured" not in {gap["code"] for gap in bundle["gaps"]}


def test_bodies_are_kept_only_when_asked_for(start: Any) -> None:
    kept = start("Say it.", "--capture-bodies", turns=[{"text": "All done."}], name="kept")
    without = start("Say it.", turns=[{"text": "All done."}], name="without").finish()
    bodies = lines_of(kept.finish(), "model_bodies.jsonl")
    assert [(body["number"], body["side"], body["cut"]) for body in bodies] == [
        (1, "request", False),
        (1, "response", False),
    ]
    assert json.loads(bodies[0]["body"])["stream"] is True
    assert "data: " in bodies[1]["body"]
    assert not (without.out / "model_bodies.jsonl").exists()


def test_a_rejected_key_ends_the_run_before_it_starts(start: Any) -> None:
    with running_scripted_model(Script(turns=(Turn(text="no"),)), require_key="another-key-0123") as model:
        options = ("--model-url", model.base_url, "--model", "m", "--api-key-env", "THE_KEY")
        run = start("Go.", *options, env={"THE_KEY": KEY}).finish()
        refused = start("Go.", *options, "--no-preflight", env={"THE_KEY": KEY}, name="unasked").finish()
    assert run.exit_code == 1
    assert run.object["error"]["code"] == "preflight_refused"
    for word in (model.base_url, "model m", "THE_KEY", "401"):
        assert word in run.object["error"]["message"]
    assert KEY not in json.dumps(run.object) + run.stderr
    assert not run.out.exists()
    assert (refused.object["reason"], refused.object["status_code"]) == ("model_request", 401)


def test_an_inconclusive_preflight_is_noted_and_the_run_goes_on(start: Any) -> None:
    turns = (Turn(status=503, body={}), Turn(text="done"))
    with running_scripted_model(Script(turns=turns), require_key=KEY) as model:
        options = ("--model-url", model.base_url, "--model", "m", "--api-key-env", "THE_KEY")
        run = start("Go.", *options, env={"THE_KEY": KEY}).finish()
    assert run.object["status"] == "completed", run.object
    assert any("inconclusive: it answered HTTP 503" in note for note in run.object["notes"])


def test_a_gateway_that_the_sandbox_cannot_reach_is_no_fault_of_the_models(
    tmp_path: Path, cline_binary: Callable[[str], Path]
) -> None:
    cline_binary(NEWEST)
    (tmp_path / "work").mkdir()

    async def story(url: str) -> FinishedRun:
        model = ModelEndpoint("http://127.0.0.1:9/v1", "m")
        request = RunRequest(prepare_prompt("Go.").unwrap(), tmp_path / "work", model, NEWEST)
        writer = run_directory(tmp_path / "out", Masker()).unwrap()
        async with Gateway(Upstream(model.base_url)) as gateway:
            access = GatewayHost(gateway, url, HostPort("127.0.0.1", 9)).open()
            return await AgentRun(request, local_ports(), writer, SilentObserver(), access).execute()

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        outcome = asyncio.run(story(url)).judgement.outcome
    assert outcome.reason is Reason.GATEWAY_UNREACHABLE
    assert outcome.failure_kind == "clinebox:gateway_unreachable"
    assert url in outcome.text
