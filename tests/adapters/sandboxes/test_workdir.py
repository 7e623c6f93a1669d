"""The checks of a work directory, each with its sentence, and the copy of one."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.adapters.sandboxes.local import LocalSandboxProvider
from clinebox.adapters.sandboxes.workdir import checked_workdir, copy_of_workdir
from clinebox.domain.ports import SandboxFailure, SandboxSpec, SandboxTrouble

if TYPE_CHECKING:
    from clinebox.adapters.sandboxes.local import ContainmentChoice


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base"
    path.mkdir()
    return path


def refusal(workdir: str | Path, base: Path) -> SandboxFailure:
    return checked_workdir(str(workdir), base).failure()


def test_a_good_directory_is_resolved(tmp_path: Path, base: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert checked_workdir(f"{tmp_path}/link/../real/.", base).unwrap() == tmp_path / "real"


@pytest.mark.parametrize("workdir", ["", ".", "relative/dir", "~", "/with\0nul"])
def test_a_path_that_is_not_absolute_is_refused(workdir: str, base: Path) -> None:
    assert "absolute" in refusal(workdir, base).message


def test_a_missing_directory_is_refused_with_what_to_do(tmp_path: Path, base: Path) -> None:
    message = refusal(tmp_path / "no", base).message
    assert (
        message
        == f"The work directory {tmp_path}/no cannot be reached: No such file or directory. Create it first."
    )


def test_a_loop_of_links_is_refused(tmp_path: Path, base: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert "symbolic links" in refusal(tmp_path / "loop", base).message.lower()


def test_a_file_is_refused(tmp_path: Path, base: Path) -> None:
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file", base).message.endswith("is not a directory.")
    assert "Not a directory" in refusal(tmp_path / "file" / "below", base).message


def test_a_name_too_long_for_the_kernel_is_refused(tmp_path: Path, base: Path) -> None:
    assert "too long" in refusal(tmp_path / ("x" * 300), base).message


def test_a_directory_that_the_kernel_gives_no_access_to_is_refused(tmp_path: Path, base: Path) -> None:
    # A read-only file system, in a mount namespace of its own: root's rights do not pass it over.
    (tmp_path / "task").mkdir()
    check = (
        "import pathlib, sys; from clinebox.adapters.sandboxes.workdir import checked_workdir as check; "
        "print(check(sys.argv[1], pathlib.Path(sys.argv[2])).failure().message)"
    )
    mount = 'mount -t tmpfs -o ro none "$4" && exec "$@"'
    namespace = [
        "unshare",
        "--mount",
        *([] if os.geteuid() == 0 else ["--map-root-user"]),
        "bash",
        "-c",
        mount,
    ]
    program = [sys.executable, "-c", check, str(tmp_path / "task"), str(base)]
    done = subprocess.run([*namespace, "bash", *program], check=True, capture_output=True, text=True)
    assert done.stdout == f"The work directory {tmp_path}/task is not readable and writable for this user.\n"


def test_a_directory_that_holds_the_private_roots_is_refused(tmp_path: Path, base: Path) -> None:
    assert str(base) in refusal(tmp_path, base).message
    assert str(base) in refusal(base, base).message
    assert "Use a directory below" in refusal("/", base).message


def test_a_directory_in_a_private_root_is_refused(base: Path) -> None:
    (base / "cbx-0123456789ab" / "s").mkdir(parents=True)
    assert "private directory" in refusal(base / "cbx-0123456789ab" / "s", base).message


def test_a_refused_directory_starts_nothing(
    containment: ContainmentChoice, tmp_path: Path, base: Path
) -> None:
    async def scenario() -> SandboxTrouble:
        provider = LocalSandboxProvider(containment, private_base=base)
        return (await provider.start(SandboxSpec(workdir=f"{tmp_path}/no"), timeout_s=30)).failure().trouble

    assert asyncio.run(scenario()) is SandboxTrouble.BAD_REQUEST
    assert list(base.iterdir()) == []


@given(st.text(st.characters(), max_size=60))
def test_no_text_makes_the_check_raise(text: str) -> None:
    """Law: a path that is no existing directory is a Failure with a printable sentence."""
    refused = refusal(f"/no-such-directory/{text}", Path("/tmp/base"))
    assert refused.trouble is SandboxTrouble.BAD_REQUEST
    assert refused.message.encode()


def test_a_copy_keeps_contents_modes_and_symlinks(tmp_path: Path) -> None:
    source = tmp_path / "task"
    (source / "d" / "empty").mkdir(parents=True)
    (source / "d" / "run").write_text("#!/bin/sh")
    (source / "d" / "run").chmod(0o751)
    (source / "inside").symlink_to("d/run")
    (source / "outside").symlink_to("/etc/passwd")
    (source / "dangling").symlink_to("nowhere")
    copy = copy_of_workdir(source, tmp_path / "out").unwrap()
    assert copy.path == tmp_path / "out" / "task"
    assert copy.skipped == ()
    assert (copy.path / "d" / "run").stat().st_mode & 0o777 == 0o751
    assert (copy.path / "d" / "empty").is_dir()
    links = {name: str((copy.path / name).readlink()) for name in ("inside", "outside", "dangling")}
    assert links == {"inside": "d/run", "outside": "/etc/passwd", "dangling": "nowhere"}


def test_what_is_no_file_is_left_out_and_named(tmp_path: Path) -> None:
    source = tmp_path / "task"
    (source / "d").mkdir(parents=True)
    (source / "file").write_text("kept")
    os.mkfifo(source / "d" / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(source / "sock"))
        copy = copy_of_workdir(source, tmp_path / "out").unwrap()
    assert sorted(copy.skipped) == ["d/pipe", "sock"]
    assert sorted(path.name for path in copy.path.rglob("*")) == ["d", "file"]


def test_a_change_of_the_copy_leaves_the_source_alone(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "file").write_text("old")
    copy = copy_of_workdir(tmp_path / "task", tmp_path / "out").unwrap()
    (copy.path / "file").write_text("new")
    assert (tmp_path / "task" / "file").read_text() == "old"


def test_a_copy_into_the_source_or_over_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "out" / "task").mkdir(parents=True)
    inside = copy_of_workdir(tmp_path / "task", tmp_path / "task" / "sub").failure()
    over = copy_of_workdir(tmp_path / "task", tmp_path / "out").failure()
    assert {inside.trouble, over.trouble} == {SandboxTrouble.BAD_REQUEST}
    assert "inside" in inside.message
    assert "already" in over.message


def test_a_copy_of_nothing_leaves_nothing(tmp_path: Path) -> None:
    failure = copy_of_workdir(tmp_path / "no", tmp_path / "out").failure()
    assert "No such file" in failure.message
    assert not (tmp_path / "out" / "no").exists()
