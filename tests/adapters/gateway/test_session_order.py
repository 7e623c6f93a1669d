"""What an operator may ask for in `POST /sessions`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.adapters.gateway import Sampling
from clinebox.adapters.gateway.session_order import LONGEST_TTL_S, SessionOrder, parse_session_order
from clinebox.adapters.gateway.targets import parse_target

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
orders = st.fixed_dictionaries(
    {},
    optional={
        "prefix": values | st.from_regex(r"(/[a-z%.2f]{0,6}){0,4}"),
        "ttl_s": values,
        "sampling": values
        | st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("temperature", "top_p", "seed", "max_output_tokens"), values)
        ),
    },
)


def test_an_empty_body_is_an_order_with_every_default() -> None:
    for body in (b"", b"{}", b'{"prefix": null, "sampling": null, "ttl_s": null}', b'{"sampling": {}}'):
        assert parse_session_order(body).unwrap() == SessionOrder()


def test_every_member_is_read() -> None:
    sampling = {"temperature": 0, "top_p": 1, "seed": -7, "max_output_tokens": 100}
    body = json.dumps({"prefix": "ng-rollout/a-b/", "ttl_s": 1.5, "sampling": sampling}).encode()
    assert parse_session_order(body).unwrap() == SessionOrder("/ng-rollout/a-b", Sampling(**sampling), 1.5)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "the body is not JSON"),
        (b"\xff", "the body is not JSON"),
        (b"[]", "the body is no JSON object"),
        (b'{"token": "mine"}', 'the body has the member "token": there are prefix, sampling, ttl_s'),
        (b'{"sampling": []}', "sampling is no JSON object"),
        (b'{"sampling": {"temprature": 1}}', 'sampling has the member "temprature": there are temperature'),
        (b'{"ttl_s": 0}', "ttl_s is 0: it must be a number of seconds above 0, at most 2592000"),
        (b'{"ttl_s": true}', "ttl_s is true: it must be"),
        (b'{"ttl_s": "60"}', 'ttl_s is "60": it must be'),
        (b'{"ttl_s": NaN}', "ttl_s is"),
        (b'{"ttl_s": 1e400}', "ttl_s is"),
        (b'{"sampling": {"temperature": -0.1}}', "temperature is -0.1: it must be a number from 0"),
        (b'{"sampling": {"top_p": 0}}', "top_p is 0: it must be a number above 0, at most 1"),
        (b'{"sampling": {"top_p": 1.01}}', "top_p is 1.01"),
        (b'{"sampling": {"seed": 1.5}}', "seed is 1.5: it must be a whole number of at most 64 bits"),
        (b'{"sampling": {"seed": 9223372036854775808}}', "seed is "),
        (
            b'{"sampling": {"max_output_tokens": 0}}',
            "max_output_tokens is 0: it must be a whole number from 1",
        ),
        (b'{"prefix": "/a/../b"}', 'prefix is "/a/../b": it must be a path such as /ng-rollout/KEY'),
        (b'{"prefix": "/a?b"}', "prefix is"),
        (b'{"prefix": "/a%2fb"}', "prefix is"),
        (b'{"prefix": "/"}', "prefix is"),
        (b'{"prefix": "/\xc3\xa9"}', "prefix is"),
        (b'{"prefix": 7}', "prefix is 7"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_value(body: bytes, sentence: str) -> None:
    assert parse_session_order(body).failure().startswith(sentence)


@given(st.binary(max_size=200) | orders.map(lambda order: json.dumps(order).encode()))
def test_parsing_is_total_and_what_it_lets_through_is_in_bounds(body: bytes) -> None:
    """'An order from a request's body; an empty body is an order with every default. Total.'"""
    parsed = parse_session_order(body)
    if not is_successful(parsed):
        assert parsed.failure()
        return
    order = parsed.unwrap()
    assert 0 < order.ttl_s <= LONGEST_TTL_S
    assert order.prefix == "" or parse_target(f"/s/x/v1{order.prefix}".encode("ascii")) is not None
    sampling = order.sampling
    assert sampling.top_p is None or 0 < sampling.top_p <= 1
    assert sampling.temperature is None or sampling.temperature >= 0
    assert sampling.max_output_tokens is None or sampling.max_output_tokens >= 1


@pytest.mark.parametrize("depth", [10, 100_000])
def test_a_deep_or_huge_value_is_a_sentence(depth: int) -> None:
    deep: Any = b'{"prefix": ' + b"[" * depth + b"]" * depth + b"}"
    assert parse_session_order(deep).failure()
    assert len(parse_session_order(b'{"seed": ' + b"9" * depth + b"}").failure()) < 300
