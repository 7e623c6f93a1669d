"""Two installers over a stale runtime: whatever the order of their steps, and whoever is killed at which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Gates, Installer

BEFORE = ("uname.1", *(f"ls.{n}" for n in range(1, 4)), "mkdir.1", "flock.1", "mkdir.2", "flock.2")
DOWNLOAD = (
    *(f"ls.{n}" for n in range(4, 7)),
    "curl.1",
    "sha512sum.1",
    "gzip.1",
    "tar.1",
    "chmod.1",
    "ls.7",
    "rm.1",
)
PUBLICATION = ("flock.3", *(f"ls.{n}" for n in range(8, 11)), "mkdir.3", "mv.1", "mv.2", "rm.2")
STEPS = (*BEFORE, *DOWNLOAD, *PUBLICATION)
CORE = ("flock.3", "mv.1", "mv.2", "rm.2")
LOOKS = ("uname", "ls")  # steps that change nothing: killed at them only in the full product
EVERY_KILL = [
    pytest.param(each, marks=pytest.mark.full if each.partition(".")[0] in LOOKS else ()) for each in STEPS
]
EVERY_PAIR = [
    pytest.param(a, b, marks=() if a in CORE and b in CORE else pytest.mark.full)
    for a in STEPS
    for b in STEPS
]


def test_the_steps_named_here_are_all_that_an_installer_takes(installer: Installer, gates: Gates) -> None:
    installer.make_stale()
    assert installer.ended(gates.start("A"))[0] == 0
    assert sorted(gates.steps("A")) == sorted(STEPS)


@pytest.mark.parametrize("step", STEPS)
def test_one_stopped_before_a_step_and_another_that_runs_both_succeed(
    installer: Installer, gates: Gates, step: str
) -> None:
    installer.make_stale()
    first = gates.start("A", step)
    assert gates.stopped("A", first)
    second = gates.start("B")
    published = installer.target.stat().st_ino if gates.ended_or_waiting("B", second) else None
    gates.go("A")
    answers = [installer.ended(first), installer.ended(second)]
    assert sorted(out for _, out, _ in answers) == words(installer), answers
    installer.assert_published()
    assert published in (None, installer.target.stat().st_ino), "what B published was replaced"


COLD = ("uname.1", "mkdir.1", "mkdir.2", "curl.1", "tar.1", *(f"ls.{n}" for n in range(1, 5)), "mv.1", "rm.2")


@pytest.mark.parametrize("step", COLD)
@pytest.mark.parametrize("tool", ["flock", "none"])
def test_what_is_published_while_a_cold_installer_stands_before_a_step_is_kept(
    installer: Installer, gates: Gates, step: str, tool: str
) -> None:
    """Without flock, and beside an installer that cannot share the lock, as another user's."""
    installer.without(*({"flock"} - {tool}))
    first = gates.start("A", step)
    assert gates.stopped("A", first)
    published = step == "rm.2"
    if not published:
        installer.target.mkdir()
        installer.publish_by_hand()
    before = installer.target.stat().st_ino
    gates.go("A")
    word = "installed" if published else "reused"
    assert installer.ended(first)[:2] == (0, f"{word} {installer.binary}\n")
    installer.assert_published()
    assert installer.target.stat().st_ino == before


@pytest.mark.parametrize(("a", "b"), EVERY_PAIR)
def test_two_stopped_before_any_two_steps_both_succeed(
    installer: Installer, gates: Gates, a: str, b: str
) -> None:
    installer.make_stale()
    first = gates.start("A", a)
    assert gates.stopped("A", first)
    second = gates.start("B", b)
    gates.wait_for_any("B", second)
    gates.go("A")
    gates.ended_or_waiting("A", first)
    if gates.stopped("B", second):
        gates.go("B")
    answers = [installer.ended(first), installer.ended(second)]
    assert sorted(out for _, out, _ in answers) == words(installer), answers
    installer.assert_published()


@pytest.mark.parametrize("step", EVERY_KILL)
def test_after_a_kill_of_all_of_an_installer_at_a_step_the_next_one_succeeds(
    installer: Installer, gates: Gates, step: str
) -> None:
    installer.make_stale()
    first = gates.start("A", step)
    assert gates.stopped("A", first)
    gates.kill_all(first)
    code, _, log = installer.ended(gates.start("B"))
    assert code == 0, log
    leaves_nothing_of_the_dead(installer)


@pytest.mark.parametrize("step", EVERY_KILL)
def test_after_a_kill_of_the_shell_alone_its_last_step_cannot_undo_what_the_next_one_publishes(
    installer: Installer, gates: Gates, step: str
) -> None:
    """The orphan acts when the next installer has ended, or waits for the lock that the orphan holds."""
    installer.make_stale()
    first = gates.start("A", step)
    assert gates.stopped("A", first)
    first.kill()
    second = gates.start("B")
    gates.ended_or_waiting("B", second)
    gates.go("A")
    code, _, log = installer.ended(second)
    assert code == 0, log
    gates.orphans_end(first)
    assert installer.run()[:2] == (0, f"reused {installer.binary}\n")
    leaves_nothing_of_the_dead(installer)


def words(installer: Installer) -> list[str]:
    return [f"installed {installer.binary}\n", f"reused {installer.binary}\n"]


def leaves_nothing_of_the_dead(installer: Installer) -> None:
    """What a dead installer left is removed by the next one that has something to publish."""
    assert installer.binary.read_bytes().startswith(b"#!/bin/bash")
    (installer.target / "ready").unlink()
    assert installer.run()[:2] == (0, f"installed {installer.binary}\n")
    installer.assert_published()
