"""Control groups: what a sandbox may use and used; and that the way into one changes no variable."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from returns.pipeline import is_successful

from clinebox.adapters.sandboxes.cgroup import existing_cgroup, make_cgroup
from clinebox.adapters.sandboxes.local import ContainmentChoice, LocalSandboxProvider
from clinebox.domain.ports import Command, Resources, SandboxSpec

BOUND_S = 30.0
ODD = {"a.b": "1", "1x": "2", "IFS": "x", "OPTIND": "7", "PWD": "/odd", "BASH_FUNC_f%%": "() { :; }"}


def test_any_variable_arrives_as_it_was_given(containment: ContainmentChoice, workdir: Path) -> None:
    async def scenario() -> bytes:
        sandbox = (
            await LocalSandboxProvider(containment).start(SandboxSpec(str(workdir)), timeout_s=BOUND_S)
        ).unwrap()
        done = await sandbox.exec(Command(("env", "-0"), env=ODD), timeout_s=BOUND_S)
        assert is_successful(await sandbox.stop(timeout_s=BOUND_S))
        return done.unwrap().stdout

    said = asyncio.run(scenario()).decode().split("\0")
    assert {f"{name}={value}" for name, value in ODD.items()} <= set(said)


def test_no_variable_comes_from_the_way_into_the_group(containment: ContainmentChoice, workdir: Path) -> None:
    async def names(cgroup_root: Path | None) -> set[str]:
        provider = LocalSandboxProvider(containment, cgroup_root=cgroup_root)
        sandbox = (await provider.start(SandboxSpec(str(workdir)), timeout_s=BOUND_S)).unwrap()
        done = await sandbox.exec(Command(("env",)), timeout_s=BOUND_S)
        assert is_successful(await sandbox.stop(timeout_s=BOUND_S))
        return {line.partition("=")[0] for line in done.unwrap().stdout.decode().splitlines()}

    assert asyncio.run(names(Path("/sys/fs/cgroup"))) == asyncio.run(names(None))


def test_a_limit_that_nothing_enforces_is_said_in_the_note(workdir: Path) -> None:
    async def scenario() -> str:
        provider = LocalSandboxProvider("plain", cgroup_root=None)
        limits = Resources(memory_bytes=1 << 30, pids=100, disk_bytes=1 << 30)
        sandbox = (
            await provider.start(SandboxSpec(str(workdir), resources=limits), timeout_s=BOUND_S)
        ).unwrap()
        assert is_successful(await sandbox.stop(timeout_s=BOUND_S))
        return sandbox.description.note

    assert "not enforced here: memory_bytes, pids, disk_bytes" in asyncio.run(scenario())


def version_2_tree(top: Path, handed: str) -> Path:
    """A tree as the kernel shows it: this process is in /a/b, and /a hands controllers down."""
    own = top / "a" / "b"
    own.mkdir(parents=True)
    for directory in (top, top / "a", own):
        (directory / "cgroup.procs").write_text("")
        (directory / "cgroup.subtree_control").write_text("")
    (top / "cgroup.controllers").write_text("cpu memory pids")
    (top / "a" / "cgroup.subtree_control").write_text(handed)
    where = top / "own"
    where.write_text("0::/a/b\n")
    return where


def test_version_2_takes_the_nearest_group_that_hands_controllers_down(tmp_path: Path) -> None:
    own = version_2_tree(tmp_path, "memory pids")
    (tmp_path / "a" / "cbx-1").mkdir()
    for name in ("cgroup.procs", "memory.max", "memory.swap.max", "pids.max"):
        (tmp_path / "a" / "cbx-1" / name).write_text("")
    made = make_cgroup("cbx-1", Resources(memory_bytes=1 << 30, pids=9, cpu_cores=1), tmp_path, own)
    place = tmp_path / "a" / "cbx-1"
    assert made.directories == {"memory": place, "pids": place}
    assert [(place / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max")] == [
        str(1 << 30),
        "0",
        "9",
    ]
    assert made.unenforced(Resources(memory_bytes=1 << 30, cpu_cores=1)) == ("cpu_cores",)


def test_version_2_that_hands_nothing_down_gives_no_group(tmp_path: Path) -> None:
    own = version_2_tree(tmp_path, "")
    assert make_cgroup("cbx-1", Resources(), tmp_path, own).directories == {}
    assert not list(tmp_path.rglob("cbx-1"))


def test_a_version_2_groups_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("12\n7\n")
    (tmp_path / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (tmp_path / "memory.peak").write_text("4096\n")
    (tmp_path / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    group = existing_cgroup({"memory": str(tmp_path), "cpu": str(tmp_path), "odd": "/etc"})
    assert (group.members(), group.oom_kills()) == (frozenset({12, 7}), 2)
    assert (group.usage().cpu_s, group.usage().peak_memory_bytes) == (1.5, 4096)


@pytest.mark.parametrize("directories", [{}, {"memory": "/no/such"}, {"memory": "/etc"}])
def test_a_record_of_no_group_is_none(directories: dict[str, str]) -> None:
    group = existing_cgroup(directories)
    assert (group.entry(), group.members(), group.oom_kills()) == ((), frozenset(), 0)
