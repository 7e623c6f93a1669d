"""The caller's sampling fields: set in the JSON, every other byte as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.adapters.gateway import Sampling
from clinebox.adapters.gateway.sampling import with_sampling


async def test_sampling_fields_are_set_and_recorded(stage: Any, byte_server: Any, ok: Any) -> None:
    sampling = Sampling(temperature=0.0, top_p=0.9, seed=7, max_output_tokens=512)
    body = (
        b'{"model":"m", "stream": true,"temperature": 1,  "messages":[{"role":"user","content":"\xc3\xa9"}] }'
    )
    async with byte_server(ok()) as (upstream, url), stage(url, options={"sampling": sampling}) as on:
        await on.ask(content=body)
        await on.ask("/responses", content=b'{"input":[1,2]}')
        await on.ask("/embeddings", content=b'{"input":"x"}')
        await on.ask(content=b"no JSON")
        bodies = [seen.body for seen in upstream.seen]
        calls = on.session.records()
    assert bodies == [
        body.replace(b": 1,", b": 0.0,").replace(b" }", b',"top_p":0.9,"seed":7,"max_tokens":512 }'),
        b'{"input":[1,2],"temperature":0.0,"top_p":0.9,"seed":7,"max_output_tokens":512}',
        b'{"input":"x"}',
        b"no JSON",
    ]
    assert calls[0].sampling == {"temperature": 0.0, "top_p": 0.9, "seed": 7, "max_tokens": 512}
    assert (calls[0].request.model, calls[0].request.messages, calls[1].request.messages) == ("m", 1, 2)
    assert [call.sampling for call in calls[2:]] == [{}, {}]


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        (b'{"max_tokens":4096}', "max_tokens", 512),
        (b'{"max_tokens":100}', "max_tokens", 100),
        (b'{"max_completion_tokens":100000}', "max_completion_tokens", 512),
        (b'{"max_tokens":null}', "max_tokens", 512),
        (b'{"max_tokens":true}', "max_tokens", 512),
        (b"{}", "max_tokens", 512),
    ],
)
def test_a_bound_on_output_only_ever_tightens(body: bytes, field: str, value: int) -> None:
    sampled = with_sampling(body, "/chat/completions", Sampling(max_output_tokens=512))
    assert sampled is not None
    assert json.loads(sampled.body) == {field: value}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(
    asked=st.dictionaries(st.text() | st.sampled_from(["temperature", "seed"]), JSON, max_size=6),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
    temperature=st.floats(0, 2),
)
def test_sampling_changes_its_own_fields_and_nothing_else(
    *, asked: dict[str, Any], indent: int | None, ascii_only: bool, temperature: float
) -> None:
    """SPEC §11: the caller's fields "are set on the way through, and recorded; nothing else is changed"."""
    body = json.dumps(asked, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    sampled = with_sampling(body, "/chat/completions", Sampling(temperature=temperature, seed=5))
    try:
        body.decode()
    except UnicodeDecodeError:
        assert sampled is None
        return
    assert sampled is not None
    assert json.loads(sampled.body) == {**asked, "temperature": temperature, "seed": 5}
    assert sampled.asked == asked


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:1a ', max_size=30).map(str.encode))
def test_any_bytes_are_sampled_or_left_alone(body: bytes) -> None:
    """A body that is no JSON object is passed on as it came; what is sampled is one still."""
    sampled = with_sampling(body, "/chat/completions", Sampling(seed=1))
    if sampled is not None:
        assert json.loads(sampled.body)["seed"] == 1


def test_a_body_nested_beyond_the_parser_s_stack_is_left_alone() -> None:
    assert with_sampling(b'{"a":' + b"[" * 100_000, "/chat/completions", Sampling(seed=1)) is None
