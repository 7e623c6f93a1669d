r"""Masked NDJSON stays NDJSON: matches that cut an escape, reach over quotes, or lie in a number."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.secrets.forms import forms_of
from clinebox.domain.secrets.masker import Masker, why_not_masked

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

FRAGMENTS = st.text('ab"\\nu0e9é\n{}:,', min_size=1, max_size=6)
PIECES = st.text('ab"\\nu0e9é', min_size=8, max_size=12)
SECRETS = st.lists(st.one_of(PIECES, PIECES.map('{"'.__add__)), min_size=1, max_size=4)


@st.composite
def records(draw: st.DrawFn) -> tuple[list[str], bytes]:
    """NDJSON that holds the secrets, their pieces, and escapes that look like them."""
    secrets = draw(SECRETS)
    hidden = st.sampled_from(secrets)
    piece = st.tuples(hidden, st.integers(0, 12)).map(lambda pair: pair[0][pair[1] :])
    text = st.lists(st.one_of(hidden, piece, FRAGMENTS), max_size=6).map("".join)
    number = st.one_of(
        st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()
    )
    leaf: st.SearchStrategy[Json] = st.one_of(text, number)
    value: st.SearchStrategy[Json] = st.recursive(
        leaf,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=3)),
        max_leaves=5,
    )
    lines = draw(st.lists(st.dictionaries(text, value, min_size=1, max_size=3), min_size=1, max_size=4))
    ascii_only = draw(st.booleans())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    written = [json.dumps(line, ensure_ascii=ascii_only, separators=separators) for line in lines]
    return secrets, "\n".join(written).encode() + b"\n"


@given(records(), st.lists(st.integers(0, 400), max_size=5))
def test_masked_ndjson_is_valid_line_by_line(given_: tuple[list[str], bytes], cuts: list[int]) -> None:
    """Law: masked NDJSON is valid line by line, and still idempotent, whole or streamed."""
    secrets, text = given_
    masker = Masker(secrets)
    masked = masker.mask(text)
    assert masked.count(b"\n") == text.count(b"\n")
    for line in masked.splitlines():
        assert isinstance(json.loads(line), dict)
    assert masker.mask(masked) == masked
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    streamed = b"".join(masker.feed(text[a:b]) for a, b in pairwise(edges))
    assert streamed + masker.flush() == masked


@given(records())
def test_no_string_of_a_masked_record_holds_a_secret(given_: tuple[list[str], bytes]) -> None:
    """Law: no registered form survives, neither in the bytes nor in the values that they decode to."""
    secrets, text = given_
    masked = Masker(secrets).mask(text)
    for secret in secrets:
        if why_not_masked(secret) is None:
            assert not any(form in masked for form in forms_of(secret))


@pytest.mark.parametrize(
    ("secret", "line", "masked"),
    [
        # A match that begins in an escape completes it.
        ("nAAAAAAA", rb'{"a":"x\nAAAAAAAy"}', rb'{"a":"x\\***y"}'),
        ("9AAAAAAA", rb'{"a":"x\u00e9AAAAAAAy"}', rb'{"a":"x\u00e0***y"}'),
        ("u00e9AAA", rb'{"a":"x\u00e9AAAy"}', rb'{"a":"x\\***y"}'),
        # A match that ends in an escape leaves it one.
        ("AAAAAAA\\", rb'{"a":"AAAAAAA\"y"}', rb'{"a":"***\"y"}'),
        ("AAAAAAA\\", rb'{"a":"AAAAAAA\ny"}', rb'{"a":"***\ny"}'),
        ("AAAAAAA\\", rb'{"a":"AAAAAAA\\"}', rb'{"a":"***"}'),
        ("AAAAAA\\u", rb'{"a":"AAAAAA\u00e9"}', rb'{"a":"***00e9"}'),
        # Numbers stay numbers.
        ("12345678", b'{"a":12345678}', b'{"a":1}'),
        ("12345678", b'{"a":-9912345678901.5}', b'{"a":-991901.5}'),
        (".1234567", b'{"a":0.1234567}', b'{"a":0.1}'),
        ("123456e-", b'{"a":123456e-7}', b'{"a":1e-7}'),
        # So do literals, whichever part of one is covered.
        ('key":nul', b'{"my key":null}', b'{"my ***":1}'),
        ('key":null,', b'{"my key":null,"b":2}', b'{"my ***":1,"b":2}'),
        ('ull,"key"', b'{"a":null,"key":2}', b'{"a":null,"***":2}'),
        ('":true,"a9', b'{"b":true,"a98":[false]}', b'{"b":1,"***8":[false]}'),
        ('se],"bcd"', b'{"a":[false],"bcd":1}', b'{"a":[false],"***":1}'),
        ("nullnull", b'{"a":nullnull}', b'{"a":1}'),
        # Structure stays structure; what it holds does not.
        ('{"user":"bob","pin":4711}', b'{"in":{"user":"bob","pin":4711}}', b'{"in":{"***":"***","***":1}}'),
        ('my":"pass"', b'{"my":"pass","b":1}', b'{"***":"***","b":1}'),
        ('ob","pass":"wo', b'{"user":"bob","pass":"word"}', b'{"user":"b***","***":"***rd"}'),
        ('{"user":"bob","pin":4711}', b'{"user":"bob","pin":4711}', b'{"***":"***","***":1}'),
        ('"user":"bob"', b'{"user":"bob"}', b'{"***":"***"}'),
        ('{ "user":', b' { "user": 1}', b' { "***": 1}'),
        # Plain lines are no records, whatever they look like.
        ("nAAAAAAA", rb"C:\nAAAAAAA", rb"C:\***"),
        ("12345678", b"[info] pin 12345678", b"[info] pin ***"),
        ("12345678", b"{12345678}", b"{***}"),
        ('{"user":"bob","pin":4711}', b"user: {bob}", b"user: {bob}"),
        ('user":"bob', b'"user":"bob"', b'"***"'),
        ("supersecret", b'{"half a record, then supersecret', b'{"half a record, then ***'),
        ("supersecret", b'{"a":1} and supersecret', b'{"a":1} and ***'),
        ("supersecret", b'{"a":1} supersecret', b'{"a":1} ***'),
    ],
)
def test_how_a_match_is_written(secret: str, line: bytes, masked: bytes) -> None:
    masker = Masker([secret])
    assert masker.mask(line) == masked
    assert b"".join(masker.feed(line[at : at + 1]) for at in range(len(line))) + masker.flush() == masked
    assert masker.mask(b'{"x":"\\"\\\\"}\n' + line + b"\n") == b'{"x":"\\"\\\\"}\n' + masked + b"\n"


def test_a_string_that_began_in_another_chunk_is_still_a_string() -> None:
    masker = Masker(["nAAAAAAA"])
    parts = [b'{"a":"', b"x" * 100_000, b"\\", b"nAAAAAAA", b'"}\n']
    masked = b"".join(map(masker.feed, parts)) + masker.flush()
    assert json.loads(masked) == {"a": "x" * 100_000 + "\\***"}
