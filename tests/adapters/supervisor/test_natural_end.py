"""The harness ends by itself: its exit code, and the services that the task left on purpose."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from clinebox.adapters.supervisor.plan import SurvivorPolicy

if TYPE_CHECKING:
    from tests.adapters.supervisor.conftest import Bench

SERVICES = """
shopt -s extglob
started() { until [[ $(tr '\\0' ' ' < /proc/$1/cmdline) == *([!\\ ])sleep\\ $2\\  ]]; do :; done; }
setsid sleep 3141 &
started $! 3141
env -i /bin/sleep 3142 &
started $! 3142
exit 0
"""


def test_the_receipt_is_positive_and_complete(bench: Bench) -> None:
    session = bench.session()
    receipt = session.bash("printf 12345; printf 678 >&2").receipt
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.timed_out) == (True, 0, False)
    assert (receipt.error, receipt.stopped_by, receipt.survivors, receipt.notes) == (None, None, (), ())
    assert receipt.output_bytes == 8
    assert receipt.started_at is not None
    assert receipt.ended_at is not None
    assert 1_700_000_000 < receipt.started_at <= receipt.ended_at
    assert asyncio.run(session.client.read_receipt()).unwrap() == receipt


def test_services_left_on_purpose_stay_and_are_listed(bench: Bench) -> None:
    session = bench.session()
    receipt = session.bash(SERVICES).receipt
    assert receipt.cleanup_confirmed is True
    assert sorted(s.command for s in receipt.survivors) == ["/bin/sleep 3142", "sleep 3141"]
    assert all(s.age_s is not None and 0 <= s.age_s < 60 for s in receipt.survivors)
    assert sorted(s.pid for s in receipt.survivors) == sorted(session.marked())


def test_services_die_at_close(bench: Bench) -> None:
    session = bench.session()
    session.bash(SERVICES)
    seen = asyncio.run(session.client.look()).unwrap()
    assert (seen.supervisor_known, seen.supervisor_alive, seen.ended, len(seen.left)) == (True, False, 0, 2)
    ended = asyncio.run(session.client.end_leftovers()).unwrap()
    assert (ended.ended, ended.left, session.marked()) == (2, (), [])


def test_services_can_be_ended_before_the_receipt(bench: Bench) -> None:
    session = bench.session()
    receipt = session.bash(SERVICES, survivors=SurvivorPolicy.KILL).receipt
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.survivors) == (True, 0, ())
    assert session.marked() == []


def test_two_runs_at_once_do_not_touch_each_others_services(bench: Bench) -> None:
    first, second = bench.session(), bench.session()
    first.bash(SERVICES)
    second.bash(SERVICES, survivors=SurvivorPolicy.KILL)
    assert (len(first.marked()), second.marked()) == (2, [])


def test_a_prompt_that_nobody_reads_delays_nothing(bench: Bench) -> None:
    """The service holds the pipe's other end, so the feeder would wait for ever."""
    session = bench.session()
    receipt = session.bash("setsid sleep 3143 & exit 4", prompt=b"x" * 1_000_000).receipt
    assert receipt.return_code == 4
    assert [s.pid for s in receipt.survivors] == session.marked()
    assert len(receipt.survivors) == 1


def test_a_harness_that_closes_its_streams_and_lives_on_is_waited_for(bench: Bench) -> None:
    script = "exec 0<&- 1>&- 2>&-; until [ -e go ]; do read -t 0.05 <> <(:); done; exit 9"
    session = bench.session()

    async def story() -> int | None:
        running = await session.start("bash", "-c", f"touch up; {script}")
        await bench.until(session.made("up").exists)
        assert not running.done()
        session.made("go").touch()
        return (await running).receipt.return_code

    assert asyncio.run(story()) == 9


def test_a_stopped_and_continued_harness_is_no_ended_one(bench: Bench) -> None:
    session = bench.session()

    async def story() -> int | None:
        running = await session.start(
            "bash", "-c", "echo $$ > pid.new; mv pid.new pid; kill -STOP $$; exit 6"
        )
        await bench.until(session.made("pid").exists)
        pid = int(session.made("pid").read_text())
        await bench.until(lambda: bench.state(pid) == "T")
        assert not running.done()
        bench.signal(pid, "CONT")
        return (await running).receipt.return_code

    assert asyncio.run(story()) == 6


def test_a_harness_named_like_a_puzzle_is_read_rightly(bench: Bench) -> None:
    """The name stands in /proc/PID/stat between parentheses, unescaped."""
    session = bench.session()
    name = session.sandbox.root / ") R 1 1 (\n"
    name.symlink_to("/bin/sleep")
    wait_for_it = "until [[ $(cat /proc/$!/comm) == *R* ]]; do :; done"
    receipt = session.bash(f'setsid "./) R 1 1 (\n" 3144 & {wait_for_it}').receipt
    assert [s.command for s in receipt.survivors] == ["./) R 1 1 (\n 3144"]
