"""The shell texts, each run by a real bash on hostile paths and values (SPEC §5)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.domain import session_files as names
from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.receipt import CleanupReceipt, parse_cleanup_receipt
from clinebox.domain.shell import (
    SessionDirectory,
    ShellExit,
    StopAnswer,
    expire_text,
    launch_text,
    remove_text,
    session_directory,
    stop_text,
)

NONCE = "0123abcdEF-_"
# Names that a file system takes; the shell's own characters come often.
parts = st.text(
    st.sampled_from(" '\"\\$`!*?[]{}()<>|&;~#-\n\t=%é\u2028\U0001f600ab.")
    | st.characters(codec="utf-8", exclude_characters="/\0"),
    min_size=1,
    max_size=30,
).filter(lambda part: part not in {".", ".."} and len(part.encode()) < 200)
STUB = 'printf "%s\\0" "$0" "$PWD" "$@" > ran; exit 0\n'


def bash(text: str, cwd: str = "/") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/bash", "-p", "-c", text], capture_output=True, check=False, cwd=cwd, stdin=subprocess.DEVNULL
    )


def made(root: str, *inside: str) -> tuple[SessionDirectory, Path]:
    path = Path(root, *inside)
    return session_directory(str(path)).unwrap(), path


def ready(path: Path) -> None:
    path.mkdir(parents=True)
    for script in (names.SUPERVISOR_SCRIPT, names.RUNNER_SCRIPT):
        (path / script).write_text(STUB)
    (path / names.NONCE).write_text(NONCE + "\n")


@settings(max_examples=40, deadline=None)
@given(parts, parts)
def test_a_launch_becomes_the_supervisor_in_its_directory(parent: str, name: str) -> None:
    """Whatever the path holds, it is data: the claim, the pid and the supervisor's directory are right."""
    with tempfile.TemporaryDirectory() as root:
        directory, path = made(root, parent, name)
        ready(path)
        assert bash(launch_text(directory)).returncode == 0
        _, cwd, argument, _ = (path / "ran").read_bytes().split(b"\0")
        assert (os.fsdecode(cwd), argument) == (directory, b".")
        assert (path / names.LAUNCH_CLAIM).read_text().startswith("launch ")
        assert [field.isdigit() for field in (path / names.SUPERVISOR_PID).read_text().split()] == [
            True,
            True,
        ]
        assert bash(launch_text(directory)).returncode == ShellExit.FENCED
        assert [entry.name for entry in Path(root).iterdir()] == [parent]


@settings(max_examples=40, deadline=None)
@given(parts, parts, st.sampled_from([StoppedBy.CALLER, StoppedBy.OPERATOR]))
def test_a_stop_before_the_launch_fences_it_and_writes_the_receipt(
    parent: str, name: str, by: StoppedBy
) -> None:
    """Whoever creates launch.claim decides: a stop that came first wrote the receipt, and nothing starts."""
    with tempfile.TemporaryDirectory() as root:
        directory, path = made(root, parent, name)
        ready(path)
        assert bash(stop_text(directory, by)).stdout.decode() == f"{StopAnswer.FENCED}\n"
        receipt = parse_cleanup_receipt((path / names.RECEIPT).read_bytes(), expected_nonce=NONCE).unwrap()
        assert receipt == CleanupReceipt(cleanup_confirmed=True, nonce=NONCE, stopped_by=by)
        assert bash(launch_text(directory)).returncode == ShellExit.FENCED
        assert not (path / "ran").exists()
        assert not (path / names.NONCE).exists()


@settings(max_examples=40, deadline=None)
@given(parts, parts)
def test_requests_and_removal_touch_the_session_directory_alone(parent: str, name: str) -> None:
    """The removal retires by one rename, then deletes; nothing beside the directory is touched."""
    with tempfile.TemporaryDirectory() as root:
        directory, path = made(root, parent, name)
        ready(path)
        (path.parent / "neighbour").mkdir(exist_ok=True)
        assert bash(expire_text(directory)).returncode == 0
        assert (path / names.EXPIRE_REQUEST).read_text() == "deadline\n"
        (path / names.LAUNCH_CLAIM).write_text("launch 1\n")
        (path / names.NONCE).unlink()
        assert bash(stop_text(directory, StoppedBy.OPERATOR)).stdout.decode() == f"{StopAnswer.REQUESTED}\n"
        assert (path / names.STOP_REQUEST).read_text() == "operator\n"
        assert not (path / names.RECEIPT).exists()
        assert bash(remove_text(directory)).returncode == 0
        assert [entry.name for entry in path.parent.iterdir() if entry.name != "neighbour"] == []


def test_a_claim_that_was_taken_away_after_the_launch_gives_no_receipt(tmp_path: Path) -> None:
    """The agent removed launch.claim; the supervisor had removed the nonce, so the stop proves nothing."""
    directory, path = made(str(tmp_path), "s")
    ready(path)
    (path / names.NONCE).unlink()
    assert bash(stop_text(directory, StoppedBy.CALLER)).stdout.decode() == f"{StopAnswer.REQUESTED}\n"
    assert not (path / names.RECEIPT).exists()
    assert (path / names.STOP_REQUEST).read_text() == "caller\n"


@pytest.mark.parametrize("nonce", ["", 'x","cleanup_confirmed":false,"y":"', "a b", "$(id)", "\\"])
def test_a_nonce_that_could_break_the_receipt_is_not_written(tmp_path: Path, nonce: str) -> None:
    directory, path = made(str(tmp_path), "s")
    ready(path)
    (path / names.NONCE).write_text(nonce + "\n")
    bash(stop_text(directory, StoppedBy.CALLER))
    assert not (path / names.RECEIPT).exists()


def test_a_stop_finishes_what_an_interrupted_stop_began(tmp_path: Path) -> None:
    directory, path = made(str(tmp_path), "s")
    ready(path)
    (path / names.LAUNCH_CLAIM).write_text("stop\n")
    assert bash(stop_text(directory, StoppedBy.CALLER)).stdout.decode() == f"{StopAnswer.FENCED}\n"
    assert (path / names.RECEIPT).exists()


@pytest.mark.parametrize("script", [names.SUPERVISOR_SCRIPT, names.RUNNER_SCRIPT])
@pytest.mark.parametrize("content", [None, "if (((\n", "main() { \n"])
def test_a_script_that_bash_cannot_parse_is_refused_before_the_claim(
    tmp_path: Path, script: str, content: str | None
) -> None:
    directory, path = made(str(tmp_path), "s")
    ready(path)
    (path / script).unlink()
    if content is not None:
        (path / script).write_text(content)
    launched = bash(launch_text(directory))
    assert launched.returncode == ShellExit.BAD_BOOTSTRAP
    assert script.encode() in launched.stderr
    assert not (path / names.LAUNCH_CLAIM).exists()


def test_a_launch_without_a_directory_claims_nothing(tmp_path: Path) -> None:
    directory, _ = made(str(tmp_path), "gone")
    assert bash(launch_text(directory)).returncode == ShellExit.BAD_BOOTSTRAP
    assert bash(expire_text(directory)).returncode == ShellExit.CANNOT_WRITE
    assert list(tmp_path.iterdir()) == []


def test_a_removal_that_fails_says_so_and_leaves_the_retired_path(tmp_path: Path) -> None:
    """`rm` is replaced by a program that fails: even root's own would."""
    directory, path = made(str(tmp_path), "s")
    ready(path)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "rm").write_text("#!/bin/bash\nexit 1\n")
    (tmp_path / "tools" / "rm").chmod(0o755)
    failing = f"PATH='{tmp_path}/tools':$PATH\n" + remove_text(directory)
    assert bash(failing).returncode == ShellExit.CANNOT_WRITE
    assert not path.exists()
    assert (tmp_path / "s.retired.0").is_dir()
    ready(path)
    assert bash(failing).returncode == ShellExit.CANNOT_WRITE
    assert (tmp_path / "s.retired.1").is_dir()
    assert bash(remove_text(directory)).returncode == 0
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["tools"]


@pytest.mark.parametrize("path", ["", "/", "//", "relative", "./x", "-n", "/a/../b", "/a/.", "/..", "/a\0b"])
def test_what_a_removal_must_not_hit_is_no_session_directory(path: str) -> None:
    refused = session_directory(path)
    assert not is_successful(refused)
    assert repr(path) in refused.failure()


@pytest.mark.parametrize(
    ("path", "kept"), [("/a/b/", "/a/b"), ("/a b", "/a b"), ("/...", "/..."), ("/-n", "/-n")]
)
def test_a_session_directory_is_an_absolute_path(path: str, kept: str) -> None:
    assert session_directory(path).unwrap() == kept
