"""Commands in a container: their ends, their output, and what happens to what they started."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from returns.pipeline import is_successful

from clinebox.domain.ports import Command, Resources, SandboxTrouble

if TYPE_CHECKING:
    from conftest import Bench

BOUND_S = 60.0
SIGNALS = ("SigIgn", "SigBlk", "SigCgt")


async def _processes(sandbox: Any, run: Any) -> list[str]:
    """The argv of everything that lives in it, but pid 1 and the look itself; zombies are none."""
    listed = await run(sandbox, "ps -o pid,stat,args | grep -v ' Z'")
    lines = [line.split(None, 2) for line in listed.stdout.decode().splitlines()[1:]]
    return [words[2] for words in lines if words[0] != "1" and "ps -o" not in words[2]]


def test_every_exit_code_comes_back(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            codes = [0, 1, 2, 125, 126, 127, 128, 129, 137, 143, 200, 254, 255]
            found = await asyncio.gather(*(run(sandbox, f"exit {code}") for code in codes))
            assert [result.exit_code for result in found] == codes

    asyncio.run(story())


def test_a_signal_n_is_128_and_n_and_a_plain_kill_is_no_lack_of_memory(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            assert (await run(sandbox, "kill -TERM $$")).exit_code == 143
            assert (await run(sandbox, "kill -KILL $$")).exit_code == 137

    asyncio.run(story())


def test_stdout_and_stderr_come_apart_and_stdin_goes_in_whole(bench: Bench, run: Any) -> None:
    async def story() -> None:
        content = bytes(range(256)) * 20_000
        async with bench.started() as sandbox:
            result = await run(sandbox, "tee /dev/stderr | sha256sum", stdin=content)
            assert result.stdout.split()[0].decode() == hashlib.sha256(content).hexdigest()
            assert result.stderr == content

    asyncio.run(story())


def test_stdin_that_nobody_reads_is_no_trouble(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            assert (await run(sandbox, "exit 5", stdin=b"x" * 3_000_000)).exit_code == 5

    asyncio.run(story())


def test_output_past_the_limit_is_dropped_and_the_command_goes_on(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started(output_limit_bytes=1000) as sandbox:
            result = await run(sandbox, "head -c 5000000 /dev/zero; echo end >&2; exit 3")
            assert (len(result.stdout), result.stderr, result.exit_code) == (1000, b"end\n", 3)
            assert result.output_truncated

    asyncio.run(story())


def test_a_command_ends_when_it_ends_whoever_holds_its_output(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            result = await run(sandbox, "sleep 4711 & echo started")
            assert (result.stdout, result.exit_code) == (b"started\n", 0)
            assert "sleep 4711" in await _processes(sandbox, run)

    asyncio.run(asyncio.wait_for(story(), BOUND_S))


def test_a_command_that_closes_its_streams_is_waited_for(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            result = await run(sandbox, "exec >&- 2>&-; sleep 1; exit 9")
            assert result.exit_code == 9
            assert result.duration_s >= 1

    asyncio.run(story())


def test_a_timeout_keeps_the_output_and_ends_the_whole_tree(bench: Bench, run: Any) -> None:
    async def story() -> None:
        script = "echo part; (setsid sleep 4711 &); (trap '' TERM; sleep 4712) & sleep 4713"
        async with bench.started() as sandbox:
            kept = await run(sandbox, "sleep 4714 >&- 2>&- &")
            assert kept.exit_code == 0
            result = await run(sandbox, script, timeout_s=1.0)
            assert (result.timed_out, result.exit_code, result.stdout) == (True, None, b"part\n")
            assert await _processes(sandbox, run) == ["sleep 4714"]

    asyncio.run(story())


def test_a_cancelled_command_leaves_nothing(bench: Bench, run: Any, until: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            started = bench.workdir / "started"
            task = asyncio.create_task(run(sandbox, "touch started; (setsid sleep 4711 &); sleep 4712"))
            await until(started.exists, "the command runs")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await _processes(sandbox, run) == []

    asyncio.run(asyncio.wait_for(story(), BOUND_S))


def test_a_start_that_is_cancelled_at_any_moment_leaves_no_process(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            for delay_ms in (0, 2, 5, 10, 20, 40, 80, 160):
                task = asyncio.create_task(run(sandbox, "sleep 4711"))
                await asyncio.sleep(delay_ms / 1000)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert await _processes(sandbox, run) == []

    asyncio.run(asyncio.wait_for(story(), BOUND_S))


def test_a_tree_that_cannot_be_ended_otherwise_ends_with_its_container(bench: Bench, run: Any) -> None:
    """A full pids limit may keep every helper out."""

    async def story() -> None:
        async with bench.started(resources=Resources(pids=20)) as sandbox:
            result = await run(
                sandbox, "for n in {1..40}; do sleep 4711 & done 2>/dev/null; wait", timeout_s=3
            )
            assert result.timed_out
            # Where the helper came in all the same, the dead count until they are reaped, a second later.
            for _ in range(100):
                later = await sandbox.exec(Command(("ps", "-o", "args")), timeout_s=BOUND_S)
                if is_successful(later) or later.failure().trouble is SandboxTrouble.LOST:
                    break
            gone = later.map(lambda seen: b"sleep 4711" not in seen.stdout).value_or(bench.containers() == [])
            assert gone, later

    asyncio.run(story())


def test_a_program_that_is_not_there_is_127_and_one_that_may_not_run_126(bench: Bench) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            codes = []
            for name in ("nope", "/nope", "/etc/passwd", "/etc"):
                found = (await sandbox.exec(Command((name,)), timeout_s=BOUND_S)).unwrap()
                assert found.stdout == b""
                codes.append(found.exit_code)
            assert codes == [127, 127, 126, 126]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (Command(("true",), cwd="/nope"), "/nope is no directory"),
        (Command(("true",), cwd="/etc/passwd"), "/etc/passwd is no directory"),
        (Command(("true",), cwd="relative"), "must be an absolute path"),
        (Command(()), "The command is empty"),
        (Command(("x" * 200_000,)), "too long for the kernel"),
        (Command(("true",), env={"A": "x" * 200_000}), "too long for the kernel"),
        (Command(("a\0b",)), "holds a NUL"),
        (Command(("a\udcff",)), "not UTF-8"),
        (Command(("true",), env={"A=B": "c"}), "name or value that no process can be given"),
    ],
)
def test_a_command_that_cannot_be_passed_on_is_refused(bench: Bench, command: Command, words: str) -> None:
    """Past MAX_ARG_STRLEN runc 1.1 would hang for ever, and its container with it."""

    async def story() -> None:
        async with bench.started() as sandbox:
            refused = (await sandbox.exec(command, timeout_s=BOUND_S)).failure()
            assert refused.trouble is SandboxTrouble.BAD_REQUEST
            assert words in refused.message

    asyncio.run(story())


def test_a_command_starts_with_default_signals_and_leads_its_session(bench: Bench) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            status = await sandbox.exec(
                Command(("cat", "/proc/self/status", "/proc/self/stat")), timeout_s=BOUND_S
            )
            lines = status.unwrap().stdout.decode().splitlines()
            masks = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(SIGNALS)}
            assert masks == dict.fromkeys(SIGNALS, "0" * 16)
            pid, *_ = lines[-1].split()
            assert lines[-1].rpartition(")")[2].split()[3] == pid

    asyncio.run(story())


def test_orphans_are_reaped(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            await run(sandbox, "for n in 1 2 3; do (sleep 0.01 &); done; sleep 0.2")
            zombies = b"1"
            while zombies.strip() != b"0":
                zombies = (await run(sandbox, "ps -o stat | grep -c '^Z' || :")).stdout

    asyncio.run(asyncio.wait_for(story(), BOUND_S))


def test_kill_minus_one_by_the_agent_does_not_end_the_sandbox(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            await run(sandbox, "sleep 4711 >&- 2>&- & kill -KILL -1")
            assert (await run(sandbox, "kill -KILL 1; kill -TERM 1; echo alive")).stdout == b"alive\n"
            assert await _processes(sandbox, run) == []

    asyncio.run(story())


def test_a_command_that_the_memory_limit_kills_is_told_from_a_plain_137(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started(resources=Resources(memory_bytes=64 << 20)) as sandbox:
            hog = Command(("bash", "-c", "x=a; while :; do x=$x$x; done"))
            failed = (await sandbox.exec(hog, timeout_s=BOUND_S)).failure()
            assert failed.trouble is SandboxTrouble.OUT_OF_MEMORY
            assert "ran out of its memory" in failed.message
            assert (await run(sandbox, "kill -KILL $$")).exit_code == 137

    asyncio.run(story())


def test_thirty_two_at_once(bench: Bench, run: Any) -> None:
    async def one(number: int) -> bytes:
        async with bench.started() as sandbox:
            return (await run(sandbox, f"echo {number}")).stdout

    async def story() -> None:
        assert await asyncio.gather(*map(one, range(32))) == [b"%d\n" % number for number in range(32)]

    asyncio.run(story())


def test_sixty_four_commands_at_once_in_one_sandbox(bench: Bench, run: Callable[..., Any]) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            found = await asyncio.gather(*(run(sandbox, f"sleep 1; echo {number}") for number in range(64)))
            assert [result.stdout for result in found] == [b"%d\n" % number for number in range(64)]

    asyncio.run(story())
