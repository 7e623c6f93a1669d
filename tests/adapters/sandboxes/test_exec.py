"""Commands in a local sandbox, the same list of behaviours in every containment."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from returns.pipeline import is_successful

from clinebox.adapters.sandboxes.process_table import find_tree
from clinebox.domain.ports import Command, ExecResult, SandboxTrouble

if TYPE_CHECKING:
    from tests.adapters.sandboxes.conftest import Start, Until

    from clinebox.adapters.sandboxes.local import ContainmentChoice
    from clinebox.adapters.sandboxes.local_sandbox import LocalSandbox

BOUND_S = 30.0


async def run(
    sandbox: LocalSandbox, script: str, *, stdin: bytes = b"", timeout_s: float = BOUND_S
) -> ExecResult:
    command = Command(("bash", "-c", script), stdin=stdin)
    return (await sandbox.exec(command, timeout_s=timeout_s)).unwrap()


def marked(sandbox: LocalSandbox) -> list[int]:
    marker = f"CLINEBOX_EXEC={sandbox.description.sandbox_id}.".encode()
    own = {os.getpid()} | (
        {sandbox.jail.launcher.process.pid, sandbox.jail.init.pid} if sandbox.jail else set()
    )
    return [each.pid for each in find_tree(markers=(marker,)) if each.pid not in own]


def test_every_exit_code_comes_back(start: Start, containment: ContainmentChoice, workdir: Path) -> None:
    async def scenario() -> list[int | None]:
        async with start(containment, workdir) as sandbox:
            gate = asyncio.Semaphore(4)

            async def exit_with(code: int) -> int | None:
                async with gate:
                    return (await run(sandbox, f"exit {code}")).exit_code

            return await asyncio.gather(*(exit_with(code) for code in range(256)))

    assert asyncio.run(scenario()) == list(range(256))


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM]
)
def test_a_signal_is_128_plus_its_number(
    start: Start, containment: ContainmentChoice, workdir: Path, number: signal.Signals
) -> None:
    async def scenario() -> int | None:
        async with start(containment, workdir) as sandbox:
            return (await run(sandbox, f"ulimit -c 0; kill -{number.value} $$")).exit_code

    assert asyncio.run(scenario()) == 128 + number


def test_a_program_that_is_not_there_is_127_and_one_that_cannot_run_126(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    (workdir / "data").write_text("no program")

    async def scenario() -> list[int | None]:
        async with start(containment, workdir) as sandbox:
            commands = [Command(("no-such-program",)), Command((str(workdir / "data"),))]
            return [(await sandbox.exec(each, timeout_s=BOUND_S)).unwrap().exit_code for each in commands]

    assert asyncio.run(scenario()) == [127, 126]


def test_a_program_named_like_a_variable_is_run(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    program = workdir / "a=b"
    program.write_text('#!/bin/sh\necho ran "$@"\n')
    program.chmod(0o755)

    async def scenario() -> bytes:
        async with start(containment, workdir) as sandbox:
            command = Command(("./a=b", "-x", "", "two words", "$HOME", "\n"))
            return (await sandbox.exec(command, timeout_s=BOUND_S)).unwrap().stdout

    assert asyncio.run(scenario()) == b"ran -x  two words $HOME \n\n"


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 1 << 20])
def test_stdin_arrives_whole_and_ends(
    start: Start, containment: ContainmentChoice, workdir: Path, size: int
) -> None:
    content = os.urandom(size)

    async def scenario() -> bytes:
        async with start(containment, workdir) as sandbox:
            return (await run(sandbox, "cat", stdin=content)).stdout

    assert asyncio.run(scenario()) == content


def test_stdin_is_a_pipe_and_an_unread_one_does_no_harm(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> ExecResult:
        async with start(containment, workdir) as sandbox:
            return await run(sandbox, "test -p /dev/stdin && echo pipe", stdin=b"x" * (1 << 20))

    result = asyncio.run(scenario())
    assert (result.exit_code, result.stdout) == (0, b"pipe\n")


def test_the_working_directory_is_the_tasks_unless_another_is_named(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    (workdir / "sub").mkdir()

    async def scenario() -> list[bytes]:
        async with start(containment, workdir) as sandbox:
            commands = [
                Command(("pwd",)),
                Command(("pwd",), cwd=str(workdir / "sub")),
                Command(("pwd",), cwd="/"),
            ]
            return [(await sandbox.exec(each, timeout_s=BOUND_S)).unwrap().stdout for each in commands]

    assert asyncio.run(scenario()) == [f"{workdir}\n".encode(), f"{workdir}/sub\n".encode(), b"/\n"]


@pytest.mark.parametrize("cwd", ["relative", "/no/such/directory", "/etc/passwd"])
def test_a_working_directory_that_is_none_is_the_callers_fault(
    start: Start, containment: ContainmentChoice, workdir: Path, cwd: str
) -> None:
    async def scenario() -> tuple[SandboxTrouble, str]:
        async with start(containment, workdir) as sandbox:
            failure = (await sandbox.exec(Command(("true",), cwd=cwd), timeout_s=BOUND_S)).failure()
            return failure.trouble, failure.message

    trouble, message = asyncio.run(scenario())
    assert trouble is SandboxTrouble.BAD_REQUEST
    assert cwd in message


def test_a_command_may_exit_with_125_itself(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> int | None:
        async with start(containment, workdir) as sandbox:
            return (await run(sandbox, "exit 125")).exit_code

    assert asyncio.run(scenario()) == 125


@pytest.mark.parametrize(
    "refusal",
    [
        (Command(()), 5.0, "empty"),
        (Command(("",)), 5.0, "empty"),
        (Command(("true", "a\0b")), 5.0, "NUL"),
        (Command(("true",), env={"A=B": "c"}), 5.0, "A=B"),
        (Command(("true",), env={"": "c"}), 5.0, "''"),
        (Command(("true",), env={"NAME": "secret\0"}), 5.0, "NAME"),
        (Command(("true", "x" * (1 << 18))), 5.0, "too long"),
        (Command(("true",)), 0.0, "0.0"),
        (Command(("true",)), -1.0, "-1.0"),
        (Command(("true",)), float("nan"), "nan"),
    ],
)
def test_what_no_process_can_be_given_is_refused_with_a_sentence(
    start: Start, containment: ContainmentChoice, workdir: Path, refusal: tuple[Command, float, str]
) -> None:
    command, timeout_s, word = refusal

    async def scenario() -> tuple[SandboxTrouble, str]:
        async with start(containment, workdir) as sandbox:
            failure = (await sandbox.exec(command, timeout_s=timeout_s)).failure()
            return failure.trouble, failure.message

    trouble, message = asyncio.run(scenario())
    assert trouble is SandboxTrouble.BAD_REQUEST
    assert word in message
    assert "secret" not in message


def test_a_timeout_keeps_the_output_and_ends_the_tree_with_its_daemons(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    script = (
        "setsid bash -c 'trap \"\" TERM INT HUP; printf d; while :; do sleep 100; done' & "
        "(setsid sleep 1000 &) ; printf half; trap '' TERM; while :; do sleep 100; done"
    )

    async def scenario() -> tuple[ExecResult, list[int]]:
        async with start(containment, workdir) as sandbox:
            result = await run(sandbox, script, timeout_s=1.5)
            return result, marked(sandbox)

    result, left = asyncio.run(scenario())
    assert (result.timed_out, result.exit_code) == (True, None)
    assert sorted(result.stdout) == sorted(b"dhalf")
    assert left == []


def test_a_timeout_ends_no_other_exec(start: Start, containment: ContainmentChoice, workdir: Path) -> None:
    async def scenario() -> tuple[ExecResult, ExecResult]:
        async with start(containment, workdir) as sandbox:
            other = asyncio.create_task(run(sandbox, "until test -e done; do sleep 0.05; done; echo lived"))
            overrun = await run(sandbox, "sleep 100", timeout_s=0.5)
            (workdir / "done").touch()
            return overrun, await other

    overrun, other = asyncio.run(scenario())
    assert overrun.timed_out
    assert (other.exit_code, other.stdout) == (0, b"lived\n")


def test_a_cancelled_exec_ends_its_tree(
    start: Start, until: Until, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> list[int]:
        async with start(containment, workdir) as sandbox:
            task = asyncio.create_task(run(sandbox, "setsid sleep 1000 & touch started; sleep 1000"))
            await until((workdir / "started").exists, "the command runs")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return marked(sandbox)

    assert asyncio.run(scenario()) == []


def test_an_exec_returns_with_its_command_though_a_background_child_holds_the_output(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> tuple[ExecResult, list[int]]:
        async with start(containment, workdir) as sandbox:
            result = await run(sandbox, "sleep 1000 & setsid sleep 1000 & echo ok", timeout_s=BOUND_S)
            return result, marked(sandbox)

    result, background = asyncio.run(scenario())
    assert (result.exit_code, result.stdout, result.timed_out) == (0, b"ok\n", False)
    assert len(background) == 2  # they are the sandbox's to keep until it stops


def test_what_one_exec_leaves_running_is_seen_by_the_next(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> ExecResult:
        async with start(containment, workdir) as sandbox:
            await run(sandbox, "setsid sleep 1000 >/dev/null 2>&1 & echo $! >pid")
            return await run(sandbox, "kill -0 $(cat pid) && tr '\\0' ' ' </proc/$(cat pid)/cmdline")

    assert asyncio.run(scenario()).stdout == b"sleep 1000 "


def test_the_command_leads_its_own_session_and_group_with_default_signals(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    script = (
        "read -r _ _ _ _ group session _ </proc/$$/stat; echo $(($$ == group)) $(($$ == session)); "
        "grep -E 'Sig(Ign|Blk)' /proc/self/status | tr -d '\\t'"
    )

    async def scenario() -> bytes:
        async with start(containment, workdir) as sandbox:
            return (await run(sandbox, script)).stdout

    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as under nohup, or a shell's `&`
    try:
        output = asyncio.run(scenario())
    finally:
        signal.signal(signal.SIGINT, previous)
    assert output.split() == [b"1", b"1", b"SigBlk:0000000000000000", b"SigIgn:0000000000000000"]


def test_a_stopped_command_that_goes_on_is_still_waited_for(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    script = "(until grep -q '^State:.T' /proc/$$/status; do :; done; kill -CONT $$) & kill -STOP $$; exit 9"

    async def scenario() -> int | None:
        async with start(containment, workdir) as sandbox:
            return (await run(sandbox, script)).exit_code

    assert asyncio.run(scenario()) == 9


def test_no_descriptor_and_no_zombie_is_left_by_many_execs(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    def open_now() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def scenario() -> tuple[int, int]:
        async with start(containment, workdir) as sandbox:
            await run(sandbox, "true")
            before = open_now()
            for _ in range(3):
                await asyncio.gather(*(run(sandbox, "sleep 0.01 & exit 1") for _ in range(8)))
            after = open_now()
            assert is_successful(await sandbox.exec(Command(("no-such",)), timeout_s=BOUND_S))
            return before, after

    before, after = asyncio.run(scenario())
    assert after == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
