"""Standard streams that are closed, full or broken: nothing ends for them, and each has its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CLINEBOX = f"{sys.executable} -m clinebox.entrypoints.cli.main"
RUN_RESULT = '{"type":"run_result","finishReason":"completed","text":"done"}\n'


def shell(text: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    (cwd / "run.ndjson").write_text(RUN_RESULT)
    return subprocess.run(
        ["bash", "-c", text], cwd=cwd, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False
    )


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_a_stderr_that_cannot_be_written_changes_no_exit_code(tmp_path: Path, stderr: str) -> None:
    assert shell(f"{CLINEBOX} classify run.ndjson {stderr}", tmp_path).returncode == 0
    assert shell(f"{CLINEBOX} classify missing {stderr}", tmp_path).returncode == 2


@pytest.mark.parametrize("closed", [">&-", "<&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_change_no_exit_code(tmp_path: Path, closed: str) -> None:
    ran = shell(f"{CLINEBOX} classify run.ndjson {closed}", tmp_path)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_a_closed_stderr_is_not_replaced_by_stdout(tmp_path: Path) -> None:
    ran = shell(f"{CLINEBOX} classify missing 2>&-", tmp_path)
    assert ran.stdout == b""


@pytest.mark.parametrize("option", ["", "--json"])
def test_a_pipe_without_a_reader_is_no_failed_run(tmp_path: Path, option: str) -> None:
    """rich would end the program with 1, which says of a run that it failed."""
    reader, writer = os.pipe()
    os.close(reader)
    (tmp_path / "run.ndjson").write_text(RUN_RESULT)
    command = [*CLINEBOX.split(), "classify", *option.split(), "run.ndjson"]
    ran = subprocess.run(
        command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (141, b"")
