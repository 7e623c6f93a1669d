"""What the documents show is what the program does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from clinebox.domain.cline.pins import NEWEST
from clinebox.entrypoints.cli.main import build_app

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests" / "corpus"
CLASSIFY = (ROOT / "docs" / "classify.md").read_text("utf-8")
CLI = (ROOT / "docs" / "cli.md").read_text("utf-8")
COMMANDS = ("run", "demo", "gateway", "preflight", "doctor", "reap", "classify")
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


def options_of(command: str) -> dict[str, str]:
    """The typer app's own options of a command, and their defaults as a person writes them."""
    group = get_command(build_app())
    assert isinstance(group, TyperGroup)
    found = group.commands[command].params
    options = [option for option in found if isinstance(option, TyperOption)]
    return {
        name: default_of(option) for option in options for name in (option.opts[0], *option.secondary_opts)
    }


def default_of(option: TyperOption) -> str:
    if option.default is True:
        return option.opts[0]
    return "" if option.default in {None, False} else str(getattr(option.default, "value", option.default))


def table_of(command: str) -> dict[str, str]:
    """The documented options of a command, each with its default column (or nothing, where there is none)."""
    section = CLI.partition(f"## clinebox {command}\n")[2].partition("\n## ")[0]
    found: dict[str, str] = {}
    for row in re.findall(r"^\| (`--.*) \|$", section, re.MULTILINE):
        named, *rest = re.split(r"(?<!\\) \| ", row)
        default = rest[0] if len(rest) > 1 else ""
        found |= {option: default.strip("`") for option in re.findall(r"`(--[a-z-]+)", named)}
    return found


@pytest.mark.parametrize("command", ["run", "classify", "gateway", "preflight"])
def test_the_table_of_options_is_the_commands(command: str) -> None:
    assert set(table_of(command)) == set(options_of(command))


def test_the_defaults_in_the_table_of_run_are_the_commands() -> None:
    in_words = {
        "--api-key-env": "no key",
        "--cline-version": "the newest pinned",
        "--out": "./clinebox-runs/<id>",
    }
    documented = {option: default for option, default in table_of("run").items() if option not in in_words}
    assert {option: table_of("run")[option] for option in in_words} == in_words
    ours = {option: default.removesuffix(".0") for option, default in options_of("run").items()}
    assert documented == {option: default for option, default in ours.items() if option not in in_words}
    assert ours["--cline-version"] == NEWEST


@pytest.mark.parametrize("command", ["run", "demo", "classify"])
def test_the_line_that_shows_a_command_names_options_that_it_has(command: str) -> None:
    (line,) = re.findall(rf"^\$ clinebox {command} (.*)$", CLI, re.MULTILINE)
    shown = set(re.findall(r"--[a-z-]+", line))
    assert shown <= set(options_of(command))
    of_course = {"--gateway"}  # the default of a pair
    assert command != "demo" or shown | of_course == set(options_of("demo"))


def test_no_document_names_an_option_that_no_command_has() -> None:
    known = {option for command in COMMANDS for option in options_of(command)} | {"--help", "--version"}
    for name in ("README.md", "docs/cli.md", "docs/classify.md"):
        shown = re.findall(
            r"^\$ clinebox [^\n#]*(?:\\\n[^\n#]*)*", (ROOT / name).read_text("utf-8"), re.MULTILINE
        )
        assert {option for line in shown for option in re.findall(r" (--[a-z-]+)", line)} <= known
