"""The embedding example of the documents, run as it stands against a scripted model."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clinebox.adapters.scripted_model import Script, ToolCall, Turn, running_scripted_model
from clinebox.domain.cline.mcp import McpGrant, Stdio
from clinebox.domain.cline.prompt import prepare_prompt
from clinebox.domain.secrets.masker import Masker
from clinebox.entrypoints.bootstrap import local_ports, run_directory
from clinebox.entrypoints.observer import SilentObserver
from clinebox.entrypoints.run_once import AgentRun
from clinebox.entrypoints.run_request import ModelEndpoint, RunRequest

pytestmark = pytest.mark.cline

ROOT = Path(__file__).parents[2]


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "embedding.md").read_text(), re.DOTALL)


def test_the_example_from_bytes_judges_a_stopped_run_as_stopped() -> None:
    recorded = ROOT / "tests" / "corpus" / "3.0.65" / "sigint_in_tool"
    parts = {"stdout": "stdout.ndjson", "cline_log": "cline-log.jsonl", "stderr": "stderr.txt"}
    namespace: dict[str, Any] = {name: (recorded / file).read_bytes() for name, file in parts.items()}
    namespace |= {"receipt": b'{"cleanup_confirmed": true, "error": null}', "we_stopped_it": True}
    exec(compile(examples()[0], "docs/embedding.md", "exec"), namespace)  # noqa: S102 - our own document
    assert (namespace["outcome"].status, namespace["outcome"].reason) == ("incomplete", "stopped")


def test_the_embedding_example_runs_and_is_graded(
    tmp_path: Path, cline_binary: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    cline_binary("3.0.65")
    (tmp_path / "desk").mkdir()
    namespace: dict[str, Any] = {}
    exec(compile(examples()[1], "docs/embedding.md", "exec"), namespace)  # noqa: S102 - our own document
    call = ToolCall(name="editor", arguments={"path": "a.txt", "new_text": "hello\n"})
    with running_scripted_model(Script(turns=(Turn(tool_calls=(call,)), Turn(text="Written.")))) as model:
        asyncio.run(namespace["run"](model.base_url, None, tmp_path / "desk", tmp_path / "out"))
    assert capsys.readouterr().out.startswith("completed/finished: Cline finished its task")
    assert (tmp_path / "out" / "outcome.json").is_file()


def test_the_embedding_example_runs_through_the_gateway(
    tmp_path: Path, cline_binary: Callable[[str], Path]
) -> None:
    cline_binary("3.0.65")
    (tmp_path / "desk").mkdir()
    namespace: dict[str, Any] = {}
    for example in examples()[1:3]:
        exec(compile(example, "docs/embedding.md", "exec"), namespace)  # noqa: S102 - our own document
    with running_scripted_model(Script(turns=(Turn(text="done"),))) as model:
        prompt = prepare_prompt("Say done.").unwrap()
        request = RunRequest(prompt, tmp_path / "desk", ModelEndpoint(model.base_url, "m"), "3.0.65")
        finished = asyncio.run(namespace["watched_run"](request, tmp_path / "out", local_ports()))
    assert finished.judgement.outcome.status == "completed"
    assert len((tmp_path / "out" / "model_calls.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("version", ["3.0.57", "3.0.65"])
def test_cline_starts_a_granted_mcp_server(
    tmp_path: Path, cline_binary: Callable[[str], Path], version: str
) -> None:
    cline_binary(version)
    desk = tmp_path / "desk"
    desk.mkdir()
    server = Stdio("bash", ("-c", 'head -n 1 >> "$WHERE"'), {"WHERE": str(desk / "asked.json")})

    async def run(base_url: str) -> str:
        request = RunRequest(
            prompt=prepare_prompt("Say done.").unwrap(),
            workdir=desk,
            model=ModelEndpoint(base_url, "m"),
            cline_version=version,
            mcp=(McpGrant("asked", server),),
        )
        writer = run_directory(tmp_path / "out", Masker()).unwrap()
        finished = await AgentRun(request, local_ports(), writer, SilentObserver()).execute()
        return finished.judgement.outcome.status

    with running_scripted_model(Script(turns=(Turn(text="done"),))) as model:
        assert asyncio.run(run(model.base_url)) == "completed"
    first = (desk / "asked.json").read_text().split("\n")[0]
    assert json.loads(first)["method"] == "initialize"
