"""A container's life: started, found again, lost, reaped, removed; `bench` sees that nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from clinebox.domain.ports import (
    Command,
    NetworkMode,
    ReapRule,
    SandboxDescriptor,
    SandboxState,
    SandboxTrouble,
)

if TYPE_CHECKING:
    from conftest import Bench

BOUND_S = 60.0


def test_a_stop_may_come_twice_and_removes_everything(bench: Bench) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            assert len(bench.containers()) == 1
            await sandbox.stop(timeout_s=BOUND_S)
            assert (bench.containers(), bench.roots()) == ([], [])
            seen = (await sandbox.status(timeout_s=BOUND_S)).unwrap()
            assert seen.state is SandboxState.STOPPED
            late = await sandbox.exec(Command(("true",)), timeout_s=BOUND_S)
            assert late.failure().trouble is SandboxTrouble.LOST

    asyncio.run(story())


def test_a_stop_ends_a_command_that_runs_as_lost(bench: Bench, until: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            task = asyncio.create_task(
                sandbox.exec(Command(("bash", "-c", "touch started; sleep 4711")), timeout_s=600)
            )
            await until((bench.workdir / "started").exists, "the command runs")
            await sandbox.stop(timeout_s=BOUND_S)
            assert (await task).failure().trouble is SandboxTrouble.LOST

    asyncio.run(asyncio.wait_for(story(), BOUND_S))


def test_a_start_that_is_cancelled_at_any_moment_leaves_nothing(bench: Bench) -> None:
    async def story() -> None:
        provider = bench.provider()
        for delay_ms in (0, 5, 20, 50, 100, 200, 300, 400):
            task = asyncio.create_task(provider.start(bench.spec(), timeout_s=BOUND_S))
            await asyncio.sleep(delay_ms / 1000)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await (await task).unwrap().stop(timeout_s=BOUND_S)
            assert (bench.containers(), bench.roots()) == ([], [])

    asyncio.run(story())


def test_a_start_that_takes_too_long_leaves_nothing(bench: Bench) -> None:
    async def story() -> None:
        failed = (await bench.provider().start(bench.spec(), timeout_s=0.05)).failure()
        assert failed.trouble is SandboxTrouble.TIMED_OUT

    asyncio.run(story())


def test_a_container_that_is_removed_from_outside_is_lost(bench: Bench, until: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            task = asyncio.create_task(
                sandbox.exec(Command(("bash", "-c", "touch started; sleep 4711")), timeout_s=600)
            )
            await until((bench.workdir / "started").exists, "the command runs")
            with bench.client() as api:
                api.remove_container(sandbox.container.id, force=True)
            assert (await task).failure().trouble is SandboxTrouble.LOST
            later = await sandbox.exec(Command(("true",)), timeout_s=BOUND_S)
            assert later.failure().trouble is SandboxTrouble.LOST
            assert "knows nothing of" in later.failure().message
            assert (await sandbox.status(timeout_s=BOUND_S)).unwrap().state is SandboxState.GONE

    asyncio.run(asyncio.wait_for(story(), BOUND_S))


def test_the_time_to_live_ends_it_without_its_controller(bench: Bench, until: Any) -> None:
    async def story() -> None:
        sandbox = (await bench.provider().start(bench.spec(ttl_s=1), timeout_s=BOUND_S)).unwrap()
        await sandbox.disconnect()
        await until(lambda: not bench.containers(), "the container is gone")
        assert len(bench.roots()) == 1
        # The directory that it leaves on the host goes with the next start.
        async with bench.started():
            assert len(bench.roots()) == 1

    asyncio.run(asyncio.wait_for(story(), BOUND_S))


def test_labels_are_on_it_before_it_starts_and_carry_no_secret(bench: Bench) -> None:
    async def story() -> None:
        labels = {"clinebox.session": "s1", "clinebox.rollout": "r1"}
        async with bench.started(labels=labels, env={"KEY": "secret-value-1234"}) as sandbox:
            (found,) = bench.containers()
            assert found["Labels"].items() >= {**labels, "clinebox.sandbox": sandbox.container.name}.items()
            assert "secret-value-1234" not in str(found)

    asyncio.run(story())


def test_another_handle_finds_a_running_sandbox_by_its_descriptor(bench: Bench, run: Any) -> None:
    async def story() -> None:
        provider = bench.provider()
        async with bench.started(env={"A": "b"}) as sandbox:
            descriptor = provider.serialize(sandbox).unwrap()
            other = (await bench.provider().connect(descriptor, timeout_s=BOUND_S)).unwrap()
            assert (await run(other, "echo $A; pwd")).stdout.decode().split() == ["b", str(bench.workdir)]
            path = f"{other.description.session_root}/x"
            assert (await other.upload(path, b"1", timeout_s=BOUND_S)).value_or("failed") is None
            assert (await sandbox.download(path, limit_bytes=9, timeout_s=BOUND_S)).unwrap() == b"1"
            await other.disconnect()
            await other.disconnect()
            refused = (await other.exec(Command(("true",)), timeout_s=BOUND_S)).failure()
            assert refused.trouble is SandboxTrouble.BAD_REQUEST
            assert (await run(sandbox, "echo alive")).stdout == b"alive\n"
        gone = (await bench.provider().connect(descriptor, timeout_s=BOUND_S)).failure()
        assert gone.trouble is SandboxTrouble.NOT_FOUND

    asyncio.run(story())


def test_the_stop_of_another_handle_ends_it_all_the_same(bench: Bench) -> None:
    async def story() -> None:
        provider = bench.provider()
        sandbox = (await provider.start(bench.spec(), timeout_s=BOUND_S)).unwrap()
        descriptor = provider.serialize(sandbox).unwrap()
        await sandbox.disconnect()
        other = (await bench.provider().connect(descriptor, timeout_s=BOUND_S)).unwrap()
        assert (await other.stop(timeout_s=BOUND_S)).value_or("failed") is None

    asyncio.run(story())


def test_a_descriptor_of_another_provider_is_refused(bench: Bench) -> None:
    async def story() -> None:
        foreign = SandboxDescriptor("local", {"id": "x"})
        refused = (await bench.provider().connect(foreign, timeout_s=BOUND_S)).failure()
        assert refused.trouble is SandboxTrouble.BAD_REQUEST

    asyncio.run(story())


def test_a_container_that_is_not_ours_is_not_connected_to(bench: Bench) -> None:
    async def story() -> None:
        with bench.client() as api:
            foreign = api.create_container(
                "clinebox-test:base", ["sleep", "100"], labels={"test": bench.label}
            )["Id"]
            try:
                api.start(foreign)
                descriptor = SandboxDescriptor(bench.provider().name, {"id": foreign})
                failed = (await bench.provider().connect(descriptor, timeout_s=BOUND_S)).failure()
                assert failed.trouble is SandboxTrouble.NOT_FOUND
                rule = ReapRule({"test": bench.label}, expired_only=False, dry_run=False)
                assert (await bench.provider().reap(rule, timeout_s=BOUND_S)).unwrap() == ()
            finally:
                api.remove_container(foreign, force=True)

    asyncio.run(story())


def test_a_reaper_tells_first_and_removes_what_carries_every_label(bench: Bench) -> None:
    async def story() -> None:
        provider = bench.provider()
        await provider.start(bench.spec(labels={"kind": "a"}), timeout_s=BOUND_S)
        other = (await provider.start(bench.spec(labels={"kind": "b"}), timeout_s=BOUND_S)).unwrap()
        rule = ReapRule({"test": bench.label, "kind": "a"}, expired_only=False)
        (told,) = (await provider.reap(rule, timeout_s=BOUND_S)).unwrap()
        assert told.labels.items() >= {"kind": "a", "test": bench.label}.items()
        assert len(bench.containers()) == 2
        really = ReapRule(rule.labels, expired_only=False, dry_run=False)
        (removed,) = (await provider.reap(really, timeout_s=BOUND_S)).unwrap()
        assert (removed.sandbox_id, removed.problem) == (told.sandbox_id, None)
        assert len(bench.containers()) == len(bench.roots()) == 1
        await other.stop(timeout_s=BOUND_S)

    asyncio.run(story())


def test_a_reaper_of_the_expired_lets_the_living_be(bench: Bench) -> None:
    async def story() -> None:
        async with bench.started(ttl_s=600):
            rule = ReapRule({"test": bench.label}, dry_run=False)
            assert (await bench.provider().reap(rule, timeout_s=BOUND_S)).unwrap() == ()
            assert len(bench.containers()) == 1

    asyncio.run(story())


def test_what_it_used_is_measured(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            await run(
                sandbox, "x=$(head -c 30000000 /dev/zero | tr '\\0' a); for n in {1..20000}; do :; done"
            )
            used = (await sandbox.resource_usage(timeout_s=BOUND_S)).unwrap()
            assert used.cpu_s is not None
            assert used.cpu_s > 0
            assert used.peak_memory_bytes is None or used.peak_memory_bytes > 30_000_000

    asyncio.run(story())


@pytest.mark.parametrize("image", ["clinebox-nowhere:1", "clinebox-nowhere@sha256:" + "0" * 64])
def test_an_image_that_is_not_there_is_not_pulled_and_the_sentence_says_how(bench: Bench, image: str) -> None:
    async def story() -> None:
        failed = (await bench.provider().start(bench.spec(image=image), timeout_s=BOUND_S)).failure()
        assert failed.trouble is SandboxTrouble.UNAVAILABLE
        assert f"pull {image}" in failed.message

    asyncio.run(story())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"image": None}, "A container needs an image"),
        ({"workdir": "/nowhere/at/all"}, "cannot be reached"),
        ({"labels": {"clinebox.root": "/"}}, "clinebox's own"),
        ({"ttl_s": 0}, "must be a positive number"),
        ({"network": NetworkMode.GATEWAY}, "needs the gateway's address"),
    ],
)
def test_a_request_that_cannot_be_served_starts_nothing(
    bench: Bench, fields: dict[str, Any], words: str
) -> None:
    async def story() -> None:
        failed = (await bench.provider().start(bench.spec(**fields), timeout_s=BOUND_S)).failure()
        assert failed.trouble is SandboxTrouble.BAD_REQUEST
        assert words in failed.message

    asyncio.run(story())
