"""`clinebox doctor` and `clinebox reap`, as programs of their own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from returns.pipeline import is_successful

from clinebox.adapters.conformance import CHECKS
from clinebox.adapters.sandboxes.local import LocalSandboxProvider
from clinebox.domain.ports import SandboxSpec, SandboxState

COMMAND = (sys.executable, "-m", "clinebox.entrypoints.cli.main")
BOUND_S = 60.0


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A TMPDIR of the test's own, so that no other test's sandbox is found."""
    path = tmp_path / "t"
    path.mkdir()
    return path


def clinebox(base: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "110", "LANG": "C.UTF-8", "TMPDIR": str(base)}
    return subprocess.run(
        [*COMMAND, *args], capture_output=True, text=True, check=False, timeout=180, env=environment
    )


def test_doctor_shows_people_every_check_and_what_is_not_offered(base: Path) -> None:
    ran = clinebox(base, "doctor", "--sandbox", "fake")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [
        name for name in (each.name for each in CHECKS if not each.is_heavy) if name not in ran.stdout
    ] == []
    assert "give it a script" in ran.stdout
    assert "0 failed" in ran.stdout


def test_doctor_gives_programs_one_object(base: Path) -> None:
    ran = clinebox(base, "doctor", "--sandbox", "local", "--json")
    told = json.loads(ran.stdout)
    assert [each for each in told["checks"] if each["result"] == "failed"] == []
    assert (ran.returncode, told["sandbox"], told["failed"]) == (0, "local", 0)
    assert told["not offered"] == 3
    assert {each["result"] for each in told["checks"]} == {"passed", "not offered"}
    assert list(base.iterdir()) == []


def test_doctor_without_the_program_says_not_offered_and_why(base: Path) -> None:
    environment = {"PATH": str(base), "LANG": "C.UTF-8", "TMPDIR": str(base)}
    ran = subprocess.run(
        [*COMMAND, "doctor", "--sandbox", "bubblewrap", "--json"],
        capture_output=True, text=True, check=False, timeout=120, env=environment,
    )  # fmt: skip
    told = json.loads(ran.stdout)
    assert told["passed"] <= 3
    assert any("bwrap, bash" in each["message"] for each in told["checks"])


@pytest.mark.parametrize("arguments", [("--sandbox", "docker"), ("--sandbox", "nowhere"), ("--odd",)])
def test_doctor_refuses_what_it_cannot_try(base: Path, arguments: tuple[str, ...]) -> None:
    ran = clinebox(base, "doctor", *arguments, "--json")
    assert ran.returncode == 2
    assert json.loads(ran.stdout)["error"]["message"]


def test_reap_tells_first_and_removes_only_with_yes(base: Path, tmp_path: Path) -> None:
    async def scenario() -> list[object]:
        provider = LocalSandboxProvider("plain", private_base=base)
        work = tmp_path / "work"
        work.mkdir()
        spec = SandboxSpec(str(work), labels={"job": "7"})
        sandbox = (await provider.start(spec, timeout_s=BOUND_S)).unwrap()

        async def reap(*words: str) -> list[object]:
            ran = await asyncio.to_thread(clinebox, base, "reap", "--json", *words)
            assert ran.returncode == 0, ran
            return [each["sandbox_id"] for each in json.loads(ran.stdout)["sandboxes"]]

        mine = sandbox.description.sandbox_id
        seen: list[object] = [
            await reap(),
            await reap("--all", "--label", "job=8", "--yes"),
            [each == mine for each in await reap("--all", "--label", "job=7")],
            (await sandbox.status(timeout_s=BOUND_S)).unwrap().state,
            [each == mine for each in await reap("--all", "--label", "job=7", "--yes")],
            (await sandbox.status(timeout_s=BOUND_S)).unwrap().state,
        ]
        assert is_successful(await sandbox.stop(timeout_s=BOUND_S))
        return seen

    assert asyncio.run(scenario()) == [[], [], [True], SandboxState.RUNNING, [True], SandboxState.GONE]
    assert list(base.iterdir()) == []


def test_reap_tells_people_that_there_is_nothing(base: Path) -> None:
    ran = clinebox(base, "reap")
    assert (ran.returncode, ran.stdout) == (0, "Nothing to remove.\n")


@pytest.mark.parametrize("label", ["job", "=7", ""])
def test_reap_refuses_a_label_that_is_none(base: Path, label: str) -> None:
    ran = clinebox(base, "reap", "--label", label)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "is no KEY=VALUE" in ran.stderr
