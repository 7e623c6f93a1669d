"""The demo does the main job with the real Cline, and the README shows what it really prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.cline

ROOT = Path(__file__).parents[2]
CHANGING = (
    (re.compile(r"\d+\.\d\d s"), "0.00 s"),
    (re.compile(r"\d+\.\d s"), "0.0 s"),
    (re.compile(r"stdout\.ndjson:\d+"), "stdout.ndjson:N"),
    (re.compile(r'"durationMs":\d+'), '"durationMs":0'),
    (re.compile(r"local/\w+:.*?(?=│ took)", re.DOTALL), "local/… "),
    (re.compile(r"│ files .*?(?=│ verdict)", re.DOTALL), "│ files PATH "),
    (re.compile(r"\s+"), " "),
)


def demo(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "clinebox.entrypoints.cli.main", "demo", "--out", str(out), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280, cwd=out.parent)


def without_what_changes(text: str) -> str:
    for pattern, replacement in CHANGING:
        text = pattern.sub(replacement, text)
    return text.strip()


def test_the_demo_is_graded_1_and_the_readme_shows_it(
    tmp_path: Path, cline_binary: Callable[[str], Path]
) -> None:
    cline_binary("3.0.65")
    done = demo(tmp_path / "out")
    assert done.returncode == 0, done.stderr
    shown = re.search(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    assert without_what_changes(shown[1]) == without_what_changes(done.stdout)


@pytest.mark.parametrize("sandbox", ["auto", "local"])
def test_the_demo_with_json_prints_one_object_in_each_sandbox(
    tmp_path: Path, cline_binary: Callable[[str], Path], sandbox: str
) -> None:
    cline_binary("3.0.57")
    done = demo(tmp_path / "out", "--json", "--cline-version", "3.0.57", "--sandbox", sandbox)
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert (run["status"], run["reward"], run["receipt"]["survivors"]) == ("completed", 1.0, [])
    assert run["sandbox"]["containment"] == ("plain" if sandbox == "local" else "bubblewrap")
    calls = [
        item["name"]
        for item in json.loads((tmp_path / "out" / "transcript.json").read_text())["invocations"][0]["items"]
        if item["type"] == "function_call"
    ]
    assert calls == ["read_files", "editor", "run_commands"]
