"""Streams under way: pace, back-pressure, many at once."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from typing import Any

from clinebox.adapters.gateway import Bounds
from clinebox.adapters.gateway.outlet import COMMENT
from clinebox.domain.model_calls.record import CallEnd

PATIENCE_S = 60.0


async def connect(stage: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection with a request sent on it."""
    reader, writer = await asyncio.open_connection(stage.address.host, stage.address.port)
    writer.write(stage.post())
    return reader, writer


def piece_of(seed: int, number: int) -> bytes:
    """Bytes that no other stream has, of any value, some of them empty of meaning to a reader."""
    source = random.Random(seed * 1_000 + number)  # noqa: S311 - reproducible bytes, no secret
    return source.randbytes(source.randrange(1, 1_500))


async def stream_pieces(seen: Any, writer: asyncio.StreamWriter) -> None:
    """Sends `?seed=..&pieces=..` in chunks, pausing between them so that streams mix."""
    query = dict(pair.split("=") for pair in seen.line.split(" ")[1].partition("?")[2].split("&"))
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    for number in range(int(query["pieces"])):
        data = piece_of(int(query["seed"]), number)
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0)
    writer.write(b"0\r\n\r\n")


async def test_200_streams_at_once_pass_byte_for_byte(stage: Any, byte_server: Any) -> None:
    async def one(on: Any, seed: int) -> bool:
        answer = await on.ask(f"/chat/completions?seed={seed}&pieces=25")
        whole = b"".join(piece_of(seed, number) for number in range(25))
        return answer.error is None and hashlib.sha256(answer.raw).digest() == hashlib.sha256(whole).digest()

    async with byte_server(stream_pieces) as (upstream, url), stage(url) as on:
        async with asyncio.timeout(PATIENCE_S):
            right = await asyncio.gather(*(one(on, seed) for seed in range(200)))
        calls = on.session.records()
    assert all(right)
    assert len(upstream.seen) == 200
    assert [call.number for call in calls] == list(range(1, 201))
    assert {call.end for call in calls} == {CallEnd.FINISHED}


class Rounds:
    """Lets an upstream send piece n only when every client has read piece n-1: one that stalls stops all."""

    def __init__(self, clients: int, pieces: int) -> None:
        self.begun = [asyncio.Event() for _ in range(pieces)]
        self._missing = [clients] * (pieces + 1)
        self.read(-1, clients)

    def read(self, piece: int, clients: int = 1) -> None:
        self._missing[piece] -= clients
        if self._missing[piece] == 0 and piece + 1 < len(self.begun):
            self.begun[piece + 1].set()


async def test_none_of_200_live_streams_waits_for_another(stage: Any, byte_server: Any) -> None:
    clients, pieces = 200, 8
    rounds = Rounds(clients, pieces)

    async def paced(seen: Any, writer: asyncio.StreamWriter) -> None:
        seed = int(seen.line.split(" ")[1].rpartition("=")[2])
        size = sum(len(piece_of(seed, number)) for number in range(pieces))
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n".encode())
        for number, begun in enumerate(rounds.begun):
            await begun.wait()
            writer.write(piece_of(seed, number))

    async def client(on: Any, seed: int) -> bool:
        # a socket each: a client's pool would hold some back
        reader, writer = await asyncio.open_connection(on.address.host, on.address.port)
        writer.write(on.post(path=f"/s/{on.session.token}/v1/chat/completions?seed={seed}"))
        await reader.readuntil(b"\r\n\r\n")
        right = True
        for number in range(pieces):
            expected = piece_of(seed, number)
            right = await reader.readexactly(len(expected)) == expected and right
            rounds.read(number)
        writer.close()
        return right

    async with byte_server(paced) as (upstream, url), stage(url) as on:
        async with asyncio.timeout(PATIENCE_S):
            right = await asyncio.gather(*(client(on, seed) for seed in range(clients)))
        calls = on.session.records()
    assert all(right)
    assert upstream.connections == clients
    assert [call.end for call in calls] == [CallEnd.FINISHED] * clients


async def test_pieces_come_as_they_are_sent(stage: Any, byte_server: Any) -> None:
    go_on = asyncio.Event()

    async def two_pieces(_: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        await writer.drain()
        for piece in (b"1\r\na\r\n", b"1\r\nb\r\n", b"0\r\n\r\n"):
            await go_on.wait()
            go_on.clear()
            writer.write(piece)

    async with byte_server(two_pieces) as (_, url), stage(url) as on:
        reader, writer = await connect(on)
        async with asyncio.timeout(PATIENCE_S):
            await reader.readuntil(b"\r\n\r\n")  # the head, before any of the body
            for piece in (b"1\r\na\r\n", b"1\r\nb\r\n", b"0\r\n\r\n"):
                go_on.set()
                assert await reader.readexactly(len(piece)) == piece
        writer.close()


async def test_a_request_s_body_streams_up_while_it_comes(stage: Any, ok: Any) -> None:
    first_came = asyncio.Event()
    arrived = b""

    async def read_as_it_comes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        while not arrived.endswith(b"0\r\n\r\n"):
            arrived += await reader.read(65_536)
            if b"first" in arrived:
                first_came.set()
        writer.write(ok())
        writer.close()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        async with asyncio.timeout(PATIENCE_S):
            await first_came.wait()
        yield b"second"

    server = await asyncio.start_server(read_as_it_comes, "127.0.0.1", 0)
    async with server, stage(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1") as on:
        answer = await on.ask(content=pieces())
    assert answer.status == 200
    assert b"5\r\nfirst\r\n" in arrived
    assert b"6\r\nsecond\r\n" in arrived


async def test_a_slow_reader_slows_only_itself(stage: Any, byte_server: Any) -> None:
    total, sent = 48 * 1024 * 1024, 0

    async def flood(seen: Any, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        size = total if "slow" in seen.line else 1_000
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n".encode())
        for start in range(0, size, 65_536):
            writer.write(b"x" * min(65_536, size - start))
            await writer.drain()
            sent += 65_536 if "slow" in seen.line else 0

    async with byte_server(flood) as (_, url), stage(url) as on:
        reader, writer = await asyncio.open_connection(on.address.host, on.address.port, limit=1_024)
        writer.write(on.post(path=f"/s/{on.session.token}/v1/slow"))
        await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(30):
                answer = await on.ask("/fast")
                assert answer.raw == b"x" * 1_000
        held = sent
        # Only what the sockets of both hops hold has left the upstream, however long the reader sleeps.
        assert held < total
        assert on.session.records()[0].end is None
        got = await reader.readexactly(total)
        assert len(got) == total
        writer.close()
        assert on.session.records()[0].end is CallEnd.FINISHED


async def test_a_client_that_takes_nothing_is_let_go(stage: Any, byte_server: Any, wait_until: Any) -> None:
    async def flood(_: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            await writer.drain()

    async with byte_server(flood) as (_, url), stage(url, bounds=Bounds(idle_s=0.5)) as on:
        _, writer = await asyncio.open_connection(on.address.host, on.address.port, limit=1_024)
        writer.write(on.post())
        await wait_until(lambda: bool(on.session.records()) and on.call.end is not None)
        assert (on.call.end, on.call.http_status, on.call.gateway_status) == (CallEnd.TIMEOUT, 200, None)
        writer.transport.abort()


async def test_a_slow_backend_s_stream_is_kept_alive_between_events_only(
    stage: Any, byte_server: Any
) -> None:
    go_on = asyncio.Event()

    async def slow(_: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        await go_on.wait()
        writer.write(b"9\r\ndata: a\n\n\r\n0\r\n\r\n")

    async with byte_server(slow) as (_, url), stage(url, bounds=Bounds(keep_alive_s=0.05)) as on:
        reader, writer = await connect(on)
        async with asyncio.timeout(PATIENCE_S):
            await reader.readuntil(b"\r\n\r\n")
            frame = f"{len(COMMENT):x}\r\n".encode() + COMMENT + b"\r\n"
            assert await reader.readexactly(2 * len(frame)) == frame * 2
            go_on.set()
            rest = await reader.readuntil(b"0\r\n\r\n")
        assert b"data: a\n\n" in rest
        assert on.call.response_bytes == 9
        writer.close()
