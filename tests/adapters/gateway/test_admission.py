"""Who may call and where a call may lead: tokens, paths, methods, sizes; never an open proxy."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from clinebox.adapters.gateway import Bounds
from clinebox.adapters.gateway.targets import parse_target
from clinebox.adapters.gateway.tokens import TokenTable, new_session_token
from clinebox.domain.model_calls.record import CallEnd

SMALL = Bounds(request_limit_bytes=1_000)


def test_tokens_are_random_url_safe_and_of_32_bytes() -> None:
    table: TokenTable[int] = TokenTable()
    tokens = {new_session_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", token) for token in tokens)
    assert len(table) == 0


@pytest.mark.parametrize("wrong", ["", "a", "token ", "Token", "toke\udcff", "tök", "token" * 1000])
def test_only_the_very_token_is_found(wrong: str) -> None:
    table: TokenTable[int] = TokenTable()
    table.add("token", 1)
    assert (table.find("token"), table.find(wrong)) == (1, None)
    table.end("token")
    table.end("token")
    assert table.find("token") is None


@pytest.mark.parametrize(
    "path",
    [
        b"",
        b"/",
        b"/v1/models",
        b"/s//v1/models",
        b"/s/t",
        b"/s/t/v2/models",
        b"/s/t/v1x",
        b"/s/t/v1/",
        b"/s/t/v1//models",
        b"/s/t/v1/models/",
        b"//s/t/v1/models",
        b"/S/t/v1/models",
        b"/s/t/v1/../admin",
        b"/s/t/v1/..",
        b"/s/t/v1/.",
        b"/s/t/v1/./models",
        b"/s/t/v1/..;/admin",
        b"/s/t/v1/..;a=b/admin",
        b"/s/t/v1/%2e%2e/admin",
        b"/s/t/v1/.%2E/admin",
        b"/s/t/v1/a%2Fb",
        b"/s/t/v1/a%2fb",
        b"/s/t/v1/a%5Cb",
        b"/s/t/v1/a\\b",
        b"/s/t/v1/a%252Fb",
        b"/s/t/v1/a%00b",
        b"/s/t/v1/a%0d%0ab",
        b"/s/t/v1/a%7Fb",
        b"/s/t/v1/a%",
        b"/s/t/v1/a%zz",
        b"/s/t/v1/a b",
        b"/s/t/v1/a?b",
        b"/s/t/v1/a#b",
        b"/s/t/v1/\xff",
        b"/s/t/v1/a\n",
        b"/s/t/v1/models\x00",
        b"/s/" + b"t" * 129 + b"/v1/models",
        b"http://evil.example/s/t/v1/models",
        b"evil.example:443",
        b"*",
    ],
)
def test_a_path_that_could_mean_another_place_is_no_target(path: bytes) -> None:
    assert parse_target(path) is None


@pytest.mark.parametrize(
    "below",
    ["", "/chat/completions", "/responses", "/models", "/models/Qwen:7b@v1", "/a/b/c...", "/files/%C3%A9"],
)
def test_a_path_below_v1_is_a_target_as_it_stands(below: str) -> None:
    target = parse_target(f"/s/t-_9/v1{below}".encode())
    assert target is not None
    assert (target.token, target.below) == ("t-_9", below)


@pytest.mark.parametrize(
    "line",
    [
        "GET http://127.0.0.1:{port}/v1/models HTTP/1.1",
        "GET /s/{token}/v1/../models HTTP/1.1",
        "GET /s/{token}/v1/%2e%2e/models HTTP/1.1",
        "GET /s/{token}/v1/a%2fb HTTP/1.1",
        "GET /v1/models HTTP/1.1",
        "CONNECT evil.example:443 HTTP/1.1",
        "OPTIONS * HTTP/1.1",
    ],
)
async def test_nothing_but_a_session_s_path_reaches_the_upstream(
    stage: Any, byte_server: Any, ok: Any, line: str
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        port = url.split(":")[2].split("/")[0]
        said = await on.raw(
            line.format(port=port, token=on.session.token).encode()
            + b"\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        assert said.startswith(b"HTTP/1.1 404 ")
        assert b"x-clinebox-gateway: no_such_path\r\n" in said
        assert upstream.seen == []
        assert on.session.records() == ()


@pytest.mark.parametrize("head", ["TRACE {} HTTP/1.1\r\n", "GET {} HTTP/1.1\r\nUpgrade: h2c\r\n"])
async def test_what_would_echo_the_key_or_leave_http_is_refused(
    stage: Any, byte_server: Any, ok: Any, head: str
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        line = head.format(f"/s/{on.session.token}/v1/models")
        said = await on.raw(line.encode() + b"Host: x\r\nConnection: close\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 405 ")
        assert upstream.seen == []


async def test_http_1_0_is_refused_since_a_cut_would_look_like_an_end(
    stage: Any, byte_server: Any, ok: Any
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        said = await on.raw(f"GET /s/{on.session.token}/v1/models HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        assert b" 505 " in said.split(b"\r\n")[0]
        assert b"proxy_http_version 1.1" in said
        assert upstream.seen == []


async def test_two_sessions_with_each_other_s_end_know_only_their_own_token(
    stage: Any, byte_server: Any, ok: Any
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        other = on.gateway.open_session()
        assert (await on.ask()).status == 200
        assert (await on.ask(base_url=other.base_url(on.address.url))).status == 200
        swapped = other.token[:-1] + ("B" if other.token[-1] == "A" else "A")
        crossed = on.session.token[:20] + other.token[20:]
        for token in (swapped, crossed, other.token.lower(), "x"):
            answer = await on.ask(base_url=f"{on.address.url}/s/{token}/v1")
            assert (answer.status, answer.marker) == (401, "wrong_token")
        assert (len(on.session.records()), len(other.records())) == (1, 1)
        assert len(upstream.seen) == 2


async def test_two_sessions_with_each_other_s_tokens_are_both_refused(
    stage: Any, byte_server: Any, ok: Any
) -> None:
    """Each run has a gateway of its own: a token is worth nothing at another's."""
    async with byte_server(ok()) as (upstream, url), stage(url) as one, stage(url) as other:
        for on, stranger in ((one, other), (other, one)):
            base_url = stranger.session.base_url(on.address.url)
            answer = await on.ask(base_url=base_url)
            assert (answer.status, answer.marker) == (401, "wrong_token")
            held = await on.ask(base_url=base_url, headers={"Authorization": f"Bearer {on.session.token}"})
            assert (held.status, held.marker) == (401, "wrong_token")
        assert upstream.seen == []
        assert (one.session.records(), other.session.records()) == ((), ())
        assert [(await on.ask()).status for on in (one, other)] == [200, 200]


async def test_an_ended_token_is_refused_and_the_other_session_goes_on(
    stage: Any, byte_server: Any, ok: Any
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        other = on.gateway.open_session()
        assert (await on.ask()).status == 200
        on.session.close()
        on.session.close()
        refused = await on.ask()
        assert (refused.status, refused.marker) == (401, "wrong_token")
        assert json.loads(refused.raw)["error"]["type"] == "clinebox_gateway"
        assert (await on.ask(base_url=other.base_url(on.address.url))).status == 200
        assert len(on.session.records()) == 1
        assert len(upstream.seen) == 2


@pytest.mark.parametrize("size", [1_000, 1_001])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_bound_is_refused_at_the_byte(
    stage: Any, byte_server: Any, ok: Any, *, size: int, chunked: bool
) -> None:
    async def pieces() -> Any:
        for _ in range(size):
            yield b"x"

    async with byte_server(ok()) as (upstream, url), stage(url, bounds=SMALL) as on:
        answer = await on.ask(content=pieces() if chunked else b"x" * size)
        call = on.call
        if size <= 1_000:
            assert (answer.status, answer.marker) == (200, None)
            assert upstream.seen[0].body == b"x" * size
        else:
            assert (answer.status, answer.marker) == (413, "body_too_large")
            assert upstream.seen == []
            assert (call.gateway_status, call.http_status, call.end) == (413, None, CallEnd.REFUSED)
        assert (await on.ask(content=b"y")).status == 200


async def test_a_refusal_of_head_has_no_body(stage: Any, byte_server: Any, ok: Any) -> None:
    async with byte_server(ok()) as (_, url), stage(url) as on:
        said = await on.raw(b"HEAD /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 404 ")
        assert said.endswith(b"\r\n\r\n")


async def test_health_is_answered_without_a_token_and_marked(stage: Any, byte_server: Any, ok: Any) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        response = await on.http.get(on.address.url + "/health")
        assert (response.status_code, response.json()) == (200, {"status": "ready"})
        assert response.headers["x-clinebox-gateway"] == "health"
        assert upstream.seen == []


async def test_a_client_that_stops_in_mid_upload_is_a_timeout_of_its_own(
    stage: Any, byte_server: Any, ok: Any
) -> None:
    async with byte_server(ok()) as (_, url), stage(url, bounds=Bounds(idle_s=0.3)) as on:
        reader, writer = await asyncio.open_connection(on.address.host, on.address.port)
        path = f"/s/{on.session.token}/v1/chat/completions"
        writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.1 408 ")
        assert (on.call.end, on.call.gateway_status, on.call.request_bytes) == (CallEnd.TIMEOUT, 408, 4)
