"""HTTP/1.1 as a hostile sandbox may speak it: two readings, heads without end, requests ahead."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from clinebox.adapters.gateway.protocol import HEAD_LIMIT_BYTES
from clinebox.adapters.scripted_model import Ending, Fault, Turn
from clinebox.domain.model_calls.record import CallEnd

PATIENCE_S = 60.0
CHUNKED = "transfer-encoding: chunked"


@pytest.mark.parametrize(
    "fields",
    [
        ("content-length: 3", CHUNKED),
        (CHUNKED, "content-length: 3"),
        ("content-length: 3", "content-length: 4"),
        ("content-length: 3, 3",),
        ("content-length: +3",),
        ("content-length: 0x3",),
        ("content-length: -1",),
        ("transfer-encoding: xchunked",),
        ("transfer-encoding: chunked, identity",),
        ("transfer-encoding : chunked",),
        ("transfer-encoding:\x0bchunked",),
        ("transfer-encoding: identity", "content-length: 3"),
        ("x: a\n y: b",),
        ("x: a", " folded: b"),
        ("x: a\rb",),
        ("x: a\x00b",),
        ("x y: a",),
    ],
)
async def test_a_request_that_can_be_read_in_two_ways_is_refused_and_marked(
    stage: Any, byte_server: Any, ok: Any, fields: tuple[str, ...]
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        lines = [f"POST /s/{on.session.token}/v1/chat/completions HTTP/1.1", "host: x", *fields, "", ""]
        said = await on.raw("\r\n".join(lines).encode() + b"3\r\nabc\r\n0\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 400 ")
        assert b"x-clinebox-gateway: bad_request\r\n" in said
        assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["type"] == "clinebox_gateway"
        assert (upstream.seen, on.session.records()) == ([], ())


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://evil.example{}", 404),
        ("http://127.0.0.1:{port}{}", 404),
        ("//evil.example{}", 404),
        ("//evil.example/v1/models", 404),
        ("{}#/../../admin", 404),
        ("{}/../../../admin", 404),
        ("{}/%2e%2e/admin", 404),
        ("{}/..%2fadmin", 404),
        ("{}/%2f%2fevil.example", 404),
        ("{}/a\\..\\b", 404),
        ("evil.example:443", 400),
        ("{}\xff", 400),
    ],
)
async def test_a_target_that_names_another_place_reaches_no_server(
    stage: Any, byte_server: Any, ok: Any, *, target: str, status: int
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        own = f"/s/{on.session.token}/v1/models"
        line = target.format(own, port=url.split(":")[2].split("/")[0])
        said = await on.raw(f"GET {line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode("latin-1"))
        assert said.startswith(f"HTTP/1.1 {status} ".encode())
        assert b"x-clinebox-gateway: " in said
        assert (upstream.seen, upstream.connections) == ([], 0)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:1", "", "a, b"])
async def test_the_host_field_leads_nowhere(stage: Any, byte_server: Any, ok: Any, host: str) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        said = await on.raw(
            f"GET /s/{on.session.token}/v1/models HTTP/1.1\r\nhost: {host}\r\n"
            f"x-forwarded-host: {host}\r\nconnection: close\r\n\r\n".encode()
        )
        assert said.startswith(b"HTTP/1.1 200 ")
        assert upstream.seen[0].all("host") == [url.removeprefix("http://").removesuffix("/v1")]


@pytest.mark.parametrize("version", ["0.9", "1.0", "2.0"])
async def test_another_version_of_http_is_refused(
    stage: Any, byte_server: Any, ok: Any, version: str
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        line = f"GET /s/{on.session.token}/v1/models HTTP/{version}\r\nconnection: close\r\nhost: x\r\n\r\n"
        said = await on.raw(line.encode())
        assert said.split(b" ")[1] in (b"400", b"505")
        assert upstream.seen == []


async def test_trailers_are_no_header_fields(stage: Any, byte_server: Any, ok: Any) -> None:
    """RFC 9110 §6.5.1: trailer fields must not be merged into the header section."""
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        said = await on.raw(
            f"POST /s/{on.session.token}/v1/x HTTP/1.1\r\nhost: x\r\n{CHUNKED}\r\nconnection: close\r\n\r\n"
            "3\r\nabc\r\n0\r\nx-session-id: forged\r\n\r\n".encode()
        )
        assert said.startswith(b"HTTP/1.1 200 ")
        (seen,) = upstream.seen
        assert (seen.body, seen.all("x-session-id")) == (b"abc", [])


@pytest.mark.parametrize("where", ["target", "field", "fields", "trailer", "extension"])
async def test_what_has_no_end_is_not_held(
    stage: Any, byte_server: Any, ok: Any, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    start = {
        "target": "GET /s/{}/v1/",
        "field": "GET /s/{}/v1/models HTTP/1.1\r\nx: ",
        "fields": "GET /s/{}/v1/models HTTP/1.1\r\n",
        "trailer": f"POST /s/{{}}/v1/x HTTP/1.1\r\n{CHUNKED}\r\n\r\n3\r\nabc\r\n0\r\nx: ",
        "extension": f"POST /s/{{}}/v1/x HTTP/1.1\r\n{CHUNKED}\r\n\r\n3;",
    }[where]
    piece = b"x: y\r\n" * 1_000 if where == "fields" else b"a" * 6_000
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        reader, writer = await asyncio.open_connection(on.address.host, on.address.port)
        writer.write(start.format(on.session.token).encode())
        sent = 0
        async with asyncio.timeout(PATIENCE_S):
            try:
                while not reader.at_eof() and sent < 64 * HEAD_LIMIT_BYTES:
                    writer.write(piece)
                    await writer.drain()
                    sent += len(piece)
                    await asyncio.sleep(0)
                said = await reader.read()
            except ConnectionError:
                said = b""
        writer.close()
        assert sent < 64 * HEAD_LIMIT_BYTES
        assert said == b"" or b"x-clinebox-gateway: head_too_large\r\n" in said
        assert upstream.seen == []
    ours = [record for record in caplog.records if record.name == "clinebox.gateway"]
    assert on.session.token not in repr([record.getMessage() for record in ours])


async def test_requests_sent_ahead_are_answered_in_order(stage: Any, byte_server: Any, ok: Any) -> None:
    async with byte_server(ok(b"abc")) as (upstream, url), stage(url) as on:
        one = f"GET /s/{on.session.token}/v1/{{}} HTTP/1.1\r\nhost: x\r\n{{}}\r\n"
        said = await on.raw((one.format("a", "") + one.format("b", "connection: close\r\n")).encode())
        assert said.count(b"HTTP/1.1 200 OK\r\n") == 2
        assert [seen.line.split(" ")[1] for seen in upstream.seen] == ["/v1/a", "/v1/b"]


async def test_a_client_that_left_behind_a_request_sent_ahead_is_noticed(
    scripted: Any, wait_until: Any
) -> None:
    hangs = Turn.model_validate({"text": "0123456789", "chunk_size": 1, "fault": Fault.HANG_MID_STREAM})
    async with scripted(hangs, hangs) as (model, stage):
        _, writer = await asyncio.open_connection(stage.address.host, stage.address.port)
        writer.write(stage.post())
        await model.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
        writer.write(stage.post())
        writer.transport.abort()
        await model.wait_until(
            lambda requests: requests[0].ending is Ending.CLIENT_CLOSED, timeout_s=PATIENCE_S
        )
        await wait_until(lambda: stage.session.records()[0].end is not None)
        assert [call.end for call in stage.session.records()] == [CallEnd.CLIENT_CLOSED]


@pytest.mark.parametrize("ahead", [b"\x00garbage\r\n\r\n", b"GET / HTTP/9\r\n\r\n"])
async def test_garbage_behind_a_request_cuts_its_answer_and_ends_nothing_cleanly(
    scripted: Any, wait_until: Any, ahead: bytes
) -> None:
    hangs = Turn.model_validate({"text": "0123456789", "chunk_size": 1, "fault": Fault.HANG_MID_STREAM})
    async with scripted(hangs) as (model, stage):
        reader, writer = await asyncio.open_connection(stage.address.host, stage.address.port)
        writer.write(stage.post())
        async with asyncio.timeout(PATIENCE_S):
            await reader.readuntil(b'"content":"4"')
            writer.write(ahead)
            try:
                rest = await reader.read()
            except ConnectionResetError:
                rest = b""
        writer.close()
        assert b"HTTP/1.1" not in rest
        assert not rest.endswith(b"0\r\n\r\n")
        await wait_until(lambda: stage.call.end is not None)
        assert stage.call.end is CallEnd.CLIENT_CLOSED
        await model.wait_until(
            lambda requests: requests[0].ending is Ending.CLIENT_CLOSED, timeout_s=PATIENCE_S
        )


async def test_after_a_refused_upgrade_the_connection_ends(
    stage: Any, byte_server: Any, ok: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        line = f"GET /s/{on.session.token}/v1/models HTTP/1.1\r\nhost: x\r\n"
        head = "connection: upgrade\r\nupgrade: websocket\r\n\r\n"
        said = await on.raw((line + head + line + "\r\n").encode())
        assert said.startswith(b"HTTP/1.1 405 ")
        assert said.count(b"HTTP/1.1") == 1
        assert upstream.seen == []
    assert on.session.token not in caplog.text
