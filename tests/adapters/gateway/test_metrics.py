"""What a gateway shows to Prometheus."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from clinebox.adapters.gateway import Gateway, Upstream, serve_gateway
from clinebox.adapters.gateway.metrics import GatewayMetrics, with_metrics
from clinebox.adapters.scripted_model import Fault, Script, ScriptedModelServer, Turn

PATIENCE_S = 60.0


async def test_calls_tokens_and_refusals_are_counted_and_no_secret_is_a_label() -> None:
    turns = (
        Turn.model_validate({"text": "hi", "usage": {"prompt_tokens": 11, "completion_tokens": 7}}),
        Turn.model_validate({"status": 429}),
        Turn(text="never", fault=Fault.HANG_BEFORE_HEADERS),
    )
    metrics = GatewayMetrics()
    async with ScriptedModelServer(Script(turns=turns)) as model, httpx.AsyncClient(trust_env=False) as http:
        gateway = Gateway(
            Upstream(model.base_url, "sk-the-real-key-0123456789", trust_env=False),
            on_end=metrics.ended,
            on_refused=metrics.refused,
        )
        metrics.watch(gateway)
        async with serve_gateway(gateway, application=with_metrics(gateway, metrics)) as address:
            session = gateway.open_session()
            url = session.base_url(address.url) + "/chat/completions"
            body = {"stream": True, "stream_options": {"include_usage": True}, "messages": []}
            assert [(await http.post(url, json=body)).status_code for _ in range(2)] == [200, 429]
            assert (await http.post(f"{address.url}/s/wrong/v1/models")).status_code == 401
            pending = asyncio.create_task(http.post(url, json=body))
            await model.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
            text = (await http.get(f"{address.url}/metrics")).text
            model.release()
            await pending
    assert 'clinebox_gateway_calls_total{end="finished",status="200"} 1.0' in text
    assert 'clinebox_gateway_calls_total{end="finished",status="429"} 1.0' in text
    assert 'clinebox_gateway_refused_total{kind="wrong_token"} 1.0' in text
    assert 'clinebox_gateway_tokens_total{kind="prompt"} 11.0' in text
    assert 'clinebox_gateway_tokens_total{kind="completion"} 7.0' in text
    assert "clinebox_gateway_sessions 1.0" in text
    assert "clinebox_gateway_live_calls 1.0" in text
    assert "clinebox_gateway_first_byte_seconds_count 2.0" in text
    assert session.token not in text
    assert "sk-the-real-key" not in text


async def test_a_gateway_without_metrics_knows_no_such_path(stage: Any, byte_server: Any, ok: Any) -> None:
    async with byte_server(ok()) as (_, url), stage(url) as on:
        assert (await on.http.get(on.address.url + "/metrics")).status_code == 404
