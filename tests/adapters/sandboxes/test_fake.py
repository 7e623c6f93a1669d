"""The fake sandbox as other people's tests use it: scripted answers, files, faults."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

import pytest
from returns.pipeline import is_successful

from clinebox.adapters.sandboxes.fake import (
    Answer,
    Call,
    FakeSandbox,
    FakeSandboxProvider,
    Fault,
)
from clinebox.adapters.sandboxes.fake_files import FakeFile, FakeFiles
from clinebox.domain.ports import Command, SandboxFailure, SandboxSpec, SandboxState, SandboxTrouble

BOUND_S = 30.0
SPEC = SandboxSpec("/work-of-a-test")
T = TypeVar("T")


def grep(command: Command, files: FakeFiles) -> Answer | SandboxFailure:
    """A script that works on the files, knows a slow command and one that a provider refuses."""
    match command.argv:
        case ("grep", word, path):
            content = files.read(path).value_or(b"")
            lines = [line for line in content.splitlines(keepends=True) if word.encode() in line]
            return Answer(exit_code=0 if lines else 1, stdout=b"".join(lines))
        case ("slow",):
            return Answer(stdout=b"before\n", takes_s=1000)
        case _:
            return SandboxFailure(SandboxTrouble.UNAVAILABLE, "no such program in this test")


async def started(provider: FakeSandboxProvider) -> FakeSandbox:
    sandbox = (await provider.start(SPEC, timeout_s=BOUND_S)).unwrap()
    assert isinstance(sandbox, FakeSandbox)
    return sandbox


def run(scenario: Coroutine[None, None, T]) -> T:
    return asyncio.run(scenario)


def test_a_script_answers_from_the_files_and_the_commands_are_kept() -> None:
    async def scenario() -> None:
        sandbox = await started(FakeSandboxProvider(grep))
        sandbox.files.by_path["/a/f"] = FakeFile(b"one\ntwo\n")
        done = (await sandbox.exec(Command(("grep", "two", "/a/f")), timeout_s=BOUND_S)).unwrap()
        assert (done.exit_code, done.stdout) == (0, b"two\n")
        done = (await sandbox.exec(Command(("grep", "three", "/a/f")), timeout_s=BOUND_S)).unwrap()
        assert (done.exit_code, done.stdout) == (1, b"")
        assert [each.argv[1] for each in sandbox.commands] == ["two", "three"]

    run(scenario())


def test_an_answer_that_takes_too_long_times_out_and_keeps_its_output() -> None:
    async def scenario() -> None:
        sandbox = await started(FakeSandboxProvider(grep))
        done = (await sandbox.exec(Command(("slow",)), timeout_s=0.05)).unwrap()
        assert (done.timed_out, done.exit_code, done.stdout) == (True, None, b"before\n")

    run(scenario())


def test_a_script_may_refuse_and_without_a_script_everything_is() -> None:
    async def scenario() -> None:
        sandbox = await started(FakeSandboxProvider(grep))
        refused = (await sandbox.exec(Command(("odd",)), timeout_s=BOUND_S)).failure()
        assert refused == SandboxFailure(SandboxTrouble.UNAVAILABLE, "no such program in this test")
        sandbox = await started(FakeSandboxProvider())
        assert (
            await sandbox.exec(Command(("true",)), timeout_s=BOUND_S)
        ).failure().trouble is SandboxTrouble.BAD_REQUEST

    run(scenario())


def test_a_lost_sandbox_wakes_its_commands_and_answers_lost() -> None:
    async def scenario() -> None:
        provider = FakeSandboxProvider(grep)
        sandbox = await started(provider)
        running = asyncio.create_task(sandbox.exec(Command(("slow",)), timeout_s=BOUND_S))
        while not sandbox.commands:  # noqa: ASYNC110 - one turn of the loop, no waiting
            await asyncio.sleep(0)
        provider.lose(sandbox)
        assert (await running).failure().trouble is SandboxTrouble.LOST
        assert (await sandbox.upload("/f", b"", timeout_s=BOUND_S)).failure().trouble is SandboxTrouble.LOST
        status = (await sandbox.status(timeout_s=BOUND_S)).unwrap()
        assert (status.state, "vanished" in status.message) == (SandboxState.STOPPED, True)
        assert provider.sandboxes == ()

    run(scenario())


@pytest.mark.parametrize("trouble", SandboxTrouble)
@pytest.mark.parametrize(
    "call", [Call.EXEC, Call.UPLOAD, Call.DOWNLOAD, Call.STOP, Call.STATUS, Call.RESOURCE_USAGE]
)
def test_a_fault_fails_the_call_that_it_is_for_once(call: Call, trouble: SandboxTrouble) -> None:
    async def scenario() -> None:
        provider = FakeSandboxProvider(grep)
        sandbox = await started(provider)
        provider.fail_next(call, trouble, "as the test wants")
        calls = {
            Call.EXEC: lambda: sandbox.exec(Command(("grep", "x", "/f")), timeout_s=BOUND_S),
            Call.UPLOAD: lambda: sandbox.upload("/f", b"", timeout_s=BOUND_S),
            Call.DOWNLOAD: lambda: sandbox.download("/f", limit_bytes=1, timeout_s=BOUND_S),
            Call.STATUS: lambda: sandbox.status(timeout_s=BOUND_S),
            Call.RESOURCE_USAGE: lambda: sandbox.resource_usage(timeout_s=BOUND_S),
            Call.STOP: lambda: sandbox.stop(timeout_s=BOUND_S),
        }
        for other, make in calls.items():
            if other not in {call, Call.STOP}:
                assert "as the test wants" not in str(await make())
        assert (await calls[call]()).failure() == SandboxFailure(trouble, "as the test wants")
        assert "as the test wants" not in str(await calls[call]())

    run(scenario())


def test_faults_given_at_the_start_are_used_up_in_their_number() -> None:
    async def scenario() -> None:
        provider = FakeSandboxProvider(faults=[Fault(Call.START, SandboxTrouble.DISK_FULL, "full", times=2)])
        results = [await provider.start(SPEC, timeout_s=BOUND_S) for _ in range(3)]
        assert [is_successful(each) for each in results] == [False, False, True]
        assert results[0].failure() == SandboxFailure(SandboxTrouble.DISK_FULL, "full")

    run(scenario())
