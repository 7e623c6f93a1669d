"""A run that is ended: deadline, stop, expiry, output bound; and that nothing escapes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.receipt import CleanupReceipt, parse_cleanup_receipt

if TYPE_CHECKING:
    from tests.adapters.supervisor.conftest import Bench, Session

WAIT = "touch up; while :; do read -t 60 <> <(:); done"
SPAWN_AND_WAIT = "{spawn}\n" + WAIT

ESCAPES = {
    "a child in its group": "sleep 2001 &",
    "a child in a session of its own": "setsid sleep 2002 &",
    "a grandchild whose parent died": "(sleep 2003 &)",
    "a double fork and setsid": "(setsid bash -c '(setsid sleep 2004 &) ' &)",
    "a scrubbed environment, as a descendant": "env -i /bin/sleep 2005 &",
    "a scrubbed environment, orphaned in a session of its own": "(setsid env -i /bin/sleep 2006 &)",
    "a name with parentheses and spaces": "ln -s /bin/sleep './) S 1 ('; setsid './) S 1 (' 2007 &",
    "a stopped process": "(setsid bash -c 'kill -STOP $$; sleep 2008' &)",
    "a process that ignores everything": "(trap '' HUP INT QUIT TERM USR1; setsid sleep 2009 &)",
    "a process that never stops forking": "(setsid bash -c 'while :; do (:) & wait; done' &)",
    "a shell with a control character in its environment": "(PS9=$'\\001x' setsid sleep 2010 &)",
}


def ended(bench: Bench, session: Session, script: str, by: StoppedBy, **plan: Any) -> CleanupReceipt:
    """Run a script until it made the file `up`, then stop it."""

    async def story() -> CleanupReceipt:
        running = await session.start("bash", "-c", script, **plan)
        await bench.until(session.made("up").exists)
        (await session.client.request_stop(by)).unwrap()
        return (await running).receipt

    return asyncio.run(story())


@pytest.mark.parametrize("spawn", ESCAPES.values(), ids=ESCAPES.keys())
def test_nothing_escapes_a_forced_stop(bench: Bench, spawn: str) -> None:
    session = bench.session()
    receipt = ended(bench, session, SPAWN_AND_WAIT.format(spawn=spawn), StoppedBy.CALLER)
    assert (receipt.cleanup_confirmed, receipt.error, receipt.survivors) == (True, None, ())
    assert session.marked() == []


@pytest.mark.parametrize("by", [StoppedBy.CALLER, StoppedBy.OPERATOR])
def test_a_stop_names_who_asked(bench: Bench, by: StoppedBy) -> None:
    receipt = ended(bench, bench.session(), WAIT, by)
    assert (receipt.stopped_by, receipt.timed_out, receipt.cleanup_confirmed) == (by, False, True)
    assert receipt.notes == ()


@pytest.mark.parametrize("leader", [True, False])
def test_a_stop_works_whether_or_not_the_provider_made_a_group(bench: Bench, leader: bool) -> None:  # noqa: FBT001
    session = bench.session(leader=leader)
    receipt = ended(bench, session, WAIT, StoppedBy.CALLER)
    assert (receipt.stopped_by, receipt.return_code) == (StoppedBy.CALLER, 130)


def test_the_grace_phase_begins_with_int(bench: Bench) -> None:
    session = bench.session()
    script = "trap 'echo int; exit 0' INT; trap 'echo term; exit 1' TERM; " + WAIT
    assert ended(bench, session, script, StoppedBy.CALLER).return_code == 0
    assert session.stdout == "int\n"


def test_a_harness_that_ignores_int_is_asked_with_term(bench: Bench) -> None:
    session = bench.session()
    script = "trap '' INT; trap 'echo term; exit 3' TERM; " + WAIT
    receipt = ended(bench, session, script, StoppedBy.CALLER, cleanup_timeout_s=1.0)
    assert (receipt.return_code, session.stdout) == (3, "term\n")


def test_a_harness_that_ignores_int_and_term_is_killed(bench: Bench) -> None:
    session = bench.session()
    receipt = ended(bench, session, "trap '' INT TERM; " + WAIT, StoppedBy.CALLER, cleanup_timeout_s=0.5)
    assert (receipt.return_code, receipt.cleanup_confirmed, session.marked()) == (137, True, [])


def test_a_stopped_harness_is_ended(bench: Bench) -> None:
    session = bench.session()
    receipt = ended(bench, session, "touch up; kill -STOP $$", StoppedBy.CALLER)
    assert (receipt.cleanup_confirmed, receipt.return_code, session.marked()) == (True, 130, [])


def test_a_harness_that_left_its_group_is_ended(bench: Bench, python: str) -> None:
    session = bench.session()
    script = (
        "import os, time; os.setsid() if os.getpgrp() != os.getpid() else 0; open('up', 'w'); time.sleep(99)"
    )

    async def story() -> CleanupReceipt:
        running = await session.start(python, "-S", "-c", script, prompt=b"")
        await bench.until(session.made("up").exists)
        (await session.client.request_stop(StoppedBy.CALLER)).unwrap()
        return (await running).receipt

    receipt = asyncio.run(story())
    assert (receipt.cleanup_confirmed, session.marked()) == (True, [])


def test_the_deadline_ends_the_run_and_says_so(bench: Bench) -> None:
    session = bench.session()
    receipt = session.bash("setsid sleep 2020 & sleep 2021", run_timeout_s=0.5).receipt
    assert (receipt.timed_out, receipt.stopped_by) == (True, StoppedBy.DEADLINE)
    assert (receipt.cleanup_confirmed, receipt.return_code, session.marked()) == (True, 130, [])
    assert receipt.started_at is not None
    assert receipt.ended_at is not None
    assert receipt.ended_at - receipt.started_at >= 0.5


def test_an_expiry_ends_the_run_as_the_deadline_would(bench: Bench) -> None:
    session = bench.session()

    async def story() -> CleanupReceipt:
        running = await session.start("bash", "-c", WAIT)
        await bench.until(session.made("up").exists)
        (await session.client.request_expire()).unwrap()
        return (await running).receipt

    receipt = asyncio.run(story())
    assert (receipt.timed_out, receipt.stopped_by, session.marked()) == (True, StoppedBy.DEADLINE, [])


def test_a_stop_beats_an_expiry_that_lies_beside_it(bench: Bench) -> None:
    session = bench.session()

    async def story() -> CleanupReceipt:
        (await session.client.prepare(session.plan("true"))).unwrap()
        (session.dir / "expire.request").touch()
        (session.dir / "stop.request").write_text("operator\n")
        await session.client.run()
        return parse_cleanup_receipt((session.dir / "cleanup.json").read_bytes()).unwrap()

    receipt = asyncio.run(story())  # the supervisor's own word: the client did not ask for either
    assert (receipt.stopped_by, receipt.timed_out, receipt.return_code) == (StoppedBy.OPERATOR, False, None)


@pytest.mark.parametrize("stream", ["1", "2"])
def test_the_output_bound_ends_a_flood(bench: Bench, stream: str) -> None:
    session = bench.session()
    receipt = session.bash(f"exec cat /dev/zero >&{stream}", output_limit_bytes=100_000).receipt
    assert (receipt.stopped_by, receipt.timed_out) == (StoppedBy.OUTPUT_LIMIT, False)
    assert (receipt.cleanup_confirmed, session.marked()) == (True, [])
    assert (receipt.output_bytes or 0) > 100_000


def test_output_under_the_bound_is_no_flood(bench: Bench) -> None:
    receipt = bench.session().bash("printf %0100d 1", output_limit_bytes=100).receipt
    assert (receipt.stopped_by, receipt.output_bytes) == (None, 100)


def test_a_watched_log_counts_towards_the_bound(bench: Bench) -> None:
    session = bench.session()
    log = session.made("cline log")
    script = f"printf %02000d 1 > '{log}'; " + WAIT
    receipt = session.bash(script, output_limit_bytes=1000, watched_files=(str(log),)).receipt
    assert (receipt.stopped_by, receipt.output_bytes) == (StoppedBy.OUTPUT_LIMIT, 2000)


def test_a_stop_that_comes_after_the_end_changes_nothing(bench: Bench) -> None:
    session = bench.session()
    receipt = session.bash("exit 2").receipt
    answer = asyncio.run(session.client.request_stop(StoppedBy.OPERATOR)).unwrap()
    assert answer == "finished"
    assert asyncio.run(session.client.read_receipt()).unwrap() == receipt
    assert (receipt.stopped_by, receipt.return_code) == (None, 2)


def test_a_killed_runner_does_not_free_the_harness(bench: Bench) -> None:
    session = bench.session()
    receipt = ended(bench, session, "kill -9 $PPID; " + WAIT, StoppedBy.CALLER)
    assert (receipt.cleanup_confirmed, receipt.return_code, session.marked()) == (True, None, [])
    assert receipt.error == "the runner was killed, so the harness's exit status is lost"
