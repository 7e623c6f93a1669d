"""What an agent may do to supervisor and runner, by accident or not; and what the receipt then says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.receipt import CleanupReceipt

if TYPE_CHECKING:
    from tests.adapters.supervisor.matrix.conftest import Place, Stage

FORGED = json.dumps({"cleanup_confirmed": True, "return_code": 0, "nonce": "0" * 32})
SERVICES = "(setsid $LONG &); (setsid env -i /bin/$LONG &); "
SUPERVISOR = "read -r supervisor _ < $S/supervisor.pid; "
BY_NAME = "pkill -f python3; pkill -f node; pkill -x cline; pkill bash; killall -q node python3 bash; "
MATCHED = "for name in python3 node cline bash; do pgrep -f $name; pgrep -x $name; done"


async def ended_by_itself(place: Place, script: str, **plan: object) -> CleanupReceipt:
    receipt = await place.run(script, **plan)
    await place.nothing_is_left()
    return receipt


def test_names_that_agents_kill_match_none_of_ours(play: Stage) -> None:
    async def story(place: Place) -> tuple[set[str], set[str], CleanupReceipt]:
        running = await place.start("touch up; until [[ -e go ]]; do read -r -t 0.02 <> <(:); done; exit 0")
        await place.made("up")
        ours = {*place.supervisors(), *place.runners(), *place.sizers()}
        matched = (await place.inside(MATCHED)).stdout.decode().split()
        (place.workdir / "go").touch()
        return {str(place.inner(pid)) for pid in ours}, set(matched), (await running).receipt

    ours, matched, receipt = play(story)
    assert len(ours) == 3
    assert matched
    assert not ours & matched
    assert (receipt.cleanup_confirmed, receipt.return_code) == (True, 0)


def test_an_agent_that_kills_by_name_kills_its_own_alone(play: Stage) -> None:
    """For real only in a pid namespace: elsewhere these commands would reach the whole machine."""

    async def story(place: Place) -> CleanupReceipt:
        kill = BY_NAME if place.namespace else ""
        # In a file: `pkill -f` would find these names in the arguments of the shell that runs it.
        (place.workdir / "task").write_text(place.script(f"$LONG & {kill} kill -KILL $!; exit 7"))
        return await ended_by_itself(place, "", argv=("dash", "task"))

    receipt = play(story)
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.error) == (True, 7, None)


@pytest.mark.parametrize(
    ("victims", "error"),
    [
        ("$supervisor", "the supervisor left no receipt"),
        ("$supervisor $PPID", "the supervisor left no receipt"),
        ("$PPID", "the runner was killed, so the harness's exit status is lost"),
        ("$supervisor $PPID $$", "the supervisor left no receipt"),
    ],
    ids=["supervisor", "supervisor and runner", "runner", "all three"],
)
def test_kill_9_is_found_out_and_nothing_is_left(play: Stage, victims: str, error: str) -> None:
    async def story(place: Place) -> CleanupReceipt:
        running = await place.start(f"{SUPERVISOR}{SERVICES}kill -9 {victims}; touch up; $LONG")
        if victims == "$PPID":
            await place.made("up")
            (await place.client.request_stop(StoppedBy.CALLER)).unwrap()
        receipt = (await running).receipt
        await place.nothing_is_left()
        return receipt

    receipt = play(story)
    assert error in (receipt.error or "")
    assert receipt.return_code is None
    assert receipt.cleanup_confirmed is (victims == "$PPID")
    assert receipt.survivors == ()


def test_kill_9_of_everything_but_pid_1_is_found_out(play: Stage) -> None:
    """`kill -9 -1` in a pid namespace of its own; elsewhere everything of the run, one by one."""

    async def story(place: Place) -> CleanupReceipt:
        mine = (
            "for p in /proc/[0-9]*; do grep -qs $CLINEBOX_SUPERVISOR $p/environ && kill -9 ${p#/proc/}; done"
        )
        one_by_one = f"{SUPERVISOR}kill -9 $supervisor; {mine}"
        guard = f'[[ $(readlink /proc/self/ns/pid) == "{place.namespace}" ]] && kill -9 -1'
        return await ended_by_itself(place, SERVICES + (guard if place.namespace else one_by_one))

    receipt = play(story)
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.survivors) == (False, None, ())
    assert "it was dead" in (receipt.error or "")
    assert "still alive: none" in (receipt.error or "")


@pytest.mark.parametrize("victims", ["$supervisor", "$supervisor $PPID"])
def test_a_supervisor_that_was_stopped_hears_a_stop_at_once(play: Stage, victims: str) -> None:
    async def story(place: Place) -> CleanupReceipt:
        running = await place.start(f"{SUPERVISOR}{SERVICES}kill -STOP {victims}; touch up; $LONG")
        await place.made("up")
        (await place.client.request_stop(StoppedBy.OPERATOR)).unwrap()
        receipt = (await running).receipt
        await place.nothing_is_left()
        return receipt

    receipt = play(story)
    assert (receipt.cleanup_confirmed, receipt.stopped_by, receipt.return_code) == (
        True,
        StoppedBy.OPERATOR,
        130,
    )


def test_a_supervisor_that_was_stopped_is_woken_at_its_deadline(play_slow: Stage) -> None:
    script = f"{SUPERVISOR}{SERVICES}kill -STOP $supervisor; $LONG"
    receipt = play_slow(lambda place: ended_by_itself(place, script, run_timeout_s=2.0))
    assert (receipt.cleanup_confirmed, receipt.stopped_by, receipt.timed_out) == (
        True,
        StoppedBy.DEADLINE,
        True,
    )


def test_a_stopped_supervisor_whose_harness_ended_in_time_says_so(play_slow: Stage) -> None:
    receipt = play_slow(
        lambda place: ended_by_itself(place, f"{SUPERVISOR}kill -STOP $supervisor; exit 3", run_timeout_s=2.0)
    )
    assert (receipt.cleanup_confirmed, receipt.stopped_by, receipt.return_code) == (True, None, 3)


def test_a_stopped_runner_reports_all_the_same(play: Stage) -> None:
    receipt = play(lambda place: ended_by_itself(place, "kill -STOP $PPID; exit 3"))
    assert (receipt.cleanup_confirmed, receipt.stopped_by, receipt.return_code) == (True, None, 3)


def test_a_forged_receipt_of_a_killed_supervisor_is_refused(play: Stage) -> None:
    forge = f"{SUPERVISOR}echo '{FORGED}' > $S/cleanup.json; kill -9 $supervisor; $LONG"
    receipt = play(lambda place: ended_by_itself(place, forge))
    assert receipt.cleanup_confirmed is False
    assert "another nonce" in (receipt.error or "")


def test_a_forged_receipt_beside_a_live_supervisor_is_replaced(play: Stage) -> None:
    async def story(place: Place) -> tuple[CleanupReceipt, CleanupReceipt]:
        receipt = await ended_by_itself(place, f"echo '{FORGED}' > $S/cleanup.json; exit 3")
        return receipt, (await place.client.read_receipt()).unwrap()

    receipt, on_disk = play(story)
    assert (receipt.cleanup_confirmed, receipt.return_code) == (True, 3)
    assert on_disk == receipt


def test_the_nonce_is_nowhere_that_the_agent_looks(play: Stage) -> None:
    async def story(place: Place) -> tuple[CleanupReceipt, str]:
        look = f"{SUPERVISOR}cat /proc/$supervisor/environ /proc/$supervisor/cmdline /proc/$PPID/environ; "
        receipt = await place.run(
            look + "env; cd $S; ls; cat nonce launch.claim supervisor.pid *.conf output.log"
        )
        return receipt, await place.stdout()

    receipt, seen = play(story)
    assert receipt.nonce is not None
    assert "launch.claim" in seen
    assert receipt.nonce not in seen


def test_a_process_that_hides_every_trace_escapes_where_nothing_contains_it(play_local: Stage) -> None:
    """The known limit of `plain`: the receipt tells of what was reached, and this was not.

    No marker, no limit, no parent, no session of the run: the process left all that tells of it.
    """

    async def story(place: Place) -> tuple[CleanupReceipt, dict[int, str]]:
        hide = 'setsid env -i bash -c "ulimit -S -x unlimited; (setsid /bin/$LONG &)"; touch up; $LONG'
        running = await place.start(hide)
        await place.made("up")
        (await place.client.request_stop(StoppedBy.CALLER)).unwrap()
        receipt = (await running).receipt
        escaped = place.living()
        place.end(escaped)
        return receipt, escaped

    receipt, escaped = play_local(story)
    assert (receipt.cleanup_confirmed, receipt.survivors) == (True, ())
    assert len(escaped) == 1


@pytest.mark.bubblewrap
def test_a_process_that_hides_every_trace_ends_with_its_sandbox(play_bubblewrap: Stage) -> None:
    async def story(place: Place) -> int:
        hide = 'setsid env -i bash -c "ulimit -S -x unlimited; (setsid /bin/$LONG &)"; exit 0'
        receipt = await place.run(hide)
        assert (receipt.cleanup_confirmed, receipt.survivors) == (True, ())
        return len(place.living())

    assert play_bubblewrap(story) == 1  # and the stage finds nothing once the sandbox has been stopped
