"""From start to stop: nothing is left, whoever stops it, whenever, and however the controller ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import pytest
from returns.pipeline import is_successful

from clinebox.adapters.sandboxes.local import LocalSandboxProvider
from clinebox.adapters.sandboxes.process_table import Process, find_tree, living_processes
from clinebox.domain.ports import Command, NetworkMode, SandboxSpec, SandboxTrouble

if TYPE_CHECKING:
    from tests.adapters.sandboxes.conftest import Start, Until

    from clinebox.adapters.sandboxes.local import ContainmentChoice

BOUND_S = 30.0
HERE = Path(__file__).parent
DAEMONS = (
    "setsid bash -c 'trap \"\" TERM INT HUP; while :; do sleep 100; done' >/dev/null 2>&1 & "
    "(setsid sleep 1000 >/dev/null 2>&1 &); sleep 1000 & sleep 0.2; echo up"
)


def roots() -> set[Path]:
    return set(Path("/tmp").glob("cbx-*"))


def controller(
    *arguments: str, env: dict[str, str] | None = None, before: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    argv = [*before, sys.executable, str(HERE / "controller_program.py"), *arguments]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)


def said(process: subprocess.Popen[bytes]) -> dict[str, object]:
    line = cast("IO[bytes]", process.stdout).readline()
    return cast("dict[str, object]", json.loads(line))


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def living() -> Callable[[str], list[Process]]:
    return lambda sandbox_id: find_tree(markers=(f"CLINEBOX_EXEC={sandbox_id}.".encode(),))


def test_stop_ends_everything_and_removes_the_root(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> None:
        async with start(containment, workdir) as sandbox:  # its end looks for what lives
            script = f"{DAEMONS}; mkdir -p ~/d/e; touch ~/d/e/f; chmod 000 ~/d/e ~/d"
            assert is_successful(await sandbox.exec(Command(("bash", "-c", script)), timeout_s=BOUND_S))

    asyncio.run(scenario())


@pytest.mark.parametrize("has_groups", [True, False])
def test_what_hides_its_marker_is_ended_too(
    until: Until, containment: ContainmentChoice, workdir: Path, *, has_groups: bool
) -> None:
    own = f"1000.{os.getpid()}"  # the duration names this test's processes: another worker runs the same
    script = f"setsid env -i sleep {own} >/dev/null 2>&1 & env -i sleep {own} >/dev/null 2>&1 & echo $$"
    provider = (
        LocalSandboxProvider(containment)
        if has_groups
        else LocalSandboxProvider(containment, cgroup_root=None)
    )

    async def scenario() -> bool:
        sandbox = (await provider.start(SandboxSpec(str(workdir)), timeout_s=BOUND_S)).unwrap()
        assert is_successful(await sandbox.exec(Command(("bash", "-c", script)), timeout_s=BOUND_S))
        await until(lambda: len(running(("sleep", own))) == 2, "both run")
        usage = (await sandbox.resource_usage(timeout_s=BOUND_S)).unwrap()
        assert is_successful(await sandbox.stop(timeout_s=BOUND_S))
        return usage.cpu_s is not None

    has_a_group = asyncio.run(scenario())
    left = running(("sleep", own))
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    # A limit of plain without a control group, documented: a new session, an empty environment and a dead
    # parent leave no trace.
    assert len(left) == (1 if containment == "plain" and not has_a_group else 0)


def running(argv: tuple[str, ...]) -> list[int]:
    wanted = "".join(f"{word}\0" for word in argv).encode()
    return [pid for pid in living_processes() if command_line(pid) == wanted]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_stop_twice_and_at_once_is_one_stop(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> list[bool]:
        async with start(containment, workdir) as sandbox:
            results = await asyncio.gather(*(sandbox.stop(timeout_s=BOUND_S) for _ in range(4)))
            return [is_successful(each) for each in (*results, await sandbox.stop(timeout_s=BOUND_S))]

    assert asyncio.run(scenario()) == [True] * 5


def test_a_stopped_sandbox_answers_lost(start: Start, containment: ContainmentChoice, workdir: Path) -> None:
    async def scenario() -> list[SandboxTrouble]:
        async with start(containment, workdir) as sandbox:
            await sandbox.stop(timeout_s=BOUND_S)
            return [
                (await sandbox.exec(Command(("true",)), timeout_s=BOUND_S)).failure().trouble,
                (await sandbox.upload(f"{workdir}/x", b"", timeout_s=BOUND_S)).failure().trouble,
                (await sandbox.download(f"{workdir}/x", limit_bytes=1, timeout_s=BOUND_S)).failure().trouble,
            ]

    assert asyncio.run(scenario()) == [SandboxTrouble.LOST] * 3


def test_execs_that_run_when_it_is_stopped_end_as_lost(
    start: Start, until: Until, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> list[SandboxTrouble]:
        async with start(containment, workdir) as sandbox:
            script = "touch started.$$; trap '' TERM; while :; do sleep 100; done"
            command = Command(("bash", "-c", script))
            running = [asyncio.create_task(sandbox.exec(command, timeout_s=BOUND_S)) for _ in range(3)]
            await until(lambda: len(list(workdir.glob("started.*"))) == 3, "all three run")
            assert is_successful(await sandbox.stop(timeout_s=BOUND_S))
            return [(await each).failure().trouble for each in running]

    assert asyncio.run(scenario()) == [SandboxTrouble.LOST] * 3


def test_a_stop_that_is_cancelled_is_carried_out_all_the_same(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> bool:
        async with start(containment, workdir) as sandbox:
            await sandbox.exec(Command(("bash", "-c", DAEMONS)), timeout_s=BOUND_S)
            task = asyncio.create_task(sandbox.stop(timeout_s=BOUND_S))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return sandbox.root.path.exists()

    assert asyncio.run(scenario()) is False


def test_a_namespace_whose_first_process_died_answers_lost(
    start: Start, namespaces: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> tuple[SandboxTrouble, str]:
        async with start(namespaces, workdir) as sandbox:
            assert sandbox.jail is not None
            slow = asyncio.create_task(sandbox.exec(Command(("sleep", "1000")), timeout_s=BOUND_S))
            await sandbox.exec(Command(("true",)), timeout_s=BOUND_S)
            os.kill(sandbox.jail.init.pid, signal.SIGKILL)
            assert (await slow).failure().trouble is SandboxTrouble.LOST
            failure = (await sandbox.exec(Command(("true",)), timeout_s=BOUND_S)).failure()
            return failure.trouble, failure.message

    trouble, message = asyncio.run(scenario())
    assert trouble is SandboxTrouble.LOST
    assert "died" in message


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 21])
def test_a_start_that_is_cancelled_half_way_leaves_nothing(
    containment: ContainmentChoice, workdir: Path, tmp_path: Path, turns: int
) -> None:
    own_temporary = tmp_path / "t"
    own_temporary.mkdir()

    async def scenario() -> None:
        spec = SandboxSpec(workdir=str(workdir))
        task = asyncio.create_task(
            LocalSandboxProvider(containment, private_base=own_temporary).start(spec, timeout_s=BOUND_S)
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        try:
            sandbox = (await task).unwrap()
        except asyncio.CancelledError:
            return
        await sandbox.stop(timeout_s=BOUND_S)

    asyncio.run(scenario())
    assert list(own_temporary.iterdir()) == []
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_start_past_its_time_is_timed_out_and_leaves_nothing(
    namespaces: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> SandboxTrouble:
        spec = SandboxSpec(workdir=str(workdir))
        return (await LocalSandboxProvider(namespaces).start(spec, timeout_s=0.0)).failure().trouble

    assert asyncio.run(scenario()) is SandboxTrouble.TIMED_OUT
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_killed_controllers_namespaces_end_with_it(
    namespaces: ContainmentChoice, workdir: Path, living: Callable[[str], list[Process]], until: Until
) -> None:
    with controller(namespaces, str(workdir), DAEMONS) as process:
        sandbox_id = str(said(process)["id"])
        assert said(process)["stdout"] == "up\n"
        assert len(living(sandbox_id)) > 3
        process.kill()
        asyncio.run(until(lambda: living(sandbox_id) == [], "nothing of it lives"))


def test_the_next_start_removes_what_a_killed_controller_left(
    start: Start,
    containment: ContainmentChoice,
    workdir: Path,
    living: Callable[[str], list[Process]],
    until: Until,
) -> None:
    with controller(containment, str(workdir), DAEMONS) as process:
        sandbox_id = str(said(process)["id"])
        assert said(process)["stdout"] == "up\n"
        process.kill()

    async def scenario() -> None:
        async with start("plain", workdir):
            await until(lambda: not Path("/tmp", sandbox_id).exists(), "its root is gone")

    asyncio.run(scenario())
    assert living(sandbox_id) == []


def test_a_living_controllers_sandbox_is_not_touched_by_another_start(
    start: Start, containment: ContainmentChoice, workdir: Path, living: Callable[[str], list[Process]]
) -> None:
    async def another() -> None:
        async with start("plain", workdir):
            pass

    with controller(containment, str(workdir), DAEMONS) as process:
        sandbox_id = str(said(process)["id"])
        assert said(process)["stdout"] == "up\n"
        said(process)
        asyncio.run(another())
        assert Path("/tmp", sandbox_id, "s").is_dir()
        assert living(sandbox_id) != []
        cast("IO[bytes]", process.stdin).close()
        assert said(process) == {"stop": "<Success: None>", "root": False}
    assert living(sandbox_id) == []


def test_eight_at_once_start_work_and_stop(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def one(number: int) -> bytes:
        async with start(containment, workdir) as sandbox:
            script = f"echo {number} >~/mine; sleep 1000 & sleep 0.1; cat ~/mine"
            result = await sandbox.exec(Command(("bash", "-c", script)), timeout_s=BOUND_S)
            return result.unwrap().stdout

    async def scenario() -> list[bytes]:
        return await asyncio.gather(*(one(number) for number in range(8)))

    assert asyncio.run(scenario()) == [b"%d\n" % number for number in range(8)]


def test_no_descriptor_is_left_by_many_sandboxes(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> list[int]:
        counts = []
        for _ in range(3):
            async with start(containment, workdir) as sandbox:
                await sandbox.exec(Command(("true",)), timeout_s=BOUND_S)
            counts.append(open_descriptors())
        return counts

    counts = asyncio.run(scenario())
    assert counts[0] == counts[1] == counts[2]


def test_a_full_disk_is_told_apart(workdir: Path) -> None:
    # A file system of 1 MiB in a mount namespace of the controller's own: it vanishes with it.
    mount = f'mount -t tmpfs -o size=1m none {workdir} && exec "$@"'
    user = ("--map-root-user",) if os.geteuid() else ()
    with controller(
        "plain", str(workdir), "true", before=("unshare", "--mount", *user, "bash", "-c", mount, "bash")
    ) as process:
        said(process)
        said(process)
        assert "disk_full" in str(said(process)["upload"])
        process.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="is an ordinary user already")
def test_an_ordinary_user_gets_the_same(
    containment: ContainmentChoice,
    tmp_path_factory: pytest.TempPathFactory,
    living: Callable[[str], list[Process]],
) -> None:
    base = Path("/tmp", f"nobody-{os.getpid()}-{containment}")
    base.mkdir()
    try:
        os.chown(base, 65_534, 65_534)
        script = (
            "id -u; touch made; mkdir -p ~/d/e; chmod 000 ~/d/e ~/d; (setsid sleep 1000 >/dev/null 2>&1 &); "
            "grep -o 'CapEff.*' /proc/self/status"
        )
        with controller(containment, str(base), script, "drop") as process:
            first = said(process)
            assert first["containment"] == containment
            assert said(process) == {
                "exit_code": 0,
                "stdout": "65534\nCapEff:\t0000000000000000\n",
                "stderr": "",
            }
            assert said(process) == {"upload": "<Success: None>"}
            cast("IO[bytes]", process.stdin).close()
            assert said(process) == {"stop": "<Success: None>", "root": False}
        assert living(str(first["id"])) == []
        assert (base / "made").stat().st_uid == 65_534
    finally:
        subprocess.run(["rm", "-rf", str(base)], check=True)


def test_no_containment_that_can_do_it_is_told_with_the_reason(workdir: Path) -> None:
    async def scenario() -> tuple[SandboxTrouble, str]:
        spec = SandboxSpec(workdir=str(workdir), network=NetworkMode.NONE)
        failure = (await LocalSandboxProvider("plain").start(spec, timeout_s=BOUND_S)).failure()
        return failure.trouble, failure.message

    trouble, message = asyncio.run(scenario())
    assert trouble is SandboxTrouble.UNAVAILABLE
    assert "plain was not used: it cannot cut the network off" in message
