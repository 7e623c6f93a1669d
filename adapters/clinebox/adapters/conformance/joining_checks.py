"""Several handles on one sandbox: connected, let go, and told apart."""

from __future__ import annotations

import asyncio
from typing import Final

from returns.pipeline import is_successful

from clinebox.adapters.conformance.life_checks import SLEEP_S, state_of
from clinebox.adapters.conformance.model import Bench, Check, expect, expect_trouble, offered
from clinebox.domain.ports import SandboxDescriptor, SandboxState, SandboxTrouble


async def _connected(bench: Bench) -> None:
    async with bench.sandbox() as first:
        descriptor = offered(bench.provider.serialize(first))
        expect(
            all(isinstance(each, str) for each in descriptor.fields.values()),
            f"{descriptor} is no plain text",
        )
        second = offered(await bench.provider.connect(descriptor, timeout_s=bench.timeout_s))
        path = bench.place(first, "f")
        await bench.put(first, path, b"shared")
        expect(await bench.get(second, path) == b"shared", "a second handle sees other files")
        await second.disconnect()
        await second.disconnect()
        refused = await second.upload(path, b"", timeout_s=bench.timeout_s)
        expect(not is_successful(refused), "a disconnected handle still works")
        expect(await bench.get(first, path) == b"shared", "a disconnect ended the sandbox")
        third = offered(await bench.provider.connect(descriptor, timeout_s=bench.timeout_s))
        offered(await third.stop(timeout_s=bench.timeout_s))
        expect(await state_of(bench, first) is not SandboxState.RUNNING, "another handle's stop did nothing")
        gone = await bench.provider.connect(descriptor, timeout_s=bench.timeout_s)
        expect_trouble(gone, SandboxTrouble.NOT_FOUND)


async def _connected_exec(bench: Bench) -> None:
    async with bench.sandbox() as first:
        descriptor = offered(bench.provider.serialize(first))
        second = offered(await bench.provider.connect(descriptor, timeout_s=bench.timeout_s))
        result, timed = await asyncio.gather(
            bench.run(first, "sleep 2; echo whole"), bench.run(second, f"sleep {SLEEP_S}", timeout_s=1)
        )
        await second.disconnect()
        expect(timed.timed_out, f"the second handle's command ended as {timed}")
        expect(result.stdout == b"whole\n", f"another handle's timeout ended it: {result}")


async def _let_go(bench: Bench) -> None:
    async with bench.sandbox() as first:
        descriptor = offered(bench.provider.serialize(first))
        await first.disconnect()
        second = offered(await bench.provider.connect(descriptor, timeout_s=bench.timeout_s))
        expect(await state_of(bench, second) is SandboxState.RUNNING, "a disconnect ended the sandbox")
        offered(await second.stop(timeout_s=bench.timeout_s))
        expect(await bench.found() == (), "the sandbox is still there after its stop")


async def _foreign(bench: Bench) -> None:
    descriptor = SandboxDescriptor("no-such-provider", {"id": "x"})
    connected = await bench.provider.connect(descriptor, timeout_s=bench.timeout_s)
    expect_trouble(connected, SandboxTrouble.BAD_REQUEST)


CHECKS: Final = (
    Check(
        "life.connect",
        "a descriptor finds it again; a disconnect lets it live, a stop ends it",
        "Put into the descriptor what finds it in another process.",
        _connected,
    ),
    Check(
        "life.connect-exec",
        "a timeout at one handle ends no command of another",
        "Mark each handle's commands apart.",
        _connected_exec,
    ),
    Check(
        "life.disconnect",
        "its own starter can let go of it",
        "Give back what the handle holds, end nothing.",
        _let_go,
    ),
    Check(
        "life.foreign-descriptor",
        "another provider's descriptor is refused",
        "Compare the descriptor's provider first.",
        _foreign,
    ),
)
