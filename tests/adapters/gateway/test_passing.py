"""What passes and what is changed on the way: headers, bodies, the key."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from typing import Any

import pytest

from clinebox.adapters.gateway import CapturedBodies, Upstream
from clinebox.domain.model_calls.record import CallEnd, CallFlag, ModelCall
from clinebox.domain.secrets.masker import Masker

KEY = "sk-the-real-key-0123456789"
SSE = (
    b'data: {"id":"c","model":"m","choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_every_method_passes(stage: Any, byte_server: Any, ok: Any, method: str) -> None:
    reply = ok(b"abc") if method != "HEAD" else ok(b"abc")[:-3]
    async with byte_server(reply) as (upstream, url), stage(url) as on:
        answer = await on.ask(
            "/files/a-1?x=1&y=%20z", method=method, **({"content": b"q"} if method == "POST" else {})
        )
        assert (answer.status, answer.raw) == (200, b"" if method == "HEAD" else b"abc")
        assert answer.headers["content-length"] == "3"
        assert upstream.seen[0].line == f"{method} /v1/files/a-1?x=1&y=%20z HTTP/1.1"
        assert (on.call.method, on.call.path, on.call.end) == (method, "/v1/files/a-1", CallEnd.FINISHED)


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_a_body_passes(stage: Any, byte_server: Any, status: str) -> None:
    async with byte_server(f"HTTP/1.1 {status}\r\netag: x\r\n\r\n".encode()) as (_, url), stage(url) as on:
        answer = await on.ask("/models", method="GET")
        assert (str(answer.status), answer.headers["etag"]) == (status[:3], "x")
        assert on.call.end is CallEnd.FINISHED


async def test_the_request_keeps_its_end_to_end_headers_and_gets_the_key(
    stage: Any, byte_server: Any, ok: Any
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        sent = {
            "authorization": f"Bearer {on.session.token}",
            "api-key": on.session.token,
            "x-api-key": on.session.token,
            "cookie": "a=b",
            "referer": f"{on.base_url}/chat",
            "x-litellm-key": f"Bearer {on.session.token}",
            "x-session-id": "rollout-7",
            "user-agent": "ai-sdk/openai-compatible/1",
            "accept-encoding": "gzip, br",
            "connection": "keep-alive, x-hop",
            "x-hop": "gone",
            "keep-alive": "timeout=5",
            "te": "trailers",
            "proxy-authorization": "Basic abc",
            "host": "evil.example",
        }
        await on.ask(headers=sent)
        (seen,) = upstream.seen
    assert seen.all("authorization") == [f"Bearer {KEY}"]
    assert seen.all("accept-encoding") == ["identity"]
    assert (seen.all("x-session-id"), seen.all("user-agent")) == (
        ["rollout-7"],
        ["ai-sdk/openai-compatible/1"],
    )
    assert seen.all("host") == [url.removeprefix("http://").removesuffix("/v1")]
    dropped = [
        "api-key",
        "x-api-key",
        "cookie",
        "referer",
        "x-litellm-key",
        "x-hop",
        "keep-alive",
        "te",
        "proxy-authorization",
        "connection",
    ]
    assert [name for name in dropped if seen.all(name)] == []
    assert on.session.token not in repr(seen)


async def test_without_a_key_none_is_sent_and_the_token_neither(
    stage: Any, byte_server: Any, ok: Any
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url, key=None) as on:
        await on.ask(headers={"authorization": f"Bearer {on.session.token}"})
        assert upstream.seen[0].all("authorization") == []


async def test_the_answer_keeps_its_end_to_end_headers_and_no_others(
    stage: Any, byte_server: Any, ok: Any
) -> None:
    head = [
        "x-request-id: r-1",
        "retry-after: 3",
        "x-ratelimit-remaining: 0",
        "set-cookie: a=b",
        "set-cookie: c=d",
        "connection: x-hop",
        "x-hop: 1",
        "keep-alive: timeout=9",
        'alt-svc: h3="evil.example:443"',
        "x-clinebox-gateway: forged",
        f"x-echo: Bearer {KEY}",
    ]
    async with byte_server(ok(head=head)) as (_, url), stage(url) as on:
        answer = await on.ask()
        again = await on.ask()
    assert [answer.headers.get(n) for n in ("x-request-id", "retry-after", "x-ratelimit-remaining")] == [
        "r-1",
        "3",
        "0",
    ]
    assert answer.headers.get_list("set-cookie") == ["a=b", "c=d"]
    assert [
        n for n in ("x-hop", "keep-alive", "alt-svc", "x-clinebox-gateway", "x-echo") if n in answer.headers
    ] == []
    assert again.status == 200


async def test_a_cookie_of_one_session_is_not_sent_for_another(stage: Any, byte_server: Any, ok: Any) -> None:
    async with byte_server(ok(head=["set-cookie: who=first; path=/"])) as (upstream, url), stage(url) as on:
        await on.ask()
        other = on.gateway.open_session()
        await on.ask(base_url=other.base_url(on.address.url))
        assert [seen.all("cookie") for seen in upstream.seen] == [[], []]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_neither_followed_nor_passed_on(
    stage: Any, byte_server: Any, ok: Any, status: int
) -> None:
    async with (
        byte_server(ok(head=["location: http://evil.example/"], status=f"{status} Moved")) as (
            upstream,
            url,
        ),
        stage(url) as on,
    ):
        answer = await on.ask()
        assert (answer.status, answer.marker) == (502, "upstream_redirect")
        assert "location" not in answer.headers
        assert b"evil" not in answer.raw
        assert (on.call.http_status, on.call.gateway_status) == (status, 502)
        assert len(upstream.seen) == 1


async def test_a_key_that_an_error_quotes_is_covered(
    stage: Any, byte_server: Any, ok: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}. ", "code": 401}}).encode()
    kept: list[tuple[ModelCall, CapturedBodies | None]] = []
    options = {"capture": Masker([KEY]).stream, "on_end": lambda call, bodies: kept.append((call, bodies))}
    async with (
        byte_server(ok(body, status="401 Unauthorized")) as (_, url),
        stage(url, options=options) as on,
    ):
        answer = await on.ask()
        everything = repr((on.session.records(), on.session, on.gateway, kept))
        error = on.call.response.error
    assert answer.raw == body.replace(KEY.encode(), b"***")
    assert (answer.status, answer.error) == (401, None)
    assert error is not None
    assert KEY not in everything
    assert KEY not in caplog.text
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("http")]
    assert on.session.token not in "".join(ours)  # httpx, the test's client, logs the address it asks


async def test_a_key_that_is_echoed_in_a_field_reaches_neither_the_client_nor_a_log(
    stage: Any, byte_server: Any, ok: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with byte_server(ok(head=[f"x-echo: Bearer {KEY}"])) as (_, url), stage(url) as on:
        answer = await on.ask()
        assert (answer.status, "x-echo" in answer.headers) == (200, False)
    assert "receive_response_headers.complete" in caplog.text
    assert KEY not in caplog.text


def test_an_upstream_shows_its_key_nowhere() -> None:
    assert KEY not in repr(Upstream("http://h/v1", KEY))


@pytest.mark.parametrize("key", ["", "a b", "a\nb", "clé"])
def test_a_key_that_no_header_carries_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ValueError, match="no HTTP header can carry") as refused:
        Upstream("http://h/v1", key)
    assert not key or key not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["", "h:8000", "ftp://h/v1", "http://u:p4ssw0rd@h/v1", "http://h/v1?a=b", "http:///v1"]
)
def test_an_address_that_calls_cannot_be_sent_to_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="base URL") as refused:
        Upstream(url)
    assert "p4ssw0rd" not in str(refused.value)


@pytest.mark.parametrize("prefix", ["/ng-rollout/key-1", "ng-rollout/key-1/"])
async def test_a_session_s_prefix_stands_before_the_upstream_s_path(
    stage: Any, byte_server: Any, ok: Any, prefix: str
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url + "/", options={"prefix": prefix}) as on:
        await on.ask()
        assert upstream.seen[0].line == "POST /ng-rollout/key-1/v1/chat/completions HTTP/1.1"


async def test_a_body_passes_byte_for_byte_with_its_length(stage: Any, byte_server: Any, ok: Any) -> None:
    body = b'{ "model" : "m",\r\n\t"x": 1e400, "x": "\xc3\xa9\\u00e9" }\n\x00\xff'
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        await on.ask(content=body)
        assert (upstream.seen[0].body, upstream.seen[0].all("content-length")) == (body, [str(len(body))])
        assert on.call.request_bytes == len(body)
        assert on.call.sampling == {}


async def test_a_coded_answer_passes_coded_and_is_read(stage: Any, byte_server: Any, ok: Any) -> None:
    coded = gzip.compress(SSE)
    reply = ok(coded, head=["content-type: text/event-stream", "content-encoding: gzip"])
    async with byte_server(reply) as (_, url), stage(url) as on:
        answer = await on.ask()
        assert (answer.raw, answer.headers["content-encoding"]) == (coded, "gzip")
        assert on.call.response.finish_reason == "stop"


async def test_a_damaged_or_unknown_coding_passes_and_reads_as_no_answer(
    stage: Any, byte_server: Any, ok: Any
) -> None:
    for coding in ("gzip", "br"):
        reply = ok(
            b"\x1f\x8bdamaged", head=["content-type: text/event-stream", f"content-encoding: {coding}"]
        )
        async with byte_server(reply) as (_, url), stage(url) as on:
            answer = await on.ask()
            assert answer.raw == b"\x1f\x8bdamaged"
            assert CallFlag.NO_FINISH_REASON in on.call.response.flags


async def test_captured_bodies_are_masked_and_bounded(stage: Any, byte_server: Any, ok: Any) -> None:
    kept: list[CapturedBodies] = []
    secret = "hunter2-hunter2"  # noqa: S105 - a sample
    options = {"capture": Masker([secret]).stream, "on_end": lambda _, bodies: kept.append(bodies)}
    big = b"z" * (1024 * 1024 - 3) + secret.encode() + b"behind"
    async with byte_server(ok(big)) as (_, url), stage(url, options=options) as on:
        await on.ask(content=f"say {secret}".encode())
        answer = await on.ask(content=b"x" * (1024 * 1024 + 1))
    assert answer.raw == big
    assert (kept[0].request, kept[0].request_cut) == (b"say ***", False)
    assert kept[0].response == b"z" * (1024 * 1024 - 3) + b"***"
    assert kept[0].response_cut
    assert (len(kept[1].request), kept[1].request_cut) == (1024 * 1024, True)


async def test_a_session_that_captures_nothing_tells_of_no_bodies(
    stage: Any, byte_server: Any, ok: Any
) -> None:
    told: list[tuple[ModelCall, CapturedBodies | None]] = []
    options = {"on_end": lambda call, bodies: told.append((call, bodies))}
    async with byte_server(ok()) as (_, url), stage(url, options=options) as on:
        await on.ask()
        assert told == [(on.call, None)]


async def test_the_record_is_whole_before_the_client_can_know_the_end(
    stage: Any, byte_server: Any, ok: Any
) -> None:
    replies = [
        ok(b"abc"),
        ok(b""),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        ok(b"abc", status="500 Oops"),
    ]
    for reply in replies:
        async with byte_server(reply) as (_, url), stage(url) as on:
            for number in range(1, 6):
                await on.ask()
                assert [call.end for call in on.session.records()] == [CallEnd.FINISHED] * number
    assert asyncio.get_running_loop().is_running()
