"""The same supervisor in the local sandboxes that clinebox ships, in each containment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from returns.pipeline import is_successful

from clinebox.adapters.sandboxes.local import ContainmentChoice, LocalSandboxProvider
from clinebox.adapters.supervisor.client import SupervisorClient
from clinebox.adapters.supervisor.plan import SupervisedPlan
from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.ports import Command, Sandbox, SandboxSpec
from clinebox.domain.receipt import CleanupReceipt
from clinebox.domain.shell import session_directory

T = TypeVar("T")
CONTAINMENTS: list[ContainmentChoice] = ["plain", "unshare", "bubblewrap"]
SERVICES = "setsid sleep 2401 & (setsid env -i /bin/sleep 2402 &); "


def in_sandbox(
    tmp_path: Path, containment: ContainmentChoice, story: Callable[[Sandbox, SupervisorClient], Awaitable[T]]
) -> T:
    workdir = tmp_path / "desk"
    workdir.mkdir()

    async def whole() -> T:
        provider = LocalSandboxProvider(containment, private_base=tmp_path)
        sandbox = (await provider.start(SandboxSpec(workdir=str(workdir)), timeout_s=60)).unwrap()
        try:
            where = session_directory(f"{sandbox.description.session_root}/s1").unwrap()
            return await story(sandbox, SupervisorClient(sandbox, where))
        finally:
            (await sandbox.stop(timeout_s=60)).unwrap()

    return asyncio.run(whole())


def plan(tmp_path: Path, script: str) -> SupervisedPlan:
    work = str(tmp_path / "desk")
    return SupervisedPlan(
        ("bash", "-c", script), cwd=work, run_timeout_s=60, prompt=b"hi", cleanup_timeout_s=5
    )


async def until_up(sandbox: Sandbox, tmp_path: Path) -> None:
    give_up = time.monotonic() + 60
    up = Command(argv=("test", "-e", f"{tmp_path}/desk/up"))
    while (await sandbox.exec(up, timeout_s=10)).unwrap().exit_code != 0:
        assert time.monotonic() < give_up


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_services_outlive_the_harness_and_die_at_close(
    tmp_path: Path, containment: ContainmentChoice
) -> None:
    async def story(_: Sandbox, client: SupervisorClient) -> tuple[CleanupReceipt, int, int]:
        (await client.prepare(plan(tmp_path, SERVICES + "cat; exit 3"))).unwrap()
        receipt = (await client.run()).unwrap().receipt
        still = (await client.look()).unwrap()
        ended = (await client.end_leftovers()).unwrap()
        (await client.remove()).unwrap()
        return receipt, len(still.left), len(ended.left)

    receipt, still, left = in_sandbox(tmp_path, containment, story)
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.error) == (True, 3, None)
    assert (len(receipt.survivors), still, left) == (2, 2, 0)


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_stop_ends_everything(tmp_path: Path, containment: ContainmentChoice) -> None:
    async def story(sandbox: Sandbox, client: SupervisorClient) -> tuple[CleanupReceipt, int]:
        (await client.prepare(plan(tmp_path, SERVICES + "touch up; sleep 2403"))).unwrap()
        running = asyncio.create_task(client.run())
        await until_up(sandbox, tmp_path)
        (await client.request_stop(StoppedBy.OPERATOR)).unwrap()
        receipt = (await running).unwrap().receipt
        return receipt, len((await client.look()).unwrap().left)

    receipt, left = in_sandbox(tmp_path, containment, story)
    assert (receipt.cleanup_confirmed, receipt.stopped_by, receipt.error) == (True, StoppedBy.OPERATOR, None)
    assert (receipt.return_code, receipt.survivors, left) == (130, (), 0)


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_killed_supervisor_is_found_out(tmp_path: Path, containment: ContainmentChoice) -> None:
    async def story(sandbox: Sandbox, client: SupervisorClient) -> tuple[CleanupReceipt, int]:
        (await client.prepare(plan(tmp_path, SERVICES + "touch up; sleep 2404"))).unwrap()
        running = asyncio.create_task(client.run())
        await until_up(sandbox, tmp_path)
        pid_file = f"{sandbox.description.session_root}/s1/supervisor.pid"
        kill = Command(argv=("bash", "-c", 'read pid _ < "$0"; kill -9 "$pid"', pid_file))
        assert is_successful(await sandbox.exec(kill, timeout_s=10))
        receipt = (await running).unwrap().receipt
        return receipt, len((await client.look()).unwrap().left)

    receipt, left = in_sandbox(tmp_path, containment, story)
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.survivors) == (False, None, ())
    assert "the supervisor left no receipt" in (receipt.error or "")
    assert left == 0
