"""A session directory that is full, read-only, or gone; and a /proc that hides processes."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from returns.result import Result

from clinebox.adapters.supervisor.client import SupervisorFailure, SupervisorTrouble
from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.ports import Command, ExecResult, Sandbox, SandboxDescription, SandboxFailure
from clinebox.domain.receipt import CleanupReceipt

if TYPE_CHECKING:
    from tests.adapters.supervisor.matrix.conftest import Place, Stage

SMALL_DISK = ("mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", "{base}")
HIDDEN = ("mount", "-t", "proc", "-o", "hidepid=2,gid=61235", "proc", "/proc")
FILL = "(cat /dev/zero > $S/filler) 2> /dev/null; "
GONE = "the session directory was removed while the harness ran"


async def ended_by_itself(place: Place, script: str, **plan: object) -> CleanupReceipt:
    receipt = await place.run(script, **plan)
    await place.nothing_is_left()
    return receipt


async def stopped(place: Place, script: str) -> CleanupReceipt:
    running = await place.start(script)
    await place.made("up")
    (await place.client.request_stop(StoppedBy.CALLER)).unwrap()
    receipt = (await running).receipt
    await place.nothing_is_left()
    return receipt


def test_a_full_disk_takes_the_receipts_file_and_not_the_receipt(play: Stage) -> None:
    """A real disk of 600 KiB, which the agent fills to the last byte."""
    receipt = play.in_private_mounts(
        lambda place: ended_by_itself(place, FILL + "echo more; exit 3"), mount=SMALL_DISK
    )
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.error) == (True, 3, None)


def test_a_deadline_ends_a_run_on_a_full_disk(play: Stage) -> None:
    receipt = play.in_private_mounts(
        lambda place: ended_by_itself(place, FILL + "(setsid $LONG &); $LONG", run_timeout_s=1.5),
        mount=SMALL_DISK,
    )
    assert (receipt.cleanup_confirmed, receipt.stopped_by, receipt.error) == (True, StoppedBy.DEADLINE, None)


def test_a_write_that_fails_for_want_of_space_is_no_lost_receipt(play: Stage) -> None:
    """ENOSPC for the receipt alone, on every engine: /dev/full (full(4)) stands where it is written."""
    receipt = play(lambda place: ended_by_itself(place, "ln -s /dev/full $S/cleanup.json.new; exit 3"))
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.error) == (True, 3, None)


def test_a_read_only_session_directory_is_not_launched_in(play: Stage) -> None:
    async def story(place: Place) -> SupervisorFailure:
        base = str(place.workdir.parent / "base")
        (await place.client.prepare(place.plan("touch", "ran"))).unwrap()
        subprocess.run(["mount", "-o", "remount,ro", base], check=True)  # noqa: ASYNC221 - a mount call is done at once
        failure = (await place.client.run()).failure()
        await place.nothing_is_left()
        subprocess.run(["mount", "-o", "remount,rw", base], check=True)  # noqa: ASYNC221 - a mount call is done at once
        return failure

    failure = play.in_private_mounts(story, mount=SMALL_DISK)
    assert failure.trouble is SupervisorTrouble.NOT_WRITABLE
    assert "the session directory cannot be written" in failure.message
    assert not (play.root / "desk" / "ran").exists()


def test_a_session_directory_without_a_supervisor_in_it_is_not_launched_in(play: Stage) -> None:
    async def story(place: Place) -> SupervisorFailure:
        (await place.client.prepare(place.plan("touch", "ran"))).unwrap()
        await place.inside(f"rm -rf {place.directory}")
        return (await place.client.run()).failure()

    assert play(story).trouble is SupervisorTrouble.BOOTSTRAP
    assert not (play.root / "desk" / "ran").exists()


@pytest.mark.parametrize("fake", ["", "mkdir $S; "], ids=["gone", "replaced"])
def test_a_deleted_session_directory_ends_the_run_and_the_receipt_says_why(play: Stage, fake: str) -> None:
    receipt = play(lambda place: ended_by_itself(place, f"rm -rf $S; {fake}(setsid $LONG &); $LONG"))
    assert (receipt.cleanup_confirmed, receipt.error, receipt.stopped_by) == (True, GONE, None)
    assert receipt.survivors == ()


@dataclass
class WithoutPtrace:
    """A sandbox whose commands have no CAP_SYS_PTRACE: the capability that sees through hidepid (proc(5))."""

    inner: Sandbox

    @property
    def description(self) -> SandboxDescription:
        return self.inner.description

    async def exec(self, command: Command, *, timeout_s: float) -> Result[ExecResult, SandboxFailure]:
        argv = ("setpriv", "--bounding-set", "-sys_ptrace,-sys_admin", "--inh-caps=-all", "--", *command.argv)
        return await self.inner.exec(replace(command, argv=argv), timeout_s=timeout_s)

    async def upload(
        self, path: str, content: bytes, *, mode: int = 0o600, timeout_s: float
    ) -> Result[None, SandboxFailure]:
        return await self.inner.upload(path, content, mode=mode, timeout_s=timeout_s)

    async def download(
        self, path: str, *, offset_bytes: int = 0, limit_bytes: int, timeout_s: float
    ) -> Result[bytes, SandboxFailure]:
        return await self.inner.download(
            path, offset_bytes=offset_bytes, limit_bytes=limit_bytes, timeout_s=timeout_s
        )

    async def stop(self, *, timeout_s: float) -> Result[None, SandboxFailure]:
        return await self.inner.stop(timeout_s=timeout_s)


SEEN = "for p in /proc/[0-9]*; do echo ${p#/proc/}; done > seen; "
NOTE = "/proc is mounted with hidepid: only what this user may see was looked for and ended"


def hidden(play_local: Stage, script: str) -> tuple[CleanupReceipt, set[int], list[int]]:
    """A stopped run behind hidepid, which pids the harness saw, and what lived afterwards."""

    async def story(place: Place) -> tuple[CleanupReceipt, set[int], list[int]]:
        running = await place.start(script)
        await place.made("up")
        (await place.client.request_stop(StoppedBy.CALLER)).unwrap()
        receipt = (await running).receipt
        left = list(place.living())
        place.end(left)
        seen = {int(line) for line in (place.workdir / "seen").read_text().split()}
        return receipt, seen, left

    def wrap(sandbox: Sandbox) -> Sandbox:
        return WithoutPtrace(sandbox)

    return play_local.in_private_mounts(story, mount=HIDDEN, wrap=wrap)


def test_behind_hidepid_this_users_processes_are_ended_and_the_receipt_says_what_it_saw(
    play_local: Stage,
) -> None:
    """bubblewrap mounts a /proc of its own, without hidepid."""
    receipt, seen, left = hidden(play_local, SEEN + "(setsid env -i /bin/$LONG &); touch up; $LONG")
    assert 1 not in seen
    assert (receipt.cleanup_confirmed, receipt.error, left) == (True, None, [])
    assert receipt.notes == (NOTE,)


def test_behind_hidepid_another_users_process_escapes_and_the_receipt_warns_of_it(play_local: Stage) -> None:
    other = "setsid setpriv --reuid 61234 --clear-groups $LONG & "
    gone = "until grep -qs 61234 /proc/$!/status || [[ ! -e /proc/$! ]]; do :; done; "
    receipt, _, left = hidden(play_local, f"{SEEN}({other}{gone}); touch up; $LONG")
    assert (receipt.cleanup_confirmed, receipt.notes, len(left)) == (True, (NOTE,), 1)
