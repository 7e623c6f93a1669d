"""What an agent may do to its supervisor, and what the receipt then says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from returns.result import Failure, Result

from clinebox.domain import session_files as names
from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.ports import Command, ExecResult, SandboxFailure, SandboxTrouble
from clinebox.domain.receipt import CleanupReceipt

if TYPE_CHECKING:
    from tests.adapters.supervisor.conftest import Bench, Session

FORGED = json.dumps({"cleanup_confirmed": True, "return_code": 0, "nonce": "0" * 32})
LIVE_ON = "touch up; setsid sleep 2201 & (setsid env -i /bin/sleep 2202 &); sleep 2203"


def names_of(pid: int) -> str:
    """What pkill and killall look at: the name, and the arguments."""
    return Path(f"/proc/{pid}/comm").read_text() + Path(f"/proc/{pid}/cmdline").read_text()


def until_up_then(bench: Bench, session: Session, script: str, signal_supervisor: str) -> CleanupReceipt:
    async def story() -> CleanupReceipt:
        running = await session.start("bash", "-c", script)
        await bench.until(session.made("up").exists)
        bench.signal(session.supervisor_pid(), signal_supervisor)
        return (await running).receipt

    return asyncio.run(story())


@pytest.mark.parametrize("leader", [True, False])
def test_a_killed_supervisor_is_found_out_and_its_run_ended(bench: Bench, leader: bool) -> None:  # noqa: FBT001
    session = bench.session(leader=leader)
    receipt = until_up_then(bench, session, LIVE_ON, "KILL")
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.survivors) == (False, None, ())
    assert receipt.error is not None
    assert "the supervisor left no receipt" in receipt.error
    assert "it was dead" in receipt.error
    assert "still alive: none" in receipt.error
    assert session.marked() == []
    assert asyncio.run(session.client.read_receipt()).unwrap() == receipt


def test_a_run_whose_everything_was_killed_is_found_out(bench: Bench) -> None:
    session = bench.session()
    kill_all = f"read pid _ < {session.dir}/supervisor.pid; kill -9 $pid $PPID $$"
    receipt = session.bash(kill_all).receipt
    assert (receipt.cleanup_confirmed, session.marked()) == (False, [])


def test_term_to_the_supervisor_ends_the_run_with_a_receipt(bench: Bench) -> None:
    session = bench.session()
    receipt = until_up_then(bench, session, LIVE_ON, "TERM")
    assert (receipt.cleanup_confirmed, receipt.stopped_by) == (True, None)
    assert "the receipt names a stop (operator) that this client did not ask for" in receipt.notes
    assert "the supervisor received a signal that asks for the end" in receipt.notes
    assert session.marked() == []


def test_term_to_a_launch_without_a_group_is_passed_on(bench: Bench) -> None:
    session = bench.session(leader=False)

    async def story() -> CleanupReceipt:
        running = await session.start("bash", "-c", LIVE_ON)
        await bench.until(session.made("up").exists)
        bench.signal(session.sandbox.started[-1].pid, "TERM")
        return (await running).receipt

    receipt = asyncio.run(story())
    assert (receipt.cleanup_confirmed, receipt.stopped_by) == (True, None)
    assert session.marked() == []


def test_a_stopped_supervisor_is_ended_from_outside(bench: Bench) -> None:
    session = bench.session()

    async def story() -> CleanupReceipt:
        running = await session.start("bash", "-c", LIVE_ON)
        await bench.until(session.made("up").exists)
        bench.signal(session.supervisor_pid(), "STOP")
        ended = (await session.client.end_leftovers()).unwrap()
        assert (ended.supervisor_alive, ended.left) == (True, ())
        return (await running).receipt

    assert asyncio.run(story()).cleanup_confirmed is False
    assert session.marked() == []


def test_a_forged_receipt_is_refused(bench: Bench) -> None:
    session = bench.session()
    forge = f"cd '{session.dir}'; read pid _ < supervisor.pid; echo '{FORGED}' > cleanup.json; kill -9 $pid"
    receipt = session.bash(forge + "; sleep 2204").receipt
    assert receipt.cleanup_confirmed is False
    assert "another nonce" in (receipt.error or "")
    assert session.marked() == []


@pytest.mark.parametrize(
    "plant", ["echo '{}' > cleanup.json", "mkdir -p cleanup.json/x", "ln -s /etc cleanup.json"]
)
def test_a_planted_receipt_is_replaced(bench: Bench, plant: str) -> None:
    session = bench.session()
    receipt = session.bash(f"cd '{session.dir}'; {plant}; exit 3").receipt
    assert (receipt.cleanup_confirmed, receipt.return_code) == (True, 3)
    assert asyncio.run(session.client.read_receipt()).unwrap() == receipt


def test_the_agent_finds_the_nonce_nowhere(bench: Bench) -> None:
    session = bench.session()
    look = "cat /proc/$PPID/environ /proc/$PPID/cmdline; env; p=$(cut -d' ' -f4 /proc/$PPID/stat); "
    look += f"cat /proc/$p/environ /proc/$p/cmdline; cd '{session.dir}'; ls; cat [!s]* supervisor.*; exit 0"
    receipt = session.bash(look).receipt
    assert receipt.nonce is not None
    assert names.LAUNCH_CLAIM in session.read(names.STDOUT).decode(errors="replace")
    assert receipt.nonce.encode() not in session.read(names.STDOUT) + session.read(names.STDERR)
    argv = [word for command in session.sandbox.commands for word in command.argv]
    assert all(receipt.nonce not in word for word in argv)


def test_no_process_of_ours_has_a_name_that_agents_kill(bench: Bench) -> None:
    """`pkill -f python3`, `killall node`, `pkill bash`: neither name nor arguments hold any of these."""
    where = bench.root / "node" / "python3" / "cline"
    session = bench.session(directory=str(where), leader=False)

    async def story() -> list[str]:
        running = await session.start("bash", "-c", "touch up; sleep 2205")
        await bench.until(session.made("up").exists)
        told = [names_of(pid) for pid in (session.sandbox.started[-1].pid, session.supervisor_pid())]
        told += [name for pid in session.marked() if (name := names_of(pid)).startswith("cb-runner")]
        (await session.client.request_stop(StoppedBy.CALLER)).unwrap()
        await running
        return told

    told = asyncio.run(story())
    assert len(told) == 3
    assert not [name for name in ("python", "node", "cline", "bash") if any(name in text for text in told)]


def test_a_removed_session_directory_ends_the_run_and_leaves_nothing(bench: Bench) -> None:
    session = bench.session()
    receipt = session.bash(f"rm -rf '{session.dir}'; {LIVE_ON}").receipt
    assert receipt.error == "the session directory was removed while the harness ran"
    assert (receipt.cleanup_confirmed, receipt.stopped_by, session.marked()) == (True, None, [])


def test_a_session_directory_that_was_put_elsewhere_and_faked_does_not_hide_the_run(bench: Bench) -> None:
    session = bench.session()
    fake = f"mv '{session.dir}' '{session.dir}.x'; mkdir '{session.dir}'; {LIVE_ON}"
    receipt = session.bash(fake).receipt
    assert (receipt.error, receipt.cleanup_confirmed) == (
        "the session directory was removed while the harness ran",
        True,
    )
    assert session.marked() == []


def test_lies_in_the_runners_pipe_start_and_end_nothing(bench: Bench) -> None:
    session = bench.session()
    lies = [
        "exited 0",
        "started 1 1 1",
        "feeder 1",
        "started a[$(touch pwned)] 1 1",
        "x" * 9000,
        "exited a[$(touch pwned)]",
    ]
    words = "\n".join(lies)
    script = f"""read pid _ < '{session.dir}/supervisor.pid'
    printf '%s\n' '{words}' > /proc/$pid/fd/9
    touch lied
    until [ -e go ]; do read -t 0.05 <> <(:); done
    exit 7"""

    async def story() -> CleanupReceipt:
        running = await session.start("bash", "-c", script)
        await bench.until(session.made("lied").exists)
        assert not running.done()
        session.made("go").touch()
        return (await running).receipt

    receipt = asyncio.run(story())
    assert (receipt.return_code, receipt.cleanup_confirmed) == (7, True)
    assert not (session.dir / "pwned").exists()


def test_a_broken_exec_call_is_kept_beside_the_receipt_of_a_live_supervisor(bench: Bench) -> None:
    """The provider lost the call, not the sandbox: the run is stopped, and both facts are told."""
    session = bench.session()
    lost = SandboxFailure(SandboxTrouble.TIMED_OUT, "the provider gave up")
    honest = session.sandbox.exec
    calls: list[asyncio.Task[Result[ExecResult, SandboxFailure]]] = []

    async def lossy(command: Command, *, timeout_s: float) -> Result[ExecResult, SandboxFailure]:
        if calls or "launch" not in command.argv[-1]:
            return await honest(command, timeout_s=timeout_s)
        calls.append(asyncio.create_task(honest(command, timeout_s=timeout_s)))
        await bench.until(session.made("up").exists)
        return Failure(lost)

    session.sandbox.exec = lossy  # type: ignore[method-assign]  # the test's own sandbox

    async def story() -> None:
        finished = await (await session.start("bash", "-c", LIVE_ON))
        assert finished.provider_failure == lost
        assert (finished.receipt.cleanup_confirmed, finished.receipt.stopped_by) == (True, None)
        await calls[0]

    asyncio.run(story())
    assert session.marked() == []
