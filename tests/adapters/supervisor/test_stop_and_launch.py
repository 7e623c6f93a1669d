"""Stop against launch, held at every step by a barrier; and the end of a session directory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from clinebox.adapters.supervisor.client import Finished, SupervisorTrouble
from clinebox.domain import session_files as names
from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.shell import StopAnswer

if TYPE_CHECKING:
    from tests.adapters.supervisor.conftest import PATH, Bench, Session
else:
    PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

BARRIER_BASH = """#!/bin/bash
# A bash that says that it got to its barrier and waits there, when its arguments begin the held step.
if [[ "$*" == "{held}"* ]]; then
  : > "{root}/reached"
  until [[ -e "{root}/go" ]]; do read -r -t 0.02 <> <(:); done
fi
exec /bin/bash "$@"
"""


def held_at(bench: Bench, step: str) -> Session:
    """A session whose launch waits before `step`, until a test makes the file `go`."""
    session = bench.session(path=f"{bench.root}/shims:{PATH}")
    shims = bench.root / "shims"
    shims.mkdir()
    (shims / "bash").write_text(BARRIER_BASH.format(held=step, root=session.sandbox.root))
    (shims / "bash").chmod(0o755)
    return session


def stopped_while_held(
    bench: Bench, step: str, *argv: str, stops: int = 1
) -> tuple[Session, list[StopAnswer], Finished]:
    session = held_at(bench, step)

    async def story() -> tuple[list[StopAnswer], Finished]:
        running = await session.start(*(argv or ("touch", "harness-ran")))
        await bench.until(session.made("reached").exists)
        answers = [(await session.client.request_stop(StoppedBy.OPERATOR)).unwrap() for _ in range(stops)]
        session.made("go").touch()
        return answers, await running

    answers, finished = asyncio.run(story())
    return session, answers, finished


def test_a_stop_before_the_claim_fences_the_launch_for_ever(bench: Bench) -> None:
    session, answers, finished = stopped_while_held(bench, "-n")
    receipt = finished.receipt
    assert answers == [StopAnswer.FENCED]
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.timed_out) == (True, None, False)
    assert (receipt.stopped_by, receipt.error) == (StoppedBy.OPERATOR, None)
    assert not session.made("harness-ran").exists()
    assert not (session.dir / names.NONCE).exists()


def test_a_second_stop_finds_the_first_ones_receipt(bench: Bench) -> None:
    _, answers, finished = stopped_while_held(bench, "-n", stops=2)
    assert answers == [StopAnswer.FENCED, StopAnswer.FINISHED]
    assert finished.receipt.cleanup_confirmed


def test_a_stop_between_claim_and_supervisor_is_its_first_reading(bench: Bench) -> None:
    session, answers, finished = stopped_while_held(bench, "-p ./process_supervisor.sh")
    receipt = finished.receipt
    assert (receipt.cleanup_confirmed, receipt.return_code) == (True, None)
    assert receipt.stopped_by is StoppedBy.OPERATOR
    assert not session.made("harness-ran").exists()
    assert answers == [StopAnswer.REQUESTED]


def test_a_stop_between_supervisor_and_harness_ends_the_runner(bench: Bench) -> None:
    session, answers, finished = stopped_while_held(bench, "-p ./harness_runner.sh", "sleep", "2103")
    receipt = finished.receipt
    assert answers == [StopAnswer.REQUESTED]
    assert (receipt.cleanup_confirmed, receipt.stopped_by) == (True, StoppedBy.OPERATOR)
    assert session.marked() == []


def test_a_stop_before_anything_was_prepared_fences_too(bench: Bench) -> None:
    session = bench.session()

    async def story() -> Finished:
        answer = (await session.client.request_stop(StoppedBy.CALLER)).unwrap()
        assert answer is StopAnswer.FENCED
        assert (await session.client.read_receipt()).unwrap().stopped_by is StoppedBy.CALLER
        return await (await session.start("touch", "harness-ran"))

    receipt = asyncio.run(story()).receipt
    assert (receipt.cleanup_confirmed, receipt.return_code) == (True, None)
    assert not session.made("harness-ran").exists()


def test_of_two_launches_one_wins_and_the_other_starts_nothing(bench: Bench) -> None:
    session = bench.session()

    async def story() -> tuple[Finished, SupervisorTrouble]:
        first = await session.start(
            "bash", "-c", "echo ran >> runs; touch up; until [ -e go ]; do read -t 0.05 <> <(:); done; exit 0"
        )
        await bench.until(session.made("up").exists)
        second = asyncio.create_task(session.client.run())
        refused = (await second).failure()
        session.made("go").touch()
        return await first, refused.trouble

    finished, trouble = asyncio.run(story())
    assert trouble is SupervisorTrouble.LAUNCHED_BEFORE
    assert (finished.receipt.return_code, session.made("runs").read_text()) == (0, "ran\n")


def test_stops_and_an_expiry_at_once_give_one_truthful_receipt(bench: Bench) -> None:
    session = bench.session()

    async def story() -> Finished:
        running = await session.start("bash", "-c", "touch up; sleep 2101")
        await bench.until(session.made("up").exists)
        stops = [session.client.request_stop(StoppedBy.CALLER) for _ in range(4)]
        await asyncio.gather(*stops, session.client.request_expire())
        return await running

    receipt = asyncio.run(story()).receipt
    assert (receipt.stopped_by, receipt.timed_out) in {(StoppedBy.CALLER, False), (StoppedBy.DEADLINE, True)}
    assert (receipt.cleanup_confirmed, session.marked()) == (True, [])


def test_a_launch_after_the_removal_finds_nothing_to_claim(bench: Bench) -> None:
    session = held_at(bench, "-n")

    async def story() -> SupervisorTrouble:
        (await session.client.prepare(session.plan("touch", "harness-ran"))).unwrap()
        running = asyncio.create_task(session.client.run())
        await bench.until(session.made("reached").exists)
        (await session.client.remove()).unwrap()
        session.made("go").touch()
        return (await running).failure().trouble

    # bash finds no script to parse, or no directory to claim in.
    assert asyncio.run(story()) in {SupervisorTrouble.BOOTSTRAP, SupervisorTrouble.NOT_WRITABLE}
    assert not session.made("harness-ran").exists()
    assert not session.dir.exists()


def test_a_removal_leaves_nothing_and_can_be_repeated(bench: Bench) -> None:
    session = bench.session()
    session.bash("exit 0")
    for _ in range(2):
        asyncio.run(session.client.remove()).unwrap()
        assert [path.name for path in session.sandbox.root.iterdir()] == []


def test_a_removal_takes_what_an_earlier_one_left_retired(bench: Bench) -> None:
    session = bench.session()
    session.bash("exit 0")
    session.made("session.retired.0").mkdir()
    (session.made("session.retired.0") / "left").touch()
    asyncio.run(session.client.remove()).unwrap()
    assert list(session.sandbox.root.iterdir()) == []


def test_a_supervisor_that_bash_cannot_parse_is_not_launched(bench: Bench) -> None:
    session = bench.session()

    async def story() -> tuple[SupervisorTrouble, str]:
        (await session.client.prepare(session.plan("touch", "harness-ran"))).unwrap()
        script = session.dir / names.SUPERVISOR_SCRIPT
        script.write_bytes(script.read_bytes()[:9000] + b"\nif (((")
        failure = (await session.client.run()).failure()
        return failure.trouble, failure.message

    trouble, message = asyncio.run(story())
    assert trouble is SupervisorTrouble.BOOTSTRAP
    assert f"{names.SUPERVISOR_SCRIPT}: line" in message
    assert not (session.dir / names.LAUNCH_CLAIM).exists()


def test_a_run_that_was_not_prepared_is_refused(bench: Bench) -> None:
    assert asyncio.run(bench.session().client.run()).failure().trouble is SupervisorTrouble.BAD_PLAN


@pytest.mark.parametrize("content", ["operator", "operator\n", "caller\n", "", "anything; rm -rf /\n"])
def test_a_stop_written_by_hand_ends_the_run_and_is_not_called_ours(bench: Bench, content: str) -> None:
    session = bench.session()

    async def story() -> Finished:
        running = await session.start("bash", "-c", "touch up; sleep 2102")
        await bench.until(session.made("up").exists)
        (session.dir / names.STOP_REQUEST).write_text(content)
        return await running

    receipt = asyncio.run(story()).receipt
    written = StoppedBy.OPERATOR if content.startswith("operator") else StoppedBy.CALLER
    assert receipt.stopped_by is None
    assert receipt.cleanup_confirmed is True
    assert receipt.notes == (f"the receipt names a stop ({written}) that this client did not ask for",)


def test_an_expiry_written_by_hand_ends_the_run_and_is_not_called_our_deadline(bench: Bench) -> None:
    session = bench.session()

    async def story() -> Finished:
        running = await session.start("bash", "-c", "touch up; sleep 2102")
        await bench.until(session.made("up").exists)
        (session.dir / names.EXPIRE_REQUEST).write_text("")
        return await running

    receipt = asyncio.run(story()).receipt
    assert (receipt.stopped_by, receipt.timed_out) == (None, False)
    assert receipt.notes == ("the receipt names a stop (deadline) that this client did not ask for",)
