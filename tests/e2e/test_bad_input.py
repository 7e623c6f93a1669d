"""Bad input: a sentence and exit code 2, before anything starts; with --json the sentence is an object."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

GOOD = {"--workdir": "work", "--script": "script.json"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    (tmp_path / "a-file").write_text("")
    (tmp_path / "script.json").write_text('{"turns": [{"text": "done"}]}')
    (tmp_path / "bad.yaml").write_text("turns:\n  - text: ok\n  - txet: oops\n")
    return tmp_path


def clinebox(place: Path, *arguments: str, user: int | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "NO_SUCH_KEY"}
    return subprocess.run(
        [sys.executable, "-m", "clinebox.entrypoints.cli.main", *arguments],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        user=user,
    )


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
    "out inside the workdir": {"--out": "work/out"},
    "unknown sandbox": {"--sandbox": "moon"},
    "tarball missing": {"--cline-tarball": "nowhere.tgz"},
}


def words(case: dict[str, str]) -> list[str]:
    chosen = {"--out": "out", **GOOD, **case}
    return [word for option, value in chosen.items() if value for word in (option, value)]


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_sentence_and_exit_code_2(
    place: Path, case: str, snapshot: SnapshotAssertion
) -> None:
    done = clinebox(place, "run", "Do it.", *words(CASES[case]))
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.replace(str(place), "<PLACE>") == snapshot
    assert not (place / "out").exists()


def test_with_json_the_sentence_is_an_object_on_stdout(place: Path) -> None:
    done = clinebox(place, "run", "Do it.", "--json", *words({"--workdir": "nowhere"}))
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "usage"
    assert "nowhere" in error["message"]


def test_a_workdir_that_cannot_be_read_is_refused(place: Path) -> None:
    # root reads everything, so the command runs as another user where the tests run as root
    (place / "work").chmod(0)
    user = 65534 if os.geteuid() == 0 else None
    if user is not None:
        for parent in (place, *place.parents):
            if parent != Path("/") and parent.stat().st_uid == 0:
                parent.chmod(parent.stat().st_mode | 0o011)
    done = clinebox(place, "run", "Do it.", *words({}), user=user)
    assert done.returncode == 2, done.stderr
    assert "not readable and writable" in done.stderr


def test_a_task_that_is_empty_or_a_missing_file_is_refused(place: Path) -> None:
    for task, sentence in ((" ", "empty"), ("@nowhere.txt", "cannot be read"), ("a\0b", "NUL")):
        if "\0" in task:
            (place / "nul.txt").write_text(task)
            task = "@nul.txt"  # noqa: PLW2901 - an argument cannot hold NUL
        done = clinebox(place, "run", task, *words({}))
        assert done.returncode == 2, (task, done.stderr)
        assert sentence in done.stderr
