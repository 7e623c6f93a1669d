"""Fork bombs against a bound of processes: the supervisor must still end them, and in time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.receipt import CleanupReceipt

if TYPE_CHECKING:
    from tests.adapters.supervisor.matrix.conftest import Place, Stage

BOMB = "b() { b | b & }; b; b; touch up; while :; do read -r -t 60 <> <(:); done"
AS_ANOTHER = 'exec setpriv --reuid 61234 --clear-groups bash -c "ulimit -u 60; $0"'
CGROUPS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
BOUND = 60


@pytest.fixture
def cgroup(tmp_path: Path) -> Iterator[Path]:
    """A cgroup of at most BOUND processes; where nobody can make one, a required engine fails for it."""
    for base in CGROUPS:
        group = base / f"clinebox-{tmp_path.name}-{id(tmp_path):x}"
        with contextlib.suppress(OSError):
            group.mkdir()
            (group / "pids.max").write_text(str(BOUND))
            break
    else:
        report = pytest.fail if os.environ.get("CLINEBOX_REQUIRE") else pytest.skip
        report("no cgroup with a pids controller can be made here: be root, or mount one writable")
    yield group
    for pid in (group / "cgroup.procs").read_text().split():
        (group.parent / "cgroup.procs").write_text(pid)
    group.rmdir()


async def all_of_it(place: Place, group: Path) -> int:
    """Put supervisor, runner and harness under the bound; what they start follows. How many they are."""
    await place.made("ready")
    pids = {*place.living(), *place.supervisors()}
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid))
    return len(pids)


def test_a_fork_bomb_under_its_users_bound_is_ended(play: Stage) -> None:
    """The harness becomes another user, whom RLIMIT_NPROC binds (root it does not; setrlimit(2))."""

    async def story(place: Place) -> CleanupReceipt:
        place.workdir.chmod(0o777)
        running = await place.start("", argv=("bash", "-c", AS_ANOTHER, place.script(BOMB)))
        await place.made("up")
        (await place.client.request_stop(StoppedBy.CALLER)).unwrap()
        receipt = (await running).receipt
        await place.nothing_is_left()
        return receipt

    receipt = play(story)
    assert (receipt.cleanup_confirmed, receipt.error, receipt.stopped_by) == (True, None, StoppedBy.CALLER)


GO = "touch ready; until [[ -e go ]]; do read -r -t 0.02 <> <(:); done; exec 2> /dev/null; "


def test_a_fork_bomb_that_starves_the_supervisor_itself_is_ended_at_the_deadline(
    play_slow: Stage, cgroup: Path
) -> None:
    async def story(place: Place) -> CleanupReceipt:
        running = await place.start(GO + BOMB, run_timeout_s=6.0)
        assert await all_of_it(place, cgroup) >= 3
        (place.workdir / "go").touch()
        receipt = (await running).receipt
        await place.nothing_is_left()
        assert "max 0" not in (cgroup / "pids.events").read_text()
        return receipt

    receipt = play_slow(story)
    assert (receipt.cleanup_confirmed, receipt.error, receipt.stopped_by) == (True, None, StoppedBy.DEADLINE)
    assert receipt.started_at is not None
    assert receipt.ended_at is not None
    assert receipt.ended_at - receipt.started_at < 6 + 5
