"""What a sandbox may reach, and how much it may use."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from returns.pipeline import is_successful

from clinebox.adapters.conformance.model import (
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
    HostPort,
    NetworkMode,
    Resources,
    Sandbox,
    SandboxTrouble,
)

ANSWER: Final = b"here\n"
NO_CLIENT: Final = 99
REACH_S: Final = 5.0
REACH: Final = f"""
if command -v bash >/dev/null; then bash -c 'exec 3<>"/dev/tcp/$0/$1" && cat <&3' "$1" "$2"
elif command -v nc >/dev/null; then nc "$1" "$2" </dev/null
elif command -v curl >/dev/null; then curl -s --http0.9 "http://$1:$2/"
else exit {NO_CLIENT}; fi
"""
MEMORY_BYTES: Final = 128 << 20
PIDS: Final = 64
CORES: Final = 0.5
SPIN_S: Final = 2.0
FORKS: Final = "i=0; while [ $i -lt $1 ]; do sleep 20 >/dev/null 2>&1 & i=$((i+1)); done; echo all"


@contextlib.asynccontextmanager
async def _listening(host: str) -> AsyncIterator[int]:
    """A real service on this host that says `here`; its port."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(ANSWER)
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, host, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _reaches(
    bench: Bench, sandbox: Sandbox, host: str, port: int, timeout_s: float | None = None
) -> bool:
    done = await bench.run(sandbox, REACH, host, str(port), timeout_s=timeout_s)
    if done.exit_code == NO_CLIENT:
        raise NotOfferedError("There is no bash, nc or curl inside to try the network with.")
    return done.stdout == ANSWER


def _own_addresses() -> tuple[str, ...]:
    """The host's loopback, and the address that it would go out by (nothing is sent)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        return ("127.0.0.1", str(probe.getsockname()[0]))
    return ("127.0.0.1",)


async def _full(bench: Bench) -> None:
    route = offered(await bench.provider.gateway_route(NetworkMode.FULL, timeout_s=bench.timeout_s))
    async with (
        _listening(route.listen_host) as port,
        bench.sandbox(replace(bench.spec, network=NetworkMode.FULL)) as sandbox,
    ):
        reached = await _reaches(bench, sandbox, route.inside_host, port)
        expect(reached, f"a service at {route.listen_host} was not reached as {route.inside_host}")


async def _none(bench: Bench) -> None:
    no_route = await bench.provider.gateway_route(NetworkMode.NONE, timeout_s=bench.timeout_s)
    expect_trouble(no_route, SandboxTrouble.BAD_REQUEST)
    async with (
        _listening("0.0.0.0") as port,  # noqa: S104 - every address of the host must be tried from inside
        bench.sandbox(replace(bench.spec, network=NetworkMode.NONE)) as sandbox,
    ):
        await _reaches_nothing(bench, sandbox, port)


async def _reaches_nothing(bench: Bench, sandbox: Sandbox, port: int) -> None:
    for host in _own_addresses():
        expect(not await _reaches(bench, sandbox, host, port, REACH_S), f"the host's {host} was reached")


async def _gateway(bench: Bench) -> None:
    route = offered(await bench.provider.gateway_route(NetworkMode.GATEWAY, timeout_s=bench.timeout_s))
    async with _listening(route.listen_host) as port, _listening("0.0.0.0") as other:  # noqa: S104 - as above
        gateway = HostPort(route.listen_host, port)
        spec = replace(bench.spec, network=NetworkMode.GATEWAY, gateway=gateway)
        async with bench.sandbox(spec) as sandbox:
            reached = await _reaches(bench, sandbox, route.inside_host, port)
            expect(reached, f"the gateway at {gateway} was not reached as {route.inside_host}")
            await _reaches_nothing(bench, sandbox, other)


async def _gateway_needed(bench: Bench) -> None:
    offered(await bench.provider.gateway_route(NetworkMode.GATEWAY, timeout_s=bench.timeout_s))
    spec = replace(bench.spec, network=NetworkMode.GATEWAY, gateway=None, labels=bench.labels)
    started = await bench.provider.start(spec, timeout_s=bench.timeout_s)
    if is_successful(started):
        await started.unwrap().stop(timeout_s=bench.timeout_s)
    expect_trouble(started, SandboxTrouble.BAD_REQUEST)


def _unless_said(sandbox: Sandbox, limit: str) -> None:
    """A provider says in its note what it cannot enforce."""
    if limit in sandbox.description.note:
        raise NotOfferedError(sandbox.description.note)


async def _memory(bench: Bench) -> None:
    limits = Resources(memory_bytes=MEMORY_BYTES)
    async with bench.sandbox(replace(bench.spec, resources=limits)) as sandbox:
        _unless_said(sandbox, "memory_bytes")
        plain = await bench.run(sandbox, "kill -9 $$; sleep 10")
        expect(plain.exit_code == 137, f"a plain SIGKILL came back as {plain.exit_code}")  # noqa: PLR2004
        script = f"x=$(head -c {4 * MEMORY_BYTES} /dev/zero | tr '\\0' x); exit 0"
        done = await sandbox.exec(Command(("sh", "-c", script)), timeout_s=bench.timeout_s)
        expect_trouble(done, SandboxTrouble.OUT_OF_MEMORY)


async def _pids(bench: Bench) -> None:
    async with bench.sandbox(replace(bench.spec, resources=Resources(pids=PIDS))) as sandbox:
        _unless_said(sandbox, "pids")
        few = await bench.run(sandbox, FORKS, str(PIDS // 4))
        expect(few.stdout == b"all\n", f"{PIDS // 4} processes were refused: {few.stderr!r}")
        many = await bench.run(sandbox, FORKS, str(PIDS * 4), timeout_s=REACH_S)
        expect(many.stdout != b"all\n", f"{PIDS * 4} processes run with a limit of {PIDS}")


async def _cpu(bench: Bench) -> None:
    async with bench.sandbox(replace(bench.spec, resources=Resources(cpu_cores=CORES))) as sandbox:
        _unless_said(sandbox, "cpu_cores")
        before = offered(await sandbox.resource_usage(timeout_s=bench.timeout_s)).cpu_s
        done = await bench.run(sandbox, "while :; do :; done", timeout_s=SPIN_S)
        after = offered(await sandbox.resource_usage(timeout_s=bench.timeout_s)).cpu_s
        if before is None or after is None:
            raise NotOfferedError("CPU time is not measured here.")
        share = (after - before) / done.duration_s
        expect(share < CORES * 1.5, f"a limit of {CORES} cores let {share:.2f} cores be used")


async def _odd_limits(bench: Bench) -> None:
    for ttl_s in (0.0, -1.0, float("nan")):
        started = await bench.provider.start(
            replace(bench.spec, ttl_s=ttl_s, labels=bench.labels), timeout_s=bench.timeout_s
        )
        if is_successful(started):
            await started.unwrap().stop(timeout_s=bench.timeout_s)
            raise CheckFailedError(f"a time to live of {ttl_s} s was taken")
        expect_trouble(started, SandboxTrouble.BAD_REQUEST)


CHECKS: Final = (
    Check(
        "network.full",
        "a service on this host is reached at the route's address",
        "Give in `gateway_route` an address that both sides can use.",
        _full,
    ),
    Check(
        "network.none",
        "nothing of the host is reached",
        "Give the sandbox a network with a loopback alone.",
        _none,
    ),
    Check(
        "network.gateway",
        "the gateway is reached, and nothing else of the host",
        "Let only the gateway's address through.",
        _gateway,
    ),
    Check(
        "network.gateway-needed",
        "the gateway mode without a gateway is refused",
        "Answer BAD_REQUEST when `spec.gateway` is None.",
        _gateway_needed,
    ),
    Check(
        "limits.memory",
        "death by the memory limit is told from a plain 137",
        "Read the kernel's count of OOM kills; answer OUT_OF_MEMORY.",
        _memory,
    ),
    Check("limits.pids", "a fork bomb meets the limit", "Set the limit on processes.", _pids),
    Check("limits.cpu", "a busy loop is held to its share", "Set the CPU quota.", _cpu),
    Check(
        "limits.odd",
        "a time to live that is none is refused",
        "Check `ttl_s` before anything starts.",
        _odd_limits,
    ),
)
