"""Many installers at once, a lock that is held, and installers that are stopped."""

from __future__ import annotations

import fcntl
import signal
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from clinebox.adapters.runtime.in_sandbox.exits import InstallExit

if TYPE_CHECKING:
    from conftest import Gates, Installer

INSTALLERS = 20
PROBE = """
seen=0 missing=0 runs=0
until [[ -e $1.stop ]]; do
  if [ -x "$1/cline" ] && [ -e "$1/ready" ] && [[ $("$1/cline" --version) == 9.9.9 ]]; then
    seen=1 runs=$((runs + 1))
    : > "$1.probed"
  elif ((seen)); then
    missing=$((missing + 1))
  fi
done
echo "$seen $missing $runs"
"""


def probed_while(installer: Installer, install: Callable[[], None]) -> tuple[int, int, int]:
    """Whether a probe in a busy loop saw the runtime, how often it missed it after that, how often it ran."""
    probe = subprocess.Popen(
        ["/bin/bash", "-c", PROBE, "probe", installer.target], stdout=subprocess.PIPE, text=True
    )
    try:
        install()
        installer.wait_for(installer.target.with_name(installer.target.name + ".probed").exists)
    finally:
        installer.target.with_name(installer.target.name + ".stop").touch()
        told = probe.communicate(timeout=60)[0]
    seen, missing, runs = map(int, told.split())
    return seen, missing, runs


@pytest.mark.parametrize("stale", [True, False])
def test_a_probe_never_finds_a_published_runtime_missing(installer: Installer, *, stale: bool) -> None:
    if stale:
        installer.make_stale()

    def install_at_once() -> None:
        running = [installer.start() for _ in range(INSTALLERS)]
        answers = [installer.ended(each) for each in running]
        assert [code for code, _, _ in answers] == [0] * INSTALLERS, answers
        assert [out for _, out, _ in answers].count(f"installed {installer.binary}\n") == 1

    seen, missing, runs = probed_while(installer, install_at_once)
    assert (seen, missing) == (1, 0)
    assert runs > 0
    installer.assert_published()


def test_without_flock_one_of_many_installs_and_none_is_removed(installer: Installer) -> None:
    installer.without("flock")

    def install_at_once() -> None:
        answers = [installer.ended(each) for each in [installer.start() for _ in range(INSTALLERS // 2)]]
        assert [code for code, _, _ in answers] == [0] * (INSTALLERS // 2), answers
        assert [out for _, out, _ in answers].count(f"installed {installer.binary}\n") == 1

    assert probed_while(installer, install_at_once)[:2] == (1, 0)
    installer.assert_published()


def test_a_lock_that_is_held_too_long_is_told_and_the_stale_runtime_stays(installer: Installer) -> None:
    installer.make_stale()
    installer.workshop.mkdir(mode=0o700)
    with (installer.workshop / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, log = installer.run(lock_wait_s="1")
        assert code == InstallExit.LOCK_HELD
        assert "another installer holds" in log
        assert [each.name for each in installer.target.iterdir()] == ["cline"]
    assert installer.run()[0] == 0
    installer.assert_published()


def test_a_lock_that_is_held_past_the_deadline_is_told_as_a_timeout(installer: Installer) -> None:
    installer.workshop.mkdir(mode=0o700)
    with (installer.workshop / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, log = installer.run(timeout_s="1")
        assert code == InstallExit.TIMED_OUT
        assert "timeout_s=1 is over, and another installer holds" in log


def test_a_runtime_that_was_published_while_waiting_for_the_lock_is_kept(
    installer: Installer, gates: Gates
) -> None:
    installer.make_stale()
    installer.workshop.mkdir(mode=0o700)
    with (installer.workshop / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = gates.start("A")
        assert not gates.ended_or_waiting("A", waiting)
        assert [each.name for each in installer.target.iterdir()] == ["cline"]
        installer.binary.unlink()
        installer.publish_by_hand()
        published = installer.binary.stat().st_ino
    assert installer.ended(waiting)[:2] == (0, f"reused {installer.binary}\n")
    assert installer.binary.stat().st_ino == published
    assert installer.registry.paths == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_download_too_and_leaves_nothing(
    installer: Installer, gates: Gates, number: signal.Signals, code: int
) -> None:
    installer.registry.does = "hang"
    running = gates.start("A")
    installer.wait_for(lambda: installer.registry.paths)
    running.send_signal(number)
    found, out, log = installer.ended(running)
    assert (found, out) == (code, "")
    assert log.splitlines()[-1] == "install_cline_runtime: stopped by a signal"
    gates.orphans_end(running)
    installer.assert_nothing_published()
