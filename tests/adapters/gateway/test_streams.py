"""Streams under way: pace, back-pressure, leaving clients, ending sessions, many at once."""

from __future__ import annotations

import asyncio
import hashlib
import random
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from clinebox.adapters.gateway import Bounds, Gateway, Upstream, serve_gateway
from clinebox.adapters.gateway.outlet import COMMENT, Outlet, flowing
from clinebox.adapters.scripted_model import Ending, Fault, Turn
from clinebox.domain.model_calls.faults import FaultKind, fault_of
from clinebox.domain.model_calls.phases import last_wait
from clinebox.domain.model_calls.record import CallEnd, CallPhase

PATIENCE_S = 60.0
TEN = {"text": "0123456789", "chunk_size": 1}


def hanging(fault: Fault) -> Turn:
    return Turn.model_validate({**TEN, "fault": fault})


class Clock:
    """A monotonic clock that a test sets forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead_s


async def connect(stage: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection with a request sent on it."""
    reader, writer = await asyncio.open_connection(stage.address.host, stage.address.port)
    writer.write(stage.post())
    return reader, writer


@pytest.mark.parametrize(
    ("fault", "phase", "later"),
    [
        (Fault.HANG_BEFORE_HEADERS, CallPhase.WAITING, CallPhase.WAITING),
        (Fault.HANG_AFTER_HEADERS, CallPhase.WAITING, CallPhase.WAITING),
        (Fault.HANG_MID_STREAM, CallPhase.STREAMING, CallPhase.IDLE),
    ],
)
async def test_the_record_says_where_a_call_stands_and_how_long_it_has_waited(
    scripted: Any, wait_until: Any, *, fault: Fault, phase: CallPhase, later: CallPhase
) -> None:
    clock = Clock()
    async with scripted(hanging(fault), monotonic=clock) as (model, stage):
        asking = asyncio.create_task(stage.ask())
        await model.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
        sent = 5 if fault is Fault.HANG_MID_STREAM else 0
        await wait_until(lambda: stage.call.response_bytes > 0 or not sent)
        assert (stage.call.phase, stage.call.end) == (phase, None)
        clock.ahead_s = 212.0
        call = stage.call
        assert call.phase is later
        assert 212.0 <= (last_wait(call).wait_s or 0.0) < 272.0
        assert getattr(fault_of(call), "kind", None) is FaultKind.PENDING
        model.release()
        answer = await asking
        assert answer.text == "0123456789"
        assert (stage.call.end, stage.call.phase) == (CallEnd.FINISHED, CallPhase.ENDED)


async def test_a_call_that_is_still_connecting_says_so(stage: Any, wait_until: Any) -> None:
    # A full backlog: the kernel answers no further SYN (tcp(7)), so the connection neither stands nor fails.
    sock = socket.create_server(("127.0.0.1", 0), backlog=0)
    fillers = [asyncio.create_task(asyncio.open_connection(*sock.getsockname())) for _ in range(4)]
    async with stage(f"http://127.0.0.1:{sock.getsockname()[1]}/v1", bounds=Bounds(connect_s=0.5)) as on:
        await asyncio.wait(fillers, timeout=0.2)
        asking = asyncio.create_task(on.ask())
        await wait_until(lambda: bool(on.session.records()))
        assert on.call.phase is CallPhase.CONNECTING
        answer = await asking
        assert (answer.status, answer.marker) == (502, "upstream_connect_timeout")
        assert (on.call.end, on.call.times.upstream_connected_at_s) == (CallEnd.TIMEOUT, None)
    for filler in fillers:
        filler.cancel()
    for opened in await asyncio.gather(*fillers, return_exceptions=True):
        if isinstance(opened, tuple):
            opened[1].close()
    sock.close()


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault.HANG_BEFORE_HEADERS, None),
        (Fault.HANG_AFTER_HEADERS, 200),
        (Fault.HANG_MID_STREAM, 200),
        (Fault.HANG_AT_END, 200),
    ],
)
async def test_a_client_that_leaves_is_recorded_and_its_upstream_call_cancelled(
    scripted: Any, wait_until: Any, *, fault: Fault, status: int | None
) -> None:
    async with scripted(hanging(fault)) as (model, stage):
        _, writer = await connect(stage)
        await model.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
        await wait_until(lambda: stage.call.http_status == status)
        writer.close()
        await model.wait_until(
            lambda requests: requests[0].ending is Ending.CLIENT_CLOSED, timeout_s=PATIENCE_S
        )
        await wait_until(lambda: stage.call.end is not None)
        assert (stage.call.end, stage.call.http_status) == (CallEnd.CLIENT_CLOSED, status)
        assert (stage.call.gateway_status, stage.ended) == (None, [stage.call])


async def test_a_client_that_gave_up_after_its_patience_is_a_timeout(scripted: Any, wait_until: Any) -> None:
    clock = Clock()
    async with scripted(hanging(Fault.HANG_BEFORE_HEADERS), monotonic=clock) as (model, stage):
        _, writer = await connect(stage)
        await model.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
        clock.ahead_s = 299.9
        writer.close()
        await wait_until(lambda: stage.call.end is not None)
        assert stage.call.end is CallEnd.TIMEOUT


async def test_a_client_that_leaves_in_mid_upload_is_recorded(
    stage: Any, byte_server: Any, ok: Any, wait_until: Any
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        _, writer = await asyncio.open_connection(on.address.host, on.address.port)
        path = f"/s/{on.session.token}/v1/chat/completions"
        writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf".encode())
        await wait_until(lambda: bool(on.session.records()) and on.call.request_bytes == 4)
        writer.close()
        await wait_until(lambda: on.call.end is not None)
        assert (on.call.end, upstream.seen) == (CallEnd.CLIENT_CLOSED, [])


@pytest.mark.parametrize(
    ("fault", "client"),
    [(Fault.HANG_BEFORE_HEADERS, (401, "session_ended")), (Fault.HANG_MID_STREAM, (200, None))],
)
async def test_a_session_that_ends_cuts_its_calls_and_no_others(
    scripted: Any, wait_until: Any, *, fault: Fault, client: tuple[int, str | None]
) -> None:
    async with scripted(hanging(fault), hanging(fault)) as (model, stage):
        other = stage.gateway.open_session()
        asking = asyncio.create_task(stage.ask())
        await model.wait_until(lambda requests: len(requests) == 1, timeout_s=PATIENCE_S)
        others = asyncio.create_task(stage.ask(base_url=other.base_url(stage.address.url)))
        await model.wait_until(lambda requests: sum(r.hangs for r in requests) == 2, timeout_s=PATIENCE_S)
        await wait_until(lambda: stage.call.http_status == (None if client[0] == 401 else 200))
        stage.session.close()
        answer = await asking
        assert (answer.status, answer.marker) == client
        assert (answer.error is not None) == (client[0] == 200)
        assert (stage.call.end, stage.call.gateway_status) == (
            CallEnd.CLIENT_CLOSED,
            401 if client[0] == 401 else None,
        )
        model.release()
        assert (await others).text == "0123456789"
        assert [call.end for call in other.records()] == [CallEnd.FINISHED]


async def test_a_gateway_that_stops_ends_everything_and_leaves_nothing(scripted: Any) -> None:
    async with scripted(*[hanging(Fault.HANG_MID_STREAM)] * 3) as (model, _):
        gateway = Gateway(Upstream(model.base_url, "sk-the-real-key-0123456789", trust_env=False))
        async with serve_gateway(gateway) as address:
            session = gateway.open_session()
            path = session.base_url("").encode() + b"/chat/completions"
            ends = []
            for _ in range(3):
                reader, writer = await asyncio.open_connection(address.host, address.port)
                writer.write(
                    b"POST " + path + b' HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{"stream":true}'
                )
                ends.append((reader, writer))
            await model.wait_until(lambda requests: sum(r.hangs for r in requests) == 3, timeout_s=PATIENCE_S)
        for reader, writer in ends:
            try:
                data = await reader.read()
            except ConnectionResetError:
                data = b""
            assert not data.endswith(b"0\r\n\r\n")
            writer.close()
        assert [call.end for call in session.records()] == [CallEnd.CLIENT_CLOSED] * 3
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(address.host, address.port)


# what passes, and how fast


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


async def test_a_comment_never_stands_inside_an_event() -> None:
    sent: list[bytes] = []
    told = asyncio.Event()

    async def send(piece: bytes) -> None:
        sent.append(piece)
        if COMMENT in sent:
            told.set()

    async with flowing(Outlet(send, keep_alive_s=0.01)) as outlet:
        await outlet.put(b"data: half")
        await asyncio.sleep(0.1)
        assert sent == [b"data: half"]
        await outlet.put(b" of it\n\n")
        await asyncio.wait_for(told.wait(), PATIENCE_S)
    assert b"".join(sent).replace(COMMENT, b"") == b"data: half of it\n\n"


async def test_what_comes_while_a_send_is_under_way_goes_out_together() -> None:
    sent: list[bytes] = []
    free, entered = asyncio.Event(), asyncio.Event()

    async def send(piece: bytes) -> None:
        sent.append(piece)
        entered.set()
        await free.wait()

    async with flowing(Outlet(send)) as outlet:
        await outlet.put(b"a")
        await entered.wait()
        for piece in (b"b", b"c", b"d"):
            await outlet.put(piece)
        assert outlet.is_behind
        free.set()
    assert sent == [b"a", b"bcd"]


async def test_an_outlet_that_cannot_send_ends_the_body_with_its_error() -> None:
    async def send(_: bytes) -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        async with flowing(Outlet(send)) as outlet:
            await outlet.put(b"a")


async def test_what_is_held_is_sent_before_the_error_of_the_body() -> None:
    sent: list[bytes] = []

    async def send(piece: bytes) -> None:
        await asyncio.sleep(0)
        sent.append(piece)

    async def body() -> None:
        async with flowing(Outlet(send)) as outlet:
            await outlet.put(b"a")
            await outlet.put(b"b")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await body()
    assert b"".join(sent) == b"ab"
