"""The embedding example of the documents, run as it stands against a scripted model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clinebox.adapters.scripted_model import Script, ToolCall, Turn, running_scripted_model

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
