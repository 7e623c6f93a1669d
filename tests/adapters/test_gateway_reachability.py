"""The gateway is asked from inside the sandbox, and only its own answer counts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from returns.pipeline import is_successful
from returns.result import Result

from clinebox.adapters.gateway import Gateway, Upstream, serve_gateway
from clinebox.adapters.gateway_reachability import reachable_from_inside
from clinebox.adapters.sandboxes.local import ContainmentChoice, LocalSandboxProvider
from clinebox.domain.ports import NetworkMode, SandboxSpec

CONTAINMENTS = pytest.mark.parametrize(
    "containment", ["plain", pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)]
)


async def asked(
    workdir: Path, containment: ContainmentChoice, url: str, network: NetworkMode = NetworkMode.FULL
) -> Result[None, str]:
    provider = LocalSandboxProvider(containment)
    sandbox = (await provider.start(SandboxSpec(str(workdir), network=network), timeout_s=30)).unwrap()
    try:
        return await reachable_from_inside(sandbox, url, timeout_s=2)
    finally:
        (await sandbox.stop(timeout_s=30)).unwrap()


@asynccontextmanager
async def service(answer: bytes) -> AsyncIterator[str]:
    """Something else on a port: it says `answer` and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@CONTAINMENTS
def test_a_gateway_that_answers_is_reached(tmp_path: Path, containment: ContainmentChoice) -> None:
    async def story() -> Result[None, str]:
        async with serve_gateway(Gateway(Upstream("http://127.0.0.1:9/v1"))) as address:
            return await asked(tmp_path, containment, address.url)

    assert is_successful(asyncio.run(story()))


@CONTAINMENTS
def test_a_closed_port_is_told_with_its_reason(tmp_path: Path, containment: ContainmentChoice) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take it
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        sentence = asyncio.run(asked(tmp_path, containment, url)).failure()
    assert f"The gateway at {url} cannot be reached from inside the sandbox (local/{containment})" in sentence
    assert "refused" in sentence


@pytest.mark.bubblewrap
def test_a_sandbox_without_a_network_does_not_reach_it(tmp_path: Path) -> None:
    async def story() -> Result[None, str]:
        async with serve_gateway(Gateway(Upstream("http://127.0.0.1:9/v1"))) as address:
            return await asked(tmp_path, "bubblewrap", address.url, NetworkMode.NONE)

    assert "cannot be reached from inside" in asyncio.run(story()).failure()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 502 Bad Gateway\r\nx-clinebox-gateway: health\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nx-clinebox-gateway: health\r\n",
    ],
)
def test_another_service_on_its_port_is_not_taken_for_it(tmp_path: Path, answer: bytes) -> None:
    async def story() -> Result[None, str]:
        async with service(answer) as url:
            return await asked(tmp_path, "plain", url)

    sentence = asyncio.run(story()).failure()
    assert "another service answered there, with" in sentence
    assert answer.split(b"\r\n")[0].decode() in sentence


def test_one_that_says_nothing_is_waited_for_no_longer_than_asked(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        sentence = asyncio.run(asked(tmp_path, "plain", url)).failure()
    assert "no answer came within 2 s" in sentence
