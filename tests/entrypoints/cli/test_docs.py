"""What the documents show is what the program does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests" / "corpus"
CLASSIFY = (ROOT / "docs" / "classify.md").read_text("utf-8")
CLI = (ROOT / "docs" / "cli.md").read_text("utf-8")
ENVIRONMENT = {"PATH": os.defpath, "COLUMNS": "100", "LANG": "C.UTF-8"}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with the runs of the document, under `runs`."""
    for number, run in (
        ("0007", "3.0.57/http_429_forever"),
        ("0008", "3.0.65/write_file"),
        ("0009", "3.0.65/mistakes_unknown_tool"),
    ):
        copied = shutil.copytree(CORPUS / run, tmp_path / "runs" / number)
        (copied / "cline-log.jsonl").rename(copied / "cline.log")
    return tmp_path


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", CLASSIFY, re.DOTALL)


def python(*args: str, cwd: Path) -> str:
    ran = subprocess.run(
        [sys.executable, *args], cwd=cwd, capture_output=True, env=ENVIRONMENT, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    return ran.stdout.decode("utf-8")


@pytest.mark.parametrize("path", ["runs/0007", "runs"])
def test_the_document_shows_what_the_command_prints(runs: Path, path: str) -> None:
    (block,) = (block for block in blocks("console") if block.startswith(f"$ clinebox classify {path}\n"))
    printed = python("-m", "clinebox.entrypoints.cli.main", "classify", path, cwd=runs)
    assert block.partition("\n")[2].split() == printed.split()


def test_the_short_library_example_runs(runs: Path) -> None:
    assert python("-c", blocks("python")[0], cwd=runs) == (
        "failed model_request 429 False\n"
        "cline.log:1 err.errors[-1].statusCode\n"
        "stdout.ndjson:4 event.error.message\n"
    )


def test_the_streaming_library_example_runs(runs: Path) -> None:
    lines = python("-c", blocks("python")[1], cwd=runs).splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["runs/0007", "failed/model_request"],
        ["runs/0008", "completed/finished:"],
        ["runs/0009", "incomplete/mistake_limit:"],
    ]


def test_every_option_of_classify_is_documented() -> None:
    shown = python("-m", "clinebox.entrypoints.cli.main", "classify", "--help", cwd=ROOT)
    options = set(re.findall(r"--[a-z-]+", shown)) - {"--help"}
    assert options == set(re.findall(r"`(--[a-z-]+)[^`]*` \|", CLI.partition("## clinebox classify")[2]))


@pytest.mark.parametrize("command", ["gateway", "preflight"])
def test_every_option_of_a_command_is_in_its_section(command: str) -> None:
    shown = python("-m", "clinebox.entrypoints.cli.main", command, "--help", cwd=ROOT)
    section = CLI.partition(f"## clinebox {command}\n")[2].partition("\n## ")[0]
    rows = "\n".join(line.partition(" | ")[0] for line in section.splitlines() if line.startswith("| `--"))
    assert set(re.findall(r"--[a-z-]+", rows)) == set(re.findall(r"--[a-z-]+", shown)) - {"--help"}
