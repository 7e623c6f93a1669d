"""HTTP/1.1 as clients speak it, well and badly; and what is recorded of a request."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from itertools import count
from typing import Any

import httpx
import pytest

from clinebox.adapters.scripted_model import (
    Ending,
    Fault,
    Script,
    ScriptedModelServer,
    Turn,
    credential_digest,
    running_scripted_model,
)
from clinebox.adapters.scripted_model.connection import Connection
from clinebox.adapters.scripted_model.listening import Door

WAIT_S = 60.0
HELLO = Script(turns=(Turn(text="hello", repeat=-1),))


def test_many_requests_share_one_connection(raw: Any) -> None:
    with running_scripted_model(HELLO) as server, raw.connect(server) as connection:
        for _ in range(3):
            connection.sendall(raw.request())
            data = b""
            while not data.endswith(b"0\r\n\r\n"):
                data += connection.recv(65_536)
            assert data.count(b"HTTP/1.1 200") == 1
    assert len(server.requests) == 3


def test_small_pieces_wait_for_no_acknowledgement() -> None:
    """tcp(7): without TCP_NODELAY a small piece waits until the one before it is acknowledged (40 ms)."""

    async def ask() -> int:
        opened: asyncio.Queue[Connection] = asyncio.Queue()
        door = Door("127.0.0.1", 0, opened.put_nowait)
        await door.open()
        _, writer = await asyncio.open_connection("127.0.0.1", door.port)
        async with asyncio.timeout(WAIT_S):
            connection = await opened.get()
        sock = connection._link.get_extra_info("socket")
        option = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()
        async with asyncio.timeout(WAIT_S):
            await connection.gone.wait()
        connection._link.abort()
        door.leave()
        await asyncio.sleep(0)
        return int(option)

    assert asyncio.run(ask()) != 0


def test_requests_sent_in_one_go_are_answered_in_order(raw: Any) -> None:
    script = Script(turns=(Turn(text="one"), Turn(text="two")))
    with running_scripted_model(script) as server:
        both = raw.request() + raw.request(head="Connection: close\r\n")
        data, ending = raw.ask(server, both)
    assert data.index(b'"content":"one"') < data.index(b'"content":"two"')
    assert ending == "fin"


def test_a_request_that_comes_byte_by_byte_is_read(raw: Any) -> None:
    with running_scripted_model(HELLO) as server, raw.connect(server) as connection:
        for byte in raw.request(head="Connection: close\r\n"):
            connection.sendall(bytes([byte]))
        assert b"[DONE]" in raw.read_to_the_end(connection)[0]


def test_a_request_in_chunks_is_read(client: Any) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 100_000}]}).encode()
    pieces = (body[start : start + 7_777] for start in range(0, len(body), 7_777))
    with running_scripted_model(HELLO) as server:
        got = httpx.post(server.base_url + "/chat/completions", content=pieces, trust_env=False)
    assert got.json()["choices"][0]["message"]["content"] == "hello"
    assert server.requests[0].body == json.loads(body)
    assert server.requests[0].body_bytes == len(body)


def test_a_client_that_expects_100_continue_is_told_to_go_on(raw: Any) -> None:
    with running_scripted_model(HELLO) as server, raw.connect(server) as connection:
        head, _, body = raw.request(head="Expect: 100-continue\r\nConnection: close\r\n").partition(
            b"\r\n\r\n"
        )
        connection.sendall(head + b"\r\n\r\n")
        assert connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert b"[DONE]" in raw.read_to_the_end(connection)[0]


def test_an_http_10_client_gets_a_stream_that_ends_with_the_connection(raw: Any) -> None:
    with running_scripted_model(HELLO) as server:
        data, ending = raw.ask(server, raw.request().replace(b"HTTP/1.1", b"HTTP/1.0", 1))
    assert b"transfer-encoding" not in data
    assert data.endswith(b"data: [DONE]\n\n")
    assert ending == "fin"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000, 431),
        (b"POST /v1/x HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 413),
        (b"POST /v1/x HTTP/1.1\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000, 413),
        (b"POST /v1/x HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"x" * 2000, 413),
    ],
)
def test_what_is_no_request_is_answered_with_its_error_and_closed(
    raw: Any, request_bytes: bytes, status: int
) -> None:
    with running_scripted_model(HELLO, request_limit_bytes=1000) as server:
        data, ending = raw.ask(server, request_bytes)
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert json.loads(body)["error"]["type"] == "bad_request"
    assert ending == "fin"
    assert server.requests == ()


@pytest.mark.parametrize("cut", [0, 1, 30, -1])
def test_a_client_that_closes_in_the_middle_of_its_request_leaves_no_record(raw: Any, cut: int) -> None:
    with running_scripted_model(HELLO) as server:
        with raw.connect(server) as connection:
            connection.sendall(raw.request()[:cut])
        assert b"[DONE]" in raw.ask(server)[0]
    assert len(server.requests) == 1


def test_a_client_that_closes_in_the_middle_of_a_long_answer_is_recorded(raw: Any) -> None:
    script = Script(turns=(Turn(text="x" * 4_000_000, chunk_size=4_000),))
    with running_scripted_model(script) as server:
        with raw.connect(server) as connection:
            connection.sendall(raw.request())
            connection.recv(1_000)
        server.wait_until(lambda requests: requests[0].ending is not None, timeout_s=WAIT_S)
    assert server.requests[0].ending is Ending.CLIENT_CLOSED
    assert server.requests[0].chunks_sent < 1_000


def test_a_client_that_reads_slowly_gets_every_byte(client: Any) -> None:
    text = "0123456789abcdef" * 100_000
    with running_scripted_model(Script(turns=(Turn(text=text, chunk_size=10_000),))) as server:
        assert client.ask(server).joined("content") == text


def test_a_head_request_gets_no_body(raw: Any) -> None:
    with running_scripted_model(HELLO) as server:
        data, _ = raw.ask(server, b"HEAD /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert data.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert data.endswith(b"\r\n\r\n")


def test_progress_is_recorded_while_a_call_lasts(raw: Any) -> None:
    script = Script(turns=(Turn(text="abcd", chunk_size=1, fault=Fault.HANG_MID_STREAM, after_chunks=3),))
    with running_scripted_model(script) as server, raw.connect(server) as connection:
        connection.sendall(raw.request())
        server.wait_until(lambda requests: bool(requests) and requests[0].hangs, timeout_s=WAIT_S)
        now = server.requests[0]
    assert (now.turn, now.status, now.chunks_sent, now.ending) == (1, 200, 3, None)


def test_a_key_is_recorded_by_its_digest_alone(client: Any) -> None:
    headers = {"Authorization": "Bearer sk-secret", "X-Api-Key": "sk-secret", "X-Session-Id": "s1"}
    with running_scripted_model(HELLO) as server:
        client.ask(server, headers=headers)
    record = server.requests[0]
    assert record.header("Authorization") == f"Bearer {credential_digest('sk-secret')}"
    assert record.header("x-api-key") == credential_digest("sk-secret")
    assert record.header("x-session-id") == "s1"
    assert record.header("cookie") is None
    assert "sk-secret" not in repr(record)


def test_a_request_is_recorded_with_its_turn_its_body_and_its_times() -> None:
    ticks = count(100.0)

    async def play() -> Any:
        script = Script(turns=(Turn(text="one"), Turn(text="two", repeat=2)))
        async with (
            ScriptedModelServer(script, monotonic=lambda: next(ticks), wall_clock=lambda: 5.5) as server,
            httpx.AsyncClient(timeout=WAIT_S, trust_env=False) as http,
        ):
            replies = [
                await http.post(server.base_url + "/chat/completions?a=b", json={"n": n}) for n in range(3)
            ]
            await server.wait_until(lambda requests: requests[-1].ending is not None, timeout_s=WAIT_S)
            return server.requests, replies

    requests, replies = asyncio.run(play())
    assert [(r.number, r.turn, r.play, r.arrived_s, r.ended_s) for r in requests] == [
        (1, 1, 1, 100.0, 101.0),
        (2, 2, 1, 102.0, 103.0),
        (3, 2, 2, 104.0, 105.0),
    ]
    last = requests[-1]
    assert (last.method, last.path, last.body, last.body_bytes) == (
        "POST", "/v1/chat/completions?a=b", {"n": 2}, 7,
    )  # fmt: skip
    assert (last.status, last.ending) == (200, Ending.ANSWERED)
    assert replies[-1].json()["created"] == 5


def test_waiting_for_what_does_not_come_ends_with_a_timeout() -> None:
    with running_scripted_model(HELLO) as server, pytest.raises(TimeoutError):
        server.wait_until(lambda requests: len(requests) == 1, timeout_s=0.05)


def test_a_server_has_no_port_before_it_is_entered() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        _ = ScriptedModelServer(HELLO).base_url


def test_a_wildcard_host_is_reached_over_loopback(client: Any) -> None:
    with running_scripted_model(HELLO, host="0.0.0.0") as server:  # noqa: S104 - for as long as the test
        assert server.base_url == f"http://127.0.0.1:{server.port}/v1"
        assert client.ask(server).joined("content") == "hello"


def test_a_stopped_server_leaves_no_thread_and_no_open_port(raw: Any) -> None:
    before = set(threading.enumerate())
    with running_scripted_model(Script(turns=(Turn(fault=Fault.HANG_MID_STREAM, text="x"),))) as server:
        idle, hung = raw.connect(server), raw.connect(server)
        hung.sendall(raw.request())
        server.wait_until(lambda requests: len(requests) == 1, timeout_s=WAIT_S)
    assert set(threading.enumerate()) <= before
    with idle, hung, pytest.raises(ConnectionRefusedError):
        raw.connect(server)


def test_a_stopped_server_leaves_no_task() -> None:
    async def play() -> int:
        async with ScriptedModelServer(Script(turns=(Turn(fault=Fault.HANG_BEFORE_HEADERS),))) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
            await server.wait_until(lambda requests: len(requests) == 1, timeout_s=WAIT_S)
        left = len(asyncio.all_tasks())
        assert await reader.read() == b""
        writer.close()
        return left

    assert asyncio.run(play()) == 1
