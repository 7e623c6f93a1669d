"""The example of docs/gateway.md, run as it stands but for the model server's address."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx

from clinebox.adapters import gateway
from clinebox.adapters.scripted_model import Script, ScriptedModelServer, Turn

DOCUMENT = Path(__file__).parents[3] / "docs" / "gateway.md"
KEY = "sk-the-real-key-0123456789"


async def ask(base_url: str, token: str) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    async with httpx.AsyncClient(trust_env=False) as client:
        headers = {"authorization": f"Bearer {token}"}
        answer = await client.post(f"{base_url}/chat/completions", json=body, headers=headers)
        answer.raise_for_status()


async def test_the_example_of_the_document_records_a_call_with_what_was_set() -> None:
    block, _ = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    async with ScriptedModelServer(Script(turns=(Turn(text="hi"),)), require_key=KEY) as model:
        body = block.replace("http://model-host:8000/v1", model.base_url)
        body = body.replace("    ...\n", "    await ask(base_url, session.token)\n")
        text = f"async def example():\n{textwrap.indent(body, '    ')}    return calls\n"
        names: dict[str, Any] = {name: getattr(gateway, name) for name in gateway.__all__}
        names |= {"os": SimpleNamespace(environ={"MODEL_KEY": KEY}), "ask": ask}
        exec(compile(text, str(DOCUMENT), "exec"), names)  # noqa: S102 - our own document
        [call] = await names["example"]()
    assert (call.http_status, call.response.finish_reason) == (200, "stop")
    assert call.sampling == {"temperature": 0.2, "seed": 7}
