"""What the model is sent is what the task says, byte for byte; nothing in it is expanded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clinebox.adapters.scripted_model import RunningScriptedModel, Script, Turn, running_scripted_model

pytestmark = pytest.mark.cline

OLD, NEW = "3.0.57", "3.0.65"
KIB = 1024


@pytest.fixture
def model() -> Iterator[RunningScriptedModel]:
    with running_scripted_model(Script(turns=(Turn(text="done", repeat=-1),))) as server:
        yield server


def told(model: RunningScriptedModel, *, role: str = "user") -> str:
    """The text of the first message of this role in the first request."""
    body: Any = model.requests[0].body
    content = next(message["content"] for message in body["messages"] if message["role"] == role)
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def sized(size_bytes: int) -> str:
    """Words and line ends of exactly so many bytes, with nothing to trim."""
    return ("lorem ipsum\n" * (size_bytes // 12 + 1))[: size_bytes - 1] + "."


SIZES = {
    "one_byte": "x",
    "one_word": "hello",
    "60_KB": sized(60_000),
    "64_KiB-1": sized(64 * KIB - 1),
    "64_KiB": sized(64 * KIB),
    "64_KiB+1": sized(64 * KIB + 1),
    "300_KiB": sized(300 * KIB),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_prompt_of_any_size_arrives_whole(
    start: Any, model: RunningScriptedModel, version: str, size: str, tmp_path: Any
) -> None:
    task = tmp_path / "task.txt"
    task.write_text(SIZES[size])
    options = ("--model-url", model.base_url, "--model", "scripted-model")
    run = start(f"@{task}", *options, version=version).finish()
    assert run.object["status"] == "completed", run.object
    assert told(model) == SIZES[size]


def test_a_system_text_is_added_to_clines_own_prompt(
    start: Any, model: RunningScriptedModel, tmp_path: Any
) -> None:
    system = tmp_path / "system.txt"
    system.write_text("Always answer in rhyme 4711.")
    options = ("--model-url", model.base_url, "--model", "scripted-model", "--system", str(system))
    run = start("Say it.", *options).finish()
    assert run.object["status"] == "completed"
    assert told(model) == "Say it."
    text = told(model, role="system")
    assert "Always answer in rhyme 4711." in text
    assert len(text) > 1_000  # Cline's own prompt is still there


SENT = {
    "/team build it": "`/team` build it",
    " \n/team build it": "`/team` build it",
    "Look at @/etc/hostname please": "Look at `@/etc/hostname` please",
    "mail me@example.org about it": "mail me@example.org about it",
    "-s is an option": "-s is an option",
}


@pytest.mark.parametrize("task", SENT)
@pytest.mark.parametrize("version", [OLD, NEW])
def test_what_cline_would_expand_is_put_in_backticks(
    start: Any, model: RunningScriptedModel, version: str, task: str, tmp_path: Any
) -> None:
    file = tmp_path / "task.txt"
    file.write_text(task)
    options = ("--model-url", model.base_url, "--model", "scripted-model")
    run = start(f"@{file}", *options, version=version).finish()
    assert run.object["status"] == "completed", run.object
    assert told(model) == SENT[task]
    assert bool(run.object["prompt_changes"]) == ("`" in SENT[task])
