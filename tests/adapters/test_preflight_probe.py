"""What the preflight probe sees of model servers, and that it never follows, raises or tells the key."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from clinebox.adapters.preflight_probe import probe_model_server
from clinebox.adapters.scripted_model import Fault, Script, ScriptedModelServer, Turn, credential_digest
from clinebox.domain.preflight import (
    Answered,
    ConnectionRefused,
    Observation,
    ProbeBroke,
    Redirected,
    TimedOut,
    Unresolved,
)

KEY = "sk-the-real-key-0123456789"


def probe(base_url: str, *, key: str | None = KEY, timeout_s: float = 30.0) -> Awaitable[Observation]:
    return probe_model_server(base_url, model="some-model", key=key, timeout_s=timeout_s, trust_env=False)


def against(turn: Turn, check: Callable[[ScriptedModelServer], Awaitable[None]]) -> None:
    async def story() -> None:
        async with ScriptedModelServer(Script(turns=(turn,))) as model:
            await check(model)

    asyncio.run(story())


@pytest.mark.parametrize("status", [200, 204, 400, 401, 402, 403, 404, 429, 500, 503])
def test_a_status_is_what_is_seen(status: int) -> None:
    async def check(model: ScriptedModelServer) -> None:
        assert await probe(model.base_url) == Answered(status)

    against(Turn.model_validate({"status": status}), check)


def test_the_probe_is_one_completion_of_one_token_with_the_key() -> None:
    async def check(model: ScriptedModelServer) -> None:
        assert await probe(model.base_url + "/") == Answered(200)
        (request,) = model.requests
        body: Any = request.body
        assert (request.method, request.path) == ("POST", "/v1/chat/completions")
        assert (body["model"], body["max_tokens"], body.get("stream")) == ("some-model", 1, None)
        assert request.header("authorization") == f"Bearer {credential_digest(KEY)}"

    against(Turn(text="x"), check)


def test_without_a_key_no_credential_is_sent() -> None:
    async def check(model: ScriptedModelServer) -> None:
        assert await probe(model.base_url, key=None) == Answered(200)
        assert model.requests[0].header("authorization") is None

    against(Turn(text="x"), check)


def test_a_redirect_is_seen_and_not_followed() -> None:
    async def check(model: ScriptedModelServer) -> None:
        assert await probe(model.base_url) == Redirected(307, "http://elsewhere.invalid/v1")
        assert len(model.requests) == 1

    against(Turn(fault=Fault.REDIRECT, location="http://elsewhere.invalid/v1"), check)


def test_silence_is_a_timeout_of_the_whole_probe() -> None:
    async def check(model: ScriptedModelServer) -> None:
        assert await probe(model.base_url, timeout_s=0.2) == TimedOut(0.2)

    against(Turn(fault=Fault.HANG_BEFORE_HEADERS), check)


def test_a_head_is_enough_though_the_body_never_comes() -> None:
    async def check(model: ScriptedModelServer) -> None:
        assert await probe(model.base_url) == Answered(200)

    against(Turn(text="never", fault=Fault.HANG_AFTER_HEADERS), check)


@pytest.mark.parametrize("fault", [Fault.RESET_BEFORE_HEADERS, Fault.CLOSE_BEFORE_HEADERS])
def test_a_cut_is_told_by_its_class(fault: Fault) -> None:
    async def check(model: ScriptedModelServer) -> None:
        seen = await probe(model.base_url)
        assert isinstance(seen, ProbeBroke)
        assert KEY not in repr(seen)

    against(Turn(fault=fault), check)


def test_a_port_without_a_listener_refuses() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        seen = asyncio.run(_awaited(probe(f"http://127.0.0.1:{held.getsockname()[1]}/v1")))
    assert seen == ConnectionRefused()


def test_a_name_without_an_address_is_told_by_its_class() -> None:
    assert asyncio.run(_awaited(probe("http://no-such-host.invalid/v1"))) == ProbeBroke("gaierror")


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "host:8000/v1",
        "ftp://host/v1",
        "http:///v1",
        "http://user:sk-pass-0123456789@host/v1",
        "http://h/v1?k=v",
    ],
)
def test_an_address_that_is_none_is_unresolved_and_shows_no_credential(base_url: str) -> None:
    seen = asyncio.run(_awaited(probe(base_url)))
    assert isinstance(seen, Unresolved)
    assert "sk-pass" not in seen.reason


@pytest.mark.parametrize("key", ["with space", "line\nend", "", "schlüssel"])
def test_a_key_that_no_header_carries_is_unresolved_and_not_shown(key: str) -> None:
    seen = asyncio.run(_awaited(probe("http://127.0.0.1:9/v1", key=key)))
    assert isinstance(seen, Unresolved)
    assert not key or key not in seen.reason


async def _awaited(observation: Awaitable[Observation]) -> Observation:
    return await observation
