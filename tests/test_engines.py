"""`--full` and CLINEBOX_REQUIRE, tried out on a small test file of its own in a pytest of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent / "conftest.py"
TESTS = """
import pytest

@pytest.mark.bubblewrap
def test_needs_bubblewrap(): pass

@pytest.mark.docker
def test_needs_docker(): pass

@pytest.mark.podman
def test_needs_podman(): pass

@pytest.mark.full
def test_of_the_night(): pass

def test_needs_nothing(): pass
"""
MARKERS = (
    "[pytest]\naddopts = --strict-markers\nmarkers =\n  bubblewrap\n  cline\n  docker\n  podman\n  full\n"
)


def run_pytest(folder: Path, *arguments: str, require: str | None = None, path: str | None = None) -> str:
    """What pytest prints in a folder with our conftest, with no container engine and no program."""
    shutil.copy(CONFTEST, folder)
    (folder / "test_small.py").write_text(TESTS)
    (folder / "pytest.ini").write_text(MARKERS)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CLINEBOX_"))
    }
    environment |= {
        "PATH": str(folder) if path is None else path,
        "DOCKER_HOST": "unix:///nowhere/docker.sock",
        "CONTAINER_HOST": "unix:///nowhere/podman.sock",
    }
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # ours need none, and start in half the time
    environment |= {} if require is None else {"CLINEBOX_REQUIRE": require}
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_a_test_whose_engine_is_missing_is_skipped_with_what_to_install(tmp_path: Path) -> None:
    said = run_pytest(tmp_path)
    assert "bubblewrap is missing: the program bwrap is not there: apt-get install bubblewrap" in said
    assert "docker is missing: no Docker engine answers" in said
    assert "podman is missing: no Podman engine answers" in said
    assert "CLINEBOX_REQUIRE=podman bin/setup engines" in said
    assert "1 passed, 3 skipped, 1 deselected" in said


def test_a_required_engine_that_is_missing_fails_its_tests_with_what_to_install(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, require=" bubblewrap, cline ")
    assert "bubblewrap is required (CLINEBOX_REQUIRE) and missing: the program bwrap is not there" in said
    assert "apt-get install bubblewrap" in said
    assert "1 passed, 2 skipped, 1 deselected, 1 error" in said


def test_every_missing_engine_that_is_required_fails(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, require="docker,bubblewrap,podman")
    assert "docker is required (CLINEBOX_REQUIRE) and missing" in said
    assert "1 passed, 1 deselected, 3 errors" in said


def test_a_bwrap_that_makes_no_sandbox_is_missing_too(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'No permissions to create a new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    said = run_pytest(tmp_path, require="bubblewrap")
    assert "bwrap makes no sandbox here: No permissions to create a new namespace" in said


@pytest.mark.bubblewrap
def test_a_test_whose_engine_is_there_runs(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, require="bubblewrap", path=os.environ["PATH"])
    assert "PASSED test_small.py::test_needs_bubblewrap" in said


@pytest.mark.parametrize("require", ["bubblewarp", "bubblewrap,lxc"])
def test_an_engine_that_nobody_knows_is_refused(tmp_path: Path, require: str) -> None:
    said = run_pytest(tmp_path, require=require)
    assert "the engines are bubblewrap, cline, docker, podman" in said
    assert "passed" not in said


def test_full_runs_the_tests_of_the_night_too(tmp_path: Path) -> None:
    assert "PASSED test_small.py::test_of_the_night" in run_pytest(tmp_path, "--full")
