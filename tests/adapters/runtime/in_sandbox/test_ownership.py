"""What another user put there is neither trusted nor followed nor removed."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from clinebox.adapters.runtime.in_sandbox.exits import InstallExit

if TYPE_CHECKING:
    from conftest import Installer

NOBODY = 65534
OTHER = 65533


def refused(installer: Installer, code: InstallExit, sentence: str) -> None:
    found, out, log = installer.run()
    assert (found, out) == (code, ""), log
    assert sentence in log.splitlines()[-1]
    assert installer.registry.paths == []


@pytest.fixture
def ready(shared: Installer) -> Installer:
    """A published runtime."""
    assert shared.run()[0] == 0
    shared.registry.paths.clear()
    return shared


def test_a_runtime_of_root_is_reused_by_an_ordinary_user(ready: Installer) -> None:
    ready.as_user(NOBODY)
    assert ready.run()[:2] == (0, f"reused {ready.binary}\n")
    assert ready.registry.paths == []


def test_an_ordinary_user_installs_for_itself(shared: Installer) -> None:
    shared.as_user(NOBODY)
    assert shared.run()[0] == 0
    assert shared.binary.stat().st_uid == NOBODY
    assert shared.run()[:2] == (0, f"reused {shared.binary}\n")


@pytest.mark.parametrize("uid", [NOBODY, 0])
def test_a_whole_runtime_of_another_user_is_not_trusted_not_even_by_root(ready: Installer, uid: int) -> None:
    for path in (ready.target, *ready.target.iterdir()):
        os.chown(path, OTHER, OTHER)
    ready.as_user(uid)
    refused(ready, InstallExit.NOT_OURS, f"is no directory of uid {uid}")
    assert ready.has_published()


@pytest.mark.parametrize("inner", ["cline", "ready"])
def test_a_runtime_with_a_file_of_another_user_is_replaced(ready: Installer, inner: str) -> None:
    os.chown(ready.target / inner, OTHER, OTHER)
    assert ready.run()[:2] == (0, f"installed {ready.binary}\n")
    assert (ready.target / inner).stat().st_uid == 0


@pytest.mark.parametrize(("inner", "mode"), [("", 0o775), ("", 0o757), ("cline", 0o575), ("ready", 0o666)])
def test_a_runtime_that_others_may_write_is_replaced(ready: Installer, inner: str, mode: int) -> None:
    (ready.target / inner).chmod(mode)
    assert ready.run()[:2] == (0, f"installed {ready.binary}\n")


def test_a_link_at_the_target_is_not_followed(ready: Installer) -> None:
    elsewhere = ready.home / "box" / "elsewhere"
    ready.target.rename(elsewhere)
    ready.target.symlink_to(elsewhere)
    os.chown(ready.target, OTHER, OTHER, follow_symlinks=False)
    refused(ready, InstallExit.NOT_OURS, "is no directory of uid 0")
    assert ready.target.is_symlink()
    assert (elsewhere / "ready").exists()


def test_a_dangling_link_and_a_file_at_the_target_are_refused(shared: Installer) -> None:
    shared.target.symlink_to("/nowhere/at/all")
    refused(shared, InstallExit.NOT_OURS, "is no directory of uid 0")
    shared.target.unlink()
    shared.target.write_text("")
    refused(shared, InstallExit.NOT_OURS, "is no directory of uid 0")


def test_a_link_in_the_place_of_the_binary_is_not_trusted(ready: Installer) -> None:
    copy = ready.home / "box" / "copy"
    shutil.copy(ready.binary, copy)
    ready.binary.unlink()
    ready.binary.symlink_to(copy)
    assert ready.run()[:2] == (0, f"installed {ready.binary}\n")
    assert not ready.binary.is_symlink()
    assert copy.exists()


@pytest.mark.parametrize("what", ["link", "directory", "open directory", "pipe"])
def test_a_place_for_staging_that_another_user_prepared_is_not_used(shared: Installer, what: str) -> None:
    elsewhere = shared.home / "elsewhere"
    elsewhere.mkdir()
    match what:
        case "link":
            shared.workshop.symlink_to(elsewhere)
        case "pipe":
            os.mkfifo(shared.workshop)
        case _:
            shared.workshop.mkdir(mode=0o700)
    if what == "open directory":
        shared.workshop.chmod(0o777)
    else:
        os.chown(shared.workshop, OTHER, OTHER, follow_symlinks=False)
    refused(shared, InstallExit.NOT_OURS, "is no private directory of uid 0")
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"sha512=0 bytes=1\n", b"\xff\x00\n", b"x" * 100_000])
def test_a_mark_that_does_not_name_this_digest_and_size_makes_it_stale(
    ready: Installer, content: bytes
) -> None:
    (ready.target / "ready").write_bytes(content)
    assert ready.run()[:2] == (0, f"installed {ready.binary}\n")


def test_a_binary_that_a_full_disk_cut_is_stale(ready: Installer) -> None:
    ready.binary.chmod(0o755)
    os.truncate(ready.binary, 5)
    assert ready.run()[:2] == (0, f"installed {ready.binary}\n")


def test_a_binary_that_may_not_be_executed_is_stale(ready: Installer) -> None:
    ready.binary.chmod(0o444)
    assert ready.run()[:2] == (0, f"installed {ready.binary}\n")
