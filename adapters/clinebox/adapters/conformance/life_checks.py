"""The life of a sandbox: started, found, joined, let go, stopped, and nothing left."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Final

from clinebox.adapters.conformance.model import (
    LABEL,
    Bench,
    Check,
    CheckFailedError,
    NotOfferedError,
    expect,
    expect_trouble,
    offered,
)
from clinebox.domain.ports import (
    Command,
    Reaped,
    ReapRule,
    Sandbox,
    SandboxState,
    SandboxTrouble,
)

CANCEL_AFTER_S: Final = (0.0, 0.002, 0.01, 0.05, 0.2)
TTL_S: Final = 1.5
SLOW_S: Final = 15.0
MANY: Final = 32
SLEEP_S: Final = 300


async def _two(bench: Bench) -> None:
    async with bench.sandbox() as one, bench.sandbox() as two:
        ids = {one.description.sandbox_id, two.description.sandbox_id}
        expect(len(ids) == 2, f"two starts gave {ids}")  # noqa: PLR2004
        await bench.put(one, bench.place(one, "f"), b"one")
        await bench.put(two, bench.place(two, "f"), b"two")
        expect(await bench.get(one, bench.place(one, "f")) == b"one", "two sandboxes share their files")


async def _stopped(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        path = bench.place(sandbox, "f")
        await bench.put(sandbox, path, b"")
        for _ in range(2):
            offered(await sandbox.stop(timeout_s=bench.timeout_s))
        expect(await state_of(bench, sandbox) is not SandboxState.RUNNING, "a stopped sandbox is RUNNING")
        expect_trouble(await sandbox.exec(Command(("true",)), timeout_s=bench.timeout_s), SandboxTrouble.LOST)
        put = await sandbox.upload(path, b"", timeout_s=bench.timeout_s)
        expect_trouble(put, SandboxTrouble.LOST)
        expect(await bench.found() == (), "a stopped sandbox is still found by its label")


async def state_of(bench: Bench, sandbox: Sandbox) -> SandboxState:
    """What the provider says of it now."""
    return offered(await sandbox.status(timeout_s=bench.timeout_s)).state


async def _running(bench: Bench, sandbox: Sandbox) -> asyncio.Task[object]:
    """An exec that is known to run."""
    await bench.put(sandbox, bench.place(sandbox, "x"), b"")
    path = bench.place(sandbox, "started")
    command = Command(("sh", "-c", f'echo up >"$1"; sleep {SLEEP_S}; true', "sh", path))

    async def run() -> object:
        return await sandbox.exec(command, timeout_s=bench.timeout_s)

    task = asyncio.create_task(run())
    seen = asyncio.create_task(bench.appears(sandbox, path))
    await asyncio.wait({task, seen}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        seen.cancel()
        offered(await sandbox.exec(command, timeout_s=bench.timeout_s))
    await seen
    return task


async def _stop_while_running(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        task = await _running(bench, sandbox)
        offered(await sandbox.stop(timeout_s=bench.timeout_s))
        await _expect_lost(task)


async def _expect_lost(task: asyncio.Task[object]) -> None:
    ended = str(await task)
    expect("lost" in ended.lower() and "Failure" in ended, f"the running exec ended as {ended}")


async def _removed_by_another(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        task = await _running(bench, sandbox)
        await _reaped(bench, dry_run=False)
        await _expect_lost(task)
        expect_trouble(await sandbox.exec(Command(("true",)), timeout_s=bench.timeout_s), SandboxTrouble.LOST)


async def _cancelled_start(bench: Bench) -> None:
    spec = replace(bench.spec, labels=bench.labels)
    for after_s in CANCEL_AFTER_S:
        task = asyncio.create_task(_start(bench, spec))
        await asyncio.wait({task}, timeout=after_s)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).stop(timeout_s=bench.timeout_s)
        await bench.ends(
            lambda: _none_found(bench), f"nothing of a start cancelled after {after_s} s is left"
        )


async def _start(bench: Bench, spec: object) -> Sandbox:
    return offered(await bench.provider.start(spec, timeout_s=bench.timeout_s))  # type: ignore[arg-type]


async def _none_found(bench: Bench) -> bool:
    return await bench.found() == ()


async def _status(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        status = offered(await sandbox.status(timeout_s=bench.timeout_s))
        expect(status.state is SandboxState.RUNNING, f"a running sandbox is {status}")


async def _reaped(
    bench: Bench, *, dry_run: bool, expired_only: bool = False, token: str | None = None
) -> tuple[Reaped, ...]:
    labels = {LABEL: token or bench.token}
    rule = ReapRule(labels=labels, expired_only=expired_only, dry_run=dry_run)
    return offered(await bench.provider.reap(rule, timeout_s=bench.timeout_s))


async def _reap(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        expect(await _reaped(bench, dry_run=False, token="another") == (), "another label found it")  # noqa: S106
        expired = await _reaped(bench, dry_run=False, expired_only=True)
        expect(expired == (), "a sandbox without a time to live was taken for expired")
        told = await _reaped(bench, dry_run=True)
        ids = [each.sandbox_id for each in told]
        expect(ids == [sandbox.description.sandbox_id], f"a dry run told {ids}")
        expect(told[0].labels.get(LABEL) == bench.token, f"the labels came as {told[0].labels}")
        expect(await state_of(bench, sandbox) is SandboxState.RUNNING, "a dry run ended the sandbox")
        removed = await _reaped(bench, dry_run=False)
        expect([each.problem for each in removed] == [None], f"the reaper told {removed}")
        expect(await state_of(bench, sandbox) is not SandboxState.RUNNING, "a reaped sandbox is RUNNING")
        expect(await bench.found() == (), "a reaped sandbox is still found")


async def _ttl(bench: Bench) -> None:
    async with bench.sandbox(replace(bench.spec, ttl_s=TTL_S)) as sandbox:

        async def over() -> bool:
            return await state_of(bench, sandbox) is not SandboxState.RUNNING

        await bench.ends(over, f"a time to live of {TTL_S} s is over")
        done = await sandbox.exec(Command(("true",)), timeout_s=bench.timeout_s)
        expect_trouble(done, SandboxTrouble.LOST)
        await _reaped(bench, dry_run=False, expired_only=True)
        expect(await bench.found() == (), "an expired sandbox is still there after the reaper")


async def _ttl_running(bench: Bench) -> None:
    try:
        await _ends_by_time(bench, TTL_S)
    except CheckFailedError:  # a slow machine: nothing ran yet when the time was over
        await _ends_by_time(bench, SLOW_S)


async def _ends_by_time(bench: Bench, ttl_s: float) -> None:
    async with bench.sandbox(replace(bench.spec, ttl_s=ttl_s)) as sandbox:
        await _expect_lost(await _running(bench, sandbox))


async def _many(bench: Bench) -> None:
    async def one(number: int) -> None:
        async with bench.sandbox() as sandbox:
            done = await bench.run(sandbox, f"echo {number}")
            expect(done.stdout == b"%d\n" % number, f"number {number} said {done.stdout!r}")

    ended = await asyncio.gather(*(one(number) for number in range(MANY)), return_exceptions=True)
    for error in (each for each in ended if isinstance(each, BaseException)):
        raise error
    expect(await bench.found() == (), "not all of them are gone")


async def _usage(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        await bench.run(sandbox, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
        usage = offered(await sandbox.resource_usage(timeout_s=bench.timeout_s))
        if usage.cpu_s is None or usage.peak_memory_bytes is None:
            raise NotOfferedError("CPU time or memory are not measured here.")
        expect(usage.cpu_s > 0 and usage.peak_memory_bytes > 0, f"a busy loop used {usage}")


CHECKS: Final = (
    Check("life.two", "two starts give two sandboxes", "Give each start its own id and place.", _two),
    Check(
        "life.stop",
        "a stop may come twice; then everything is LOST and nothing is found",
        "Remember the stop, and answer LOST after it.",
        _stopped,
    ),
    Check(
        "life.stop-while-running",
        "an exec that runs when it is stopped ends as LOST",
        "Wake waiting execs at a stop.",
        _stop_while_running,
    ),
    Check(
        "life.removed-by-another",
        "a sandbox that is removed from outside is LOST",
        "Take the engine's word for a vanished sandbox; do not wait for a timeout.",
        _removed_by_another,
    ),
    Check(
        "life.cancelled-start",
        "a start that is cancelled half way leaves nothing",
        "Label before start, and remove in a finally.",
        _cancelled_start,
    ),
    Check("life.status", "a running sandbox says so", "Ask the engine.", _status),
    Check(
        "life.reap",
        "sandboxes are found by label, told by a dry run, removed by a real one",
        "Keep labels and expiry on the provider's side.",
        _reap,
    ),
    Check(
        "life.ttl",
        "a sandbox ends when its time to live is over",
        "Keep the time on the provider's side, not in the controller.",
        _ttl,
    ),
    Check(
        "life.ttl-while-running",
        "an exec that runs then ends as LOST",
        "Wake waiting execs when the sandbox ends.",
        _ttl_running,
    ),
    Check(
        "life.many",
        "32 at once start, run and go",
        "Bound threads and connections; make names unique.",
        _many,
        is_heavy=True,
    ),
    Check(
        "life.usage",
        "CPU time and peak memory are measured",
        "Read them from the control group or the engine.",
        _usage,
    ),
)
