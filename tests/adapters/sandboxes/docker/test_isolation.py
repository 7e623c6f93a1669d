"""What a container shows and lets through: files, rights, users, and the network."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from clinebox.domain.ports import HostPort, NetworkMode, ReadOnlyMount, Resources, SandboxTrouble

if TYPE_CHECKING:
    from conftest import Bench

BOUND_S = 60.0


@contextlib.contextmanager
def _service(host: str) -> Iterator[int]:
    """Says `hello` to everyone who connects; the port."""
    with socket.create_server((host, 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(b"hello\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(BOUND_S)


async def _primed(bench: Bench, network: NetworkMode, story: Callable[[], Awaitable[None]]) -> None:
    async with bench.primed(network):
        await story()


def _read(host: str, port: int) -> str:
    return f"timeout -s KILL 5 bash -c 'head -c 6 </dev/tcp/{host}/{port}' 2>/dev/null"


def test_the_work_directory_is_the_hosts_own_and_mounts_are_read_only(bench: Bench, run: Any) -> None:
    async def story() -> None:
        tool = bench.path / "tool"
        tool.write_text("tool")
        mount = ReadOnlyMount(str(tool), "/opt/tools/t")
        async with bench.started(mounts=(mount,)) as sandbox:
            result = await run(
                sandbox, "echo made >made; cat /opt/tools/t; echo x >/opt/tools/t || echo refused"
            )
            assert result.stdout == b"toolrefused\n"
            assert (bench.workdir / "made").read_text() == "made\n"
            assert tool.read_text() == "tool"

    asyncio.run(story())


def test_root_inside_keeps_ten_capabilities_and_gains_none(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            result = await run(sandbox, "grep -E 'CapBnd|NoNewPrivs|Seccomp:' /proc/self/status")
            words = dict(line.split(":\t") for line in result.stdout.decode().splitlines())
            assert int(words["CapBnd"], 16) == sum(1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 8, 10, 13))
            assert words["NoNewPrivs"] == "1"
            assert (
                await run(sandbox, "mount -t tmpfs x /mnt || mknod /tmp/d b 8 0 || echo no")
            ).stdout == b"no\n"

    asyncio.run(story())


def test_a_read_only_root_has_private_places_to_write(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started(read_only_root=True) as sandbox:
            places = "/tmp /var/tmp /logs $HOME ."
            script = f"echo x >/usr/x || echo refused; for p in {places}; do echo 1 >$p/x || exit 1; done"
            result = await run(sandbox, script)
            assert (result.stdout, result.exit_code) == (b"refused\n", 0)
            root = sandbox.description.session_root
            assert (await sandbox.upload(f"{root}/a", b"", timeout_s=BOUND_S)).value_or("failed") is None

    asyncio.run(story())


@pytest.mark.parametrize(
    ("user", "ids"), [("1000:1000", b"1000 1000"), ("agent", b"1000 1000"), ("0", b"0 0")]
)
def test_another_user_has_the_session_root_and_its_files_for_himself(
    bench: Bench, run: Any, user: str, ids: bytes
) -> None:
    async def story() -> None:
        bench.workdir.chmod(0o777)
        for each in (bench.path, bench.base):
            each.chmod(0o755)
        async with bench.started(user=user) as sandbox:
            path = f"{sandbox.description.session_root}/d/f"
            assert (await sandbox.upload(path, b"mine", timeout_s=BOUND_S)).value_or("failed") is None
            result = await run(
                sandbox, f"echo $(id -u) $(id -g); cat {path}; echo 1 >/logs/x && echo 2 >$HOME/y"
            )
            assert (result.stdout, result.exit_code) == (ids + b"\nmine", 0)
            assert (await sandbox.download(path, limit_bytes=9, timeout_s=BOUND_S)).unwrap() == b"mine"

    asyncio.run(story())


def test_limits_are_enforced(bench: Bench, run: Any) -> None:
    async def story() -> None:
        limits = Resources(cpu_cores=0.5, memory_bytes=64 << 20, pids=30)
        async with bench.started(resources=limits) as sandbox:
            result = await run(
                sandbox, "for n in {1..60}; do sleep 1 & done 2>&1 | grep -c 'fork' || :; wait"
            )
            assert result.stdout.strip() != b"0"
            (found,) = bench.containers()
            with bench.client() as api:
                config = api.inspect_container(found["Id"])["HostConfig"]
            assert (config["Memory"], config["PidsLimit"]) == (64 << 20, 30)

    asyncio.run(story())


def test_clines_telemetry_host_is_mapped_to_loopback(bench: Bench, run: Any) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            assert b"127.0.0.1\tdata.cline.bot" in (await run(sandbox, "cat /etc/hosts")).stdout

    asyncio.run(story())


def test_without_a_network_nothing_is_reached(bench: Bench, run: Any) -> None:
    async def story() -> None:
        provider = bench.provider()
        route = (await provider.gateway_route(NetworkMode.FULL, timeout_s=BOUND_S)).unwrap()
        with _service(route.listen_host) as port:
            async with bench.started(network=NetworkMode.NONE) as sandbox:
                assert (await run(sandbox, _read(route.inside_host, port))).stdout == b""
        refused = (await provider.gateway_route(NetworkMode.NONE, timeout_s=BOUND_S)).failure()
        assert refused.trouble is SandboxTrouble.BAD_REQUEST

    asyncio.run(_primed(bench, NetworkMode.FULL, story))


def test_the_full_network_reaches_a_service_where_the_route_says(bench: Bench, run: Any) -> None:
    async def story() -> None:
        route = (await bench.provider().gateway_route(NetworkMode.FULL, timeout_s=BOUND_S)).unwrap()
        with _service(route.listen_host) as port:
            async with bench.started(network=NetworkMode.FULL) as sandbox:
                assert (await run(sandbox, _read(route.inside_host, port))).stdout == b"hello\n"

    asyncio.run(_primed(bench, NetworkMode.FULL, story))


def test_the_gateways_network_reaches_the_gateway_and_neither_the_world_nor_another_sandbox(
    bench: Bench, run: Any
) -> None:
    async def story() -> None:
        provider = bench.provider()
        routes = await asyncio.gather(
            *(provider.gateway_route(NetworkMode.GATEWAY, timeout_s=BOUND_S) for _ in range(4))
        )
        (route,) = {found.unwrap() for found in routes}
        bridge = (await provider.gateway_route(NetworkMode.FULL, timeout_s=BOUND_S)).unwrap()
        host = route.listen_host
        with _service(host) as port, _service(host) as beside, _service(bridge.listen_host) as other:
            fields = {"network": NetworkMode.GATEWAY, "gateway": HostPort(route.listen_host, port)}
            async with bench.started(**fields) as one, bench.started(**fields) as two:
                assert (await run(one, _read(route.inside_host, port))).stdout == b"hello\n"
                assert (await run(one, _read(bridge.inside_host, other))).stdout == b""
                assert (await run(one, _read(route.inside_host, beside))).stdout == b""
                assert "nothing can be reached but the gateway" in one.description.note
                assert (await run(one, _read("1.1.1.1", 53))).stdout == b""
                assert (await run(one, "timeout -s KILL 5 nslookup pypi.org >&- 2>&-")).exit_code != 0
                await run(two, "nc -l -p 4000 -e echo hello >&- 2>&- &")
                address = (await run(two, "hostname -i")).stdout.decode().strip()
                assert (await run(two, _read(address, 4000))).stdout == b"hello\n"
                await run(two, "nc -l -p 4000 -e echo hello >&- 2>&- &")
                assert (await run(one, _read(address, 4000))).stdout == b""

    asyncio.run(_primed(bench, NetworkMode.GATEWAY, story))
