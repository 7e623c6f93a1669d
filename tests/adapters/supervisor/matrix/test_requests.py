"""Stop, expiry, or both at once, held by a barrier at each step of a launch and of an end.

A shim in PATH says that the launch got to the step, and waits there until the test lets it go on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from clinebox.adapters.supervisor.client import SupervisorTrouble
from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.receipt import CleanupReceipt
from clinebox.domain.shell import StopAnswer

if TYPE_CHECKING:
    from tests.adapters.supervisor.matrix.conftest import Place, Stage

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHIM = """#!/bin/bash
if [[ "$*" == "{held}"* ]]; then
  : > "{desk}/reached"
  until [[ -e "{desk}/go" ]]; do read -r -t 0.02 <> <(:); done
fi
exec /bin/{program} "$@"
"""
STEPS = {
    "before the claim": ("bash", "-n"),
    "between claim and supervisor": ("bash", "-p ./process_supervisor.sh"),
    "between supervisor and harness": ("bash", "-p ./harness_runner.sh"),
    "between the end and the receipt's name": ("mv", "-f cleanup.json.new cleanup.json"),
}
REQUESTS = {"stop": (True, False), "expire": (False, True), "both": (True, True)}
LONG_RUN = "touch ran; $LONG"


def held(play: Stage, step: str) -> dict[str, str]:
    """An environment in which the launch waits at a step."""
    program, argument = STEPS[step]
    shims = play.root / "desk" / "shims"
    shims.mkdir(parents=True)
    (shims / program).write_text(SHIM.format(held=argument, desk=play.root / "desk", program=program))
    (shims / program).chmod(0o755)
    return {"PATH": f"{shims}:{PATH}"}


async def asked(place: Place, request: str) -> None:
    stop, expire = REQUESTS[request]
    words = [place.client.request_stop(StoppedBy.OPERATOR)] if stop else []
    times = [place.client.request_expire()] if expire else []
    for answer in await asyncio.gather(*words, *times):
        answer.unwrap()


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("step", [step for step in STEPS if step.startswith("be")])
def test_a_request_at_any_step_gives_one_true_receipt(play_slow: Stage, step: str, request_: str) -> None:
    async def story(place: Place) -> tuple[CleanupReceipt, bool]:
        script = "touch ran; exit 3" if STEPS[step][0] == "mv" else LONG_RUN
        running = await place.start(script)
        await place.made("reached")
        await asked(place, request_)
        (place.workdir / "go").touch()
        receipt = (await running).receipt
        await place.nothing_is_left()
        return receipt, (place.workdir / "ran").exists()

    receipt, ran = play_slow(story, env=held(play_slow, step))
    assert (receipt.cleanup_confirmed, receipt.error, receipt.survivors) == (True, None, ())
    if STEPS[step][0] == "mv":  # too late: the harness had ended by itself
        assert (receipt.stopped_by, receipt.timed_out, receipt.return_code, ran) == (None, False, 3, True)
        return
    by = StoppedBy.DEADLINE if request_ == "expire" else StoppedBy.OPERATOR
    assert (receipt.stopped_by, receipt.timed_out) == (by, by is StoppedBy.DEADLINE)
    if step != "between supervisor and harness":
        assert (receipt.return_code, ran) == (None, False)


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_while_the_harness_runs_ends_it(play: Stage, request_: str) -> None:
    async def story(place: Place) -> CleanupReceipt:
        running = await place.start(LONG_RUN)
        await place.made("ran")
        await asked(place, request_)
        receipt = (await running).receipt
        await place.nothing_is_left()
        return receipt

    receipt = play(story)
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.error) == (True, 130, None)
    # Side by side in one look a stop comes first; where the looks fell between them, the expiry did.
    possible = {
        "stop": {(StoppedBy.OPERATOR, False)},
        "expire": {(StoppedBy.DEADLINE, True)},
        "both": {(StoppedBy.OPERATOR, False), (StoppedBy.DEADLINE, True)},
    }
    assert (receipt.stopped_by, receipt.timed_out) in possible[request_]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_after_the_receipt_changes_nothing(play: Stage, request_: str) -> None:
    async def story(place: Place) -> tuple[CleanupReceipt, CleanupReceipt]:
        receipt = await place.run("exit 3")
        await asked(place, request_)
        return receipt, (await place.client.read_receipt()).unwrap()

    receipt, later = play(story)
    assert (receipt.stopped_by, receipt.return_code) == (None, 3)
    assert later == receipt


def test_a_stop_before_anything_was_prepared_fences_the_launch(play: Stage) -> None:
    async def story(place: Place) -> CleanupReceipt:
        answer = (await place.client.request_stop(StoppedBy.CALLER)).unwrap()
        assert answer is StopAnswer.FENCED
        receipt = await place.run(LONG_RUN)
        assert not (place.workdir / "ran").exists()
        await place.nothing_is_left()
        return receipt

    receipt = play(story)
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.stopped_by) == (
        True,
        None,
        StoppedBy.CALLER,
    )


def test_an_expiry_before_anything_was_prepared_is_refused(play: Stage) -> None:
    async def story(place: Place) -> SupervisorTrouble:
        return (await place.client.request_expire()).failure().trouble

    assert play(story) is SupervisorTrouble.NOT_WRITABLE
