"""The way to the model server: connections used again, left behind by nobody, and under TLS."""

from __future__ import annotations

import asyncio
import gc
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpcore
import pytest

from clinebox.adapters.gateway.network import ROOM_BYTES, AsyncioBackend
from clinebox.domain.model_calls.record import CallEnd

PATIENCE_S = 60.0


@asynccontextmanager
async def flooding(total: int, **more: Any) -> AsyncIterator[tuple[int, list[int]]]:
    """A server that sends so many bytes to each who connects, and counts what it got rid of."""
    sent: list[int] = []

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for start in range(0, total, 65_536):
                writer.write(b"x" * min(65_536, total - start))
                await writer.drain()
                sent.append(start)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0, **more)
    async with server:
        yield server.sockets[0].getsockname()[1], sent


async def read_all(stream: httpcore.AsyncNetworkStream) -> int:
    total = 0
    async with asyncio.timeout(PATIENCE_S):
        while piece := await stream.read(65_536):
            total += len(piece)
    return total


async def test_a_connection_that_nobody_reads_holds_little_and_loses_nothing() -> None:
    total = 32 * 1024 * 1024
    async with flooding(total) as (port, sent):
        stream = await AsyncioBackend().connect_tcp("127.0.0.1", port)
        first = await stream.read(1)
        for _ in range(200):
            await asyncio.sleep(0)
        held = sum(map(len, stream._pieces))  # type: ignore[attr-defined]
        assert held <= ROOM_BYTES + 256 * 1024  # asyncio reads at most 256 KiB at once
        assert len(sent) * 65_536 < total
        assert len(first) + await read_all(stream) == total
        assert stream.get_extra_info("is_readable")
        await stream.aclose()
        await asyncio.sleep(0)
        with pytest.raises(httpcore.WriteError):
            await stream.write(b"more")
        await stream.aclose()


async def test_a_reset_is_an_error_and_no_end() -> None:
    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(1, 13, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # SO_LINGER of 0 s: RST, socket(7)
        writer.transport.abort()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    async with server:
        stream = await AsyncioBackend().connect_tcp("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(httpcore.ReadError):
            await read_all(stream)
        await stream.aclose()


async def test_waits_have_their_bounds(unheard: int) -> None:
    stream = await AsyncioBackend().connect_tcp("127.0.0.1", unheard)
    with pytest.raises(httpcore.ReadTimeout):
        await stream.read(1, timeout=0.01)
    with pytest.raises(httpcore.WriteTimeout):
        await stream.write(b"x" * 64 * 1024 * 1024, timeout=0.01)
    await stream.aclose()
    await asyncio.sleep(0)


@pytest.fixture
def unheard() -> Any:
    """The port of a listener whose connections are never taken or read."""
    import socket  # noqa: PLC0415 - for this fixture alone

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_a_connect_cancelled_at_any_moment_leaves_no_socket() -> None:
    """pytest turns a ResourceWarning into an error: an unclosed transport would fail this test."""
    async with flooding(10) as (port, _):
        for steps in range(12):
            for _ in range(8):
                connecting = asyncio.create_task(AsyncioBackend().connect_tcp("127.0.0.1", port))
                for _ in range(steps):
                    await asyncio.sleep(0)
                connecting.cancel()
                try:
                    stream = await connecting
                except asyncio.CancelledError:
                    continue
                await stream.aclose()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gc.collect()


async def test_calls_one_after_another_use_one_connection_and_calls_at_once_one_each(
    stage: Any, byte_server: Any, ok: Any
) -> None:
    both = asyncio.Event()

    async def answer(_: Any, writer: asyncio.StreamWriter) -> None:
        if len(upstream.seen) >= 7:
            both.set()
        if len(upstream.seen) > 5:
            await both.wait()
        writer.write(ok(b"abc"))

    async with byte_server(answer) as (upstream, url), stage(url) as on:
        for _ in range(5):
            assert (await on.ask()).raw == b"abc"
        assert upstream.connections == 1
        answers = await asyncio.gather(on.ask(), on.ask())
        assert [answer.raw for answer in answers] == [b"abc", b"abc"]
        assert upstream.connections == 2


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again(
    stage: Any, byte_server: Any, ok: Any, wait_until: Any
) -> None:
    closed: list[bool] = []

    async def answer_and_close(_: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(ok(b"abc"))
        await writer.drain()
        writer.close()
        closed.append(True)

    async with byte_server(answer_and_close) as (upstream, url), stage(url) as on:
        idle = on.gateway._client._client._transport._idle
        for number in range(1, 6):
            answer = await on.ask()
            assert (answer.status, answer.raw) == (200, b"abc")
            await wait_until(lambda: not idle or idle[-1].has_expired())
            assert upstream.connections == number
        assert {call.end for call in on.session.records()} == {CallEnd.FINISHED}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    place = tmp_path_factory.mktemp("tls")
    paths = place / "cert.pem", place / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", str(paths[0]), "-keyout", str(paths[1])),
        ],
        check=True,
        capture_output=True,
    )
    return paths


async def test_a_stream_under_tls_passes_whole_and_its_connection_is_used_again(
    certificate: tuple[Path, Path],
) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*certificate)
    asking = ssl.create_default_context(cafile=str(certificate[0]))
    total = 3 * 1024 * 1024 + 7
    async with flooding(total, ssl=serving) as (port, _):
        plain = await AsyncioBackend().connect_tcp("127.0.0.1", port)
        stream = await plain.start_tls(asking, "127.0.0.1", timeout=PATIENCE_S)
        assert stream.get_extra_info("ssl_object") is not None
        assert await read_all(stream) == total
        await stream.aclose()
        await asyncio.sleep(0)


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    stage: Any, certificate: tuple[Path, Path]
) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*certificate)
    async with flooding(10, ssl=serving) as (port, sent), stage(f"https://127.0.0.1:{port}/v1") as on:
        answer = await on.ask()
        assert (answer.status, answer.marker) == (502, "upstream_tls")
        assert (on.call.end, sent) == (CallEnd.REFUSED, [])
