"""Bad input: a sentence and exit code 2, before anything starts; with --json the sentence is an object."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from clinebox.entrypoints.cli.main import run

GOOD = {"--workdir": "desk", "--script": "script.json"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "desk").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    (tmp_path / "a-file").write_text("")
    (tmp_path / "script.json").write_text('{"turns": [{"text": "done"}]}')
    (tmp_path / "bad.yaml").write_text("turns:\n  - text: ok\n  - txet: oops\n")
    return tmp_path


@pytest.fixture
def clinebox(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run a command line in this process, in `place`: its exit code, stdout and stderr."""
    monkeypatch.chdir(place)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


CASES: dict[str, dict[str, str]] = {
    "workdir missing": {"--workdir": "nowhere"},
    "workdir not a directory": {"--workdir": "a-file"},
    "unknown version": {"--cline-version": "3.0.1"},
    "timeout zero": {"--timeout": "0"},
    "timeout negative": {"--timeout": "-5"},
    "timeout no number": {"--timeout": "soon"},
    "timeout nan": {"--timeout": "nan"},
    "verifier timeout zero": {"--verify-timeout": "0"},
    "verifier empty": {"--verify": " "},
    "model url no url": {"--script": "", "--model-url": "localhost:8000", "--model": "m"},
    "model url with credentials": {"--script": "", "--model-url": "http://a:b@host/v1", "--model": "m"},
    "model url without model": {"--script": "", "--model-url": "http://host/v1"},
    "no model at all": {"--script": ""},
    "two models": {"--model-url": "http://host/v1", "--model": "m"},
    "key variable unset": {
        "--script": "",
        "--model-url": "http://host/v1",
        "--model": "m",
        "--api-key-env": "NO_SUCH_KEY",
    },
    "script malformed": {"--script": "bad.yaml"},
    "script missing": {"--script": "nowhere.yaml"},
    "out not empty": {"--out": "full"},
    "out a file": {"--out": "a-file"},
    "out inside the workdir": {"--out": "desk/out"},
    "unknown sandbox": {"--sandbox": "moon"},
    "tarball missing": {"--cline-tarball": "nowhere.tgz"},
}


def words(case: dict[str, str]) -> list[str]:
    chosen = {"--out": "out", **GOOD, **case}
    return [word for option, value in chosen.items() if value for word in (option, value)]


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_sentence_and_exit_code_2(
    clinebox: Any, place: Path, case: str, snapshot: SnapshotAssertion
) -> None:
    code, stdout, stderr = clinebox("run", "Do it.", *words(CASES[case]))
    assert code == 2, stderr
    assert stdout == ""
    assert stderr.replace(str(place), "<PLACE>") == snapshot
    assert not (place / "out").exists()


def test_with_json_the_sentence_is_an_object_on_stdout(clinebox: Any) -> None:
    code, stdout, _ = clinebox("run", "Do it.", "--json", *words({"--workdir": "nowhere"}))
    assert code == 2
    error = json.loads(stdout)["error"]
    assert error["code"] == "usage"
    assert "nowhere" in error["message"]


@pytest.mark.parametrize(
    ("task", "sentence"),
    [(" ", "empty"), ("@nowhere.txt", "cannot be read"), ("@nul.txt", "NUL"), ("@/dev/zero", "longer")],
)
def test_a_task_that_cannot_be_told_is_refused(clinebox: Any, place: Path, task: str, sentence: str) -> None:
    (place / "nul.txt").write_text("a\0b")
    code, _, stderr = clinebox("run", task, *words({}))
    assert code == 2, stderr
    assert sentence in stderr


def test_a_workdir_that_cannot_be_read_is_refused(place: Path) -> None:
    # root reads everything, so the command runs without the capability to
    (place / "desk").chmod(0)
    without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    command = [*without, sys.executable, "-m", "clinebox.entrypoints.cli.main", "run", "Do it.", *words({})]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "is not readable" in done.stderr
