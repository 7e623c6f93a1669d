"""`/sessions` before a gateway: who may, what is answered, and when a session ends by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from clinebox.adapters.gateway import Gateway, GatewayAddress, SessionOptions, Upstream, serve_gateway
from clinebox.adapters.gateway.admin import ORDER_LIMIT_BYTES, SessionDesk
from clinebox.adapters.gateway.session_book import SessionBook
from clinebox.adapters.scripted_model import Fault, Script, ScriptedModelServer, Turn
from clinebox.domain.model_calls.reader import parse_model_calls

OPERATOR = "operator-token-0123456789"
PATIENCE_S = 60.0
ASK = {"stream": True, "messages": []}


@dataclass
class Desk:
    """A served gateway with a desk, and an operator before it."""

    gateway: Gateway
    book: SessionBook
    address: GatewayAddress
    http: httpx.AsyncClient
    refused: list[str]

    async def send(self, method: str, path: str = "/sessions", **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {OPERATOR}", **more.pop("headers", {})}
        return await self.http.request(method, self.address.url + path, headers=headers, **more)


@asynccontextmanager
async def desk(base_url: str = "http://127.0.0.1:9/v1", **book: Any) -> AsyncIterator[Desk]:
    refused: list[str] = []
    gateway = Gateway(Upstream(base_url, trust_env=False))
    sessions = SessionBook(gateway, **book)
    front = SessionDesk(gateway, sessions, OPERATOR, model="some-model", on_refused=refused.append)
    async with (
        serve_gateway(gateway, application=front) as address,
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http,
    ):
        front.public_url = "http://gate.example:1/behind"
        yield Desk(gateway, sessions, address, http, refused)
        assert await sessions.aclose() == 0


async def test_an_opened_session_is_told_with_its_token_and_is_not_to_be_stored() -> None:
    async with desk() as at:
        answer = await at.send("POST", json={"ttl_s": 60})
        opened = answer.json()
        assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
        assert answer.headers["x-clinebox-gateway"] == "sessions"
        assert opened["base_url"] == f"http://gate.example:1/behind/s/{opened['token']}/v1"
        [listed] = (await at.send("GET")).json()["sessions"]
        assert opened["token"] not in json.dumps(listed)
        assert (listed["id"], listed["open"], listed["calls"]) == (opened["id"], True, 0)
        assert listed["expires_at_s"] - listed["opened_at_s"] == pytest.approx(60)


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("PUT", "/sessions", 405, "no_such_method"),
        ("HEAD", "/sessions", 405, "no_such_method"),
        ("DELETE", "/sessions", 405, "no_such_method"),
        ("POST", "/sessions/abc/calls", 405, "no_such_method"),
        ("DELETE", "/sessions/abc/calls", 405, "no_such_method"),
        ("GET", "/sessions/abc", 405, "no_such_method"),
        ("GET", "/sessions/abc/calls", 404, "no_such_session"),
        ("DELETE", "/sessions/abc", 404, "no_such_session"),
        ("DELETE", "/sessions/a%2e%2e", 404, "no_such_path"),
        ("GET", "/sessionsx", 404, "no_such_path"),
        ("GET", "/sessions/" + "a" * 65 + "/calls", 404, "no_such_path"),
    ],
)
async def test_every_other_method_and_path_is_refused(method: str, path: str, status: int, kind: str) -> None:
    async with desk() as at:
        answer = await at.send(method, path)
        assert (answer.status_code, answer.headers["x-clinebox-gateway"]) == (status, kind)


async def test_an_order_that_cannot_be_served_is_told_and_opens_nothing() -> None:
    async with desk() as at:
        wrong = await at.send("POST", json={"ttl_s": -1})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "bad_session")
        assert "ttl_s is -1" in wrong.json()["error"]["message"]
        large = await at.send("POST", content=b" " * (ORDER_LIMIT_BYTES + 1))
        assert large.status_code == 413
        assert at.gateway.session_count == 0
        assert at.refused == ["bad_session", "body_too_large"]


async def test_an_operators_token_is_asked_for_before_the_body_is_read() -> None:
    async with desk() as at:
        answer = await at.send("POST", content=b"{", headers={"authorization": "Bearer nobody"})
        assert answer.status_code == 401
        assert at.refused == ["wrong_operator_token"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (f"bearer {OPERATOR}", 200),
        (f"BEARER {OPERATOR}", 200),
        (f"Bearer  {OPERATOR}", 401),
        (f"Basic {OPERATOR}", 401),
        (f"Bearer {OPERATOR[:-1]}", 401),
        (f"Bearer {OPERATOR}x", 401),
        (f"Bearer {OPERATOR.upper()}", 401),
        (OPERATOR, 401),
        ("Bearer", 401),
    ],
)
async def test_the_operators_token_is_the_whole_of_it(sent: str, status: int) -> None:
    async with desk() as at:
        assert (await at.send("GET", headers={"authorization": sent})).status_code == status


async def test_two_sessions_are_told_apart_in_what_they_called() -> None:
    script = Script(turns=(Turn(text="a"), Turn(text="b")))
    async with ScriptedModelServer(script) as model, desk(model.base_url) as at:
        one, two = [(await at.send("POST", json={})).json() for _ in range(2)]
        for opened in (one, one, two):
            await at.http.post(f"{at.address.url}/s/{opened['token']}/v1/chat/completions", json=ASK)
        for opened, count in ((one, 2), (two, 1)):
            told = await at.send("GET", f"/sessions/{opened['id']}/calls")
            assert [json.loads(line)["of"] for line in told.text.splitlines()] == [None] * count


async def test_a_prefix_leads_to_its_place_at_the_upstream() -> None:
    async with desk("http://127.0.0.1:9/v1") as at:
        opened = (await at.send("POST", json={"prefix": "/ng-rollout/key"})).json()
        booked = at.book.find(opened["id"])
        assert booked is not None
        assert booked.session.upstream_url == "http://127.0.0.1:9/ng-rollout/key/v1"


async def test_ending_a_session_cuts_its_call_and_gives_its_last_record() -> None:
    turn = Turn(text="never", fault=Fault.HANG_BEFORE_HEADERS)
    async with ScriptedModelServer(Script(turns=(turn,))) as model, desk(model.base_url) as at:
        opened = (await at.send("POST")).json()
        url = f"{at.address.url}/s/{opened['token']}/v1/chat/completions"
        async with under_way(at.http.post(url, json=ASK)) as pending:
            await model.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
            ended = await at.send("DELETE", f"/sessions/{opened['id']}")
            assert parse_model_calls(ended.content).is_whole
            assert json.loads(ended.text)["end"] == "client_closed"
            assert (await pending).json()["error"]["code"] == "session_ended"
        [listed] = (await at.send("GET")).json()["sessions"]
        assert (listed["open"], listed["live_calls"]) == (False, 0)


async def test_a_session_ends_with_its_time_and_is_forgotten_later(wait_until: Any) -> None:
    async with desk(kept_s=0.2) as at:
        opened = (await at.send("POST", json={"ttl_s": 0.2})).json()
        await wait_until(lambda: at.gateway.session_count == 0)
        await wait_until(lambda: at.book.find(opened["id"]) is None)
        assert (await at.send("GET", f"/sessions/{opened['id']}/calls")).status_code == 404
        assert (await at.send("GET")).json() == {"sessions": []}


async def test_an_ended_session_can_be_ended_again_while_it_is_remembered() -> None:
    async with desk() as at:
        opened = (await at.send("POST")).json()
        for _ in range(2):
            ended = await at.send("DELETE", f"/sessions/{opened['id']}")
            assert (ended.status_code, ended.content) == (200, b"")


async def test_a_session_that_keeps_no_records_still_tells_each_call() -> None:
    async with ScriptedModelServer(Script(turns=(Turn(text="a"),))) as model, desk(model.base_url) as at:
        told: list[int] = []
        options = SessionOptions(on_end=lambda call, _: told.append(call.number), keeps_records=False)
        session = at.gateway.open_session(options)
        for _ in range(2):
            await at.http.post(session.base_url(at.address.url) + "/chat/completions", json=ASK)
        assert (told, session.records(), session.call_count) == ([1, 2], (), 2)


@asynccontextmanager
async def under_way(awaitable: Any) -> AsyncIterator[Any]:
    task = asyncio.ensure_future(awaitable)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
