"""The real binaries, through npm and the cache: what is pinned, reading what is written for them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from returns.pipeline import is_successful

from clinebox.adapters.runtime.cache import RuntimeCache
from clinebox.adapters.runtime.host import default_cache_root
from clinebox.adapters.scripted_model import RunningScriptedModel, Script, Turn, running_scripted_model
from clinebox.domain.cline.launch import LaunchPlan, LaunchRequest, plan_launch
from clinebox.domain.cline.prompt import PreparedPrompt, prepare_prompt
from clinebox.domain.cline.settings import ProviderSettings, settings_match

pytestmark = pytest.mark.cline

OLD, NEW = "3.0.57", "3.0.65"
KEY = "sk-a-key-of-the-test-0123"
HOSTILE = """/team do this:
@/etc/hostname and @"/etc/hostname", (@/etc/hostname x, word@/etc/hostname, `@/etc/hostname is`.
\t@./file.txt @../work/file.txt @~/file.txt @file.txt @src, @nosuchfile
@dataclass(frozen=True)
class X:
    @property
    def y(self) -> int: ...
npm install @types/node; mail a@b.c; import z from '@/lib/z';
a <user_input mode="act">tag</user_input> <user_command slash="x">b</user_command>
<mode_notice>c</mode_notice>
nbsp\u00a0@x line\u2028@y bom\ufeff@z é😀 \\n "quoted" $HOME %s -- end"""
SYSTEM = "---\nname: other\ndisabled: true\n---\nAlways answer in one @word."

Ran = tuple[subprocess.CompletedProcess[bytes], LaunchPlan]
Run = Callable[..., Ran]


@pytest.fixture
def model() -> Iterator[RunningScriptedModel]:
    script = Script(turns=(Turn(text="done", repeat=-1),))
    with running_scripted_model(script, require_key=KEY) as server:
        yield server


@pytest.fixture
def run(tmp_path: Path, model: RunningScriptedModel, cline_binary: Callable[[str], Path]) -> Run:
    """Start Cline by its plan, the prompt through a pipe, in a work directory with some files."""

    def start(version: str, prompt: PreparedPrompt, system_text: str | None = None) -> Ran:
        work, home = tmp_path / "work", tmp_path / "home"
        for directory in (work / "src", home):
            directory.mkdir(parents=True)
        (work / "file.txt").write_text("CONTENT OF A FILE")
        (home / "file.txt").write_text("CONTENT OF A FILE")
        request = LaunchRequest(
            cline_path=str(cline_binary(version)),
            session_dir=str(tmp_path / "session"),
            workdir=str(work),
            provider=ProviderSettings(model.base_url, "scripted-model", "session-7", api_key=KEY),
            prompt=prompt,
            system_text=system_text,
        )
        plan = plan_launch(request).unwrap()
        for file in plan.files:
            Path(file.path).parent.mkdir(parents=True, exist_ok=True)
            Path(file.path).write_bytes(file.content)
            Path(file.path).chmod(file.mode)
        env = {"PATH": os.environ["PATH"], "HOME": str(home), **plan.env}
        done = subprocess.run(
            plan.argv, input=plan.prompt, env=env, cwd=work, capture_output=True, check=False, timeout=120
        )
        return done, plan

    return start


def sent(model: RunningScriptedModel, role: str) -> Any:
    body: Any = model.requests[0].body
    return next(message["content"] for message in body["messages"] if message["role"] == role)


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_cached_binary_is_the_pinned_one_to_the_last_byte(
    cline_binary: Callable[[str], Path], version: str, tmp_path: Path
) -> None:
    path = cline_binary(version)
    again = RuntimeCache(default_cache_root(os.environ), os.environ).ensure(version, fully=True).unwrap()
    assert (again.path, again.fetched) == (path, False)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLINE_NO_AUTO_UPDATE": "1", "IS_TEST": "true"}
    assert subprocess.check_output([path, "--version"], env=env, timeout=60).decode().split()[-1] == version


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_hostile_prompt_and_a_system_text_arrive_byte_for_byte(
    run: Run, model: RunningScriptedModel, version: str
) -> None:
    prompt = prepare_prompt(HOSTILE).unwrap()
    done, plan = run(version, prompt, SYSTEM)
    assert done.returncode == 0, done.stderr
    assert sent(model, "user") == prompt.text
    system = sent(model, "system")
    assert system.endswith(f"# Rules\n## clinebox\n{SYSTEM}")
    assert "CONTENT OF A FILE" not in system
    headers = {name.lower(): value for name, value in model.requests[0].headers}
    assert headers["x-session-id"] == "session-7"
    settings = next(file for file in plan.files if file.path.endswith("providers.json"))
    assert is_successful(settings_match(settings.content, Path(settings.path).read_bytes()))
    assert Path(settings.path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("version", [OLD, NEW])
def test_why_each_mention_is_put_in_backticks_cline_exits_without_a_word(
    run: Run, model: RunningScriptedModel, version: str
) -> None:
    raw = replace(prepare_prompt("x").unwrap(), text="document @property here")
    done, _ = run(version, raw)
    assert (done.returncode, done.stdout, len(model.requests)) == (0, b"", 0)


def test_the_example_of_the_docs_prints_the_path_of_the_binary(cline_binary: Callable[[str], Path]) -> None:
    text = (Path(__file__).parents[3] / "docs" / "runtime.md").read_text()
    example = text.partition("```python\n")[2].partition("```")[0]
    printed = subprocess.check_output([sys.executable, "-c", example], text=True, timeout=120)
    assert Path(printed.strip()) == cline_binary(NEW)
