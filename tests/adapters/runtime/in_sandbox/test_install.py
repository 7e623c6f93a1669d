"""What a single installer does with an ordinary sandbox, and with an ordinary fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clinebox.adapters.runtime.in_sandbox.exits import InstallExit

if TYPE_CHECKING:
    from conftest import Installer


def test_a_cold_install_publishes_the_binary_and_a_second_one_downloads_nothing(installer: Installer) -> None:
    assert installer.run()[:2] == (0, f"installed {installer.binary}\n")
    installer.assert_published()
    assert installer.run()[:2] == (0, f"reused {installer.binary}\n")
    assert installer.registry.paths == ["/@cline/cli-linux-x64/-/cli-linux-x64-9.9.9.tgz"]
    assert oct(installer.target.stat().st_mode) == "0o40755"
    assert oct(installer.binary.stat().st_mode) == "0o100555"


@pytest.mark.parametrize("left", ["curl", "wget"])
def test_curl_or_wget_is_enough(installer: Installer, left: str) -> None:
    installer.without({"curl": "wget", "wget": "curl"}[left])
    assert installer.run()[0] == 0
    installer.assert_published()


def test_without_flock_a_cold_install_and_reuse_work(installer: Installer) -> None:
    installer.without("flock")
    assert installer.run()[:2] == (0, f"installed {installer.binary}\n")
    installer.assert_published()
    assert installer.run()[:2] == (0, f"reused {installer.binary}\n")


def test_without_flock_a_stale_runtime_is_refused_and_left_as_it_is(installer: Installer) -> None:
    installer.without("flock")
    installer.make_stale()
    code, out, log = installer.run()
    assert (code, out) == (InstallExit.STALE, "")
    assert "without flock it may be another session's" in log
    assert [each.name for each in installer.target.iterdir()] == ["cline"]
    assert installer.registry.paths == []


def test_a_stale_partial_runtime_is_replaced(installer: Installer) -> None:
    installer.make_stale()
    assert installer.run()[:2] == (0, f"installed {installer.binary}\n")
    installer.assert_published()
