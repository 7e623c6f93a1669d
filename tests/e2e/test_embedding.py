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


def test_the_embedding_example_runs_and_is_graded(
    tmp_path: Path, cline_binary: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    cline_binary("3.0.65")
    (tmp_path / "desk").mkdir()
    example = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "embedding.md").read_text(), re.DOTALL)
    assert example is not None
    namespace: dict[str, Any] = {}
    exec(compile(example[1], "docs/embedding.md", "exec"), namespace)  # noqa: S102 - our own document
    call = ToolCall(name="editor", arguments={"path": "a.txt", "new_text": "hello\n"})
    with running_scripted_model(Script(turns=(Turn(tool_calls=(call,)), Turn(text="Written.")))) as model:
        asyncio.run(namespace["run"](model.base_url, None, tmp_path / "desk", tmp_path / "out"))
    assert capsys.readouterr().out.startswith("completed/finished: Cline finished its task")
    assert (tmp_path / "out" / "outcome.json").is_file()
