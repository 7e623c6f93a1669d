"""JSON and text cut to what a message may carry: any depth, any size, nothing that a writer refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.bounded_json import bounded_json, json_excerpt
from clinebox.domain.json_value import JsonValue
from clinebox.domain.one_line import cut, excerpt, one_line

TEXT = st.text(st.characters(), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def no_mask(text: str) -> str:
    return text


def nested(depth: int) -> JsonValue:
    value: JsonValue = "core"
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


@given(JSON)
def test_bounding_is_idempotent(value: JsonValue) -> None:
    """What one hop has bounded the next one returns unchanged: decode∘encode rests on it."""
    once = bounded_json(value, no_mask)
    assert bounded_json(once, no_mask) == once


@pytest.mark.parametrize("depth", [0, 5, 6, 7, 100, 100_000])
def test_nesting_to_any_depth_is_cut_and_said(depth: int) -> None:
    text = json_excerpt(nested(depth), no_mask, 200)
    assert ("core" in text) == (depth <= 6)
    assert ("nested too deeply" in text) == (depth > 6)


def test_wide_containers_say_how_much_was_left_out() -> None:
    many: JsonValue = {"list": list(range(100)), "map": {str(n): n for n in range(100)}}
    bounded = bounded_json(many, no_mask)
    assert isinstance(bounded, dict)
    assert isinstance(bounded["list"], list)
    assert bounded["list"][-1] == "(37 more left out)"
    assert isinstance(bounded["map"], dict)
    assert bounded["map"]["…"] == "(37 more left out)"
    assert bounded_json(bounded, no_mask) == bounded


def test_keys_that_masking_makes_equal_both_stay() -> None:
    value: JsonValue = {"one": 1, "two": 2}
    assert bounded_json(value, lambda text: "***" if text in {"one", "two"} else text) == {
        "***": 1,
        "*** (2)": 2,
    }


def test_numbers_that_json_cannot_say_become_text() -> None:
    value: JsonValue = [float("nan"), float("-inf"), 10**5_000, 2**63 - 1, True, None, 0.5]
    told: JsonValue = ["nan", "-inf", "(an integer of 16610 bits)", 2**63 - 1, True, None, 0.5]
    assert bounded_json(value, no_mask) == told


def test_two_long_keys_that_cutting_makes_equal_both_stay_within_their_bound() -> None:
    value: JsonValue = {"k" * 200 + "a": 1, "k" * 200 + "b": 2}
    bounded = bounded_json(value, no_mask)
    assert isinstance(bounded, dict)
    assert [len(key) for key in bounded] == [128, 128]
    assert list(bounded.values()) == [1, 2]
    assert bounded_json(bounded, no_mask) == bounded


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        (" a\t b\r\n", "a b"),
        ("a\x1b[31mb", "a [31mb"),
        ("a\u2028b\u2029c\x85d", "a b c d"),
        ("a\u202eb", "a b"),
        ("a\ud800b", "a b"),
        ("naïve 😀", "naïve 😀"),
        ("\x00\x7f", ""),
    ],
)
def test_a_line_holds_nothing_that_could_move_a_cursor(text: str, line: str) -> None:
    assert one_line(text) == line


@given(TEXT, st.integers(1, 50))
def test_an_excerpt_is_one_printable_line_within_its_bound(text: str, limit_chars: int) -> None:
    shown = excerpt(text, limit_chars)
    assert shown.isprintable()
    assert len(shown) <= limit_chars


@pytest.mark.parametrize(
    ("text", "kept"), [("", ""), ("abc", "abc"), ("abcd", "abcd"), ("abcde", "abc…"), ("x" * 1_000, "xxx…")]
)
def test_what_was_cut_says_so(text: str, kept: str) -> None:
    assert cut(text, 4) == kept


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a" + " " * 10 + "b", "a b"),
        ("a" + " " * 11 + "b", "a…"),
        (" " * 12, ""),
        (" " * 13, "…"),
        ("abc", "abc"),
        ("abcd", "ab…"),
        ("x" * 10_000_000, "xx…"),
    ],
)
def test_an_excerpt_reads_four_characters_for_each_one_shown_and_says_when_there_were_more(
    text: str, shown: str
) -> None:
    assert excerpt(text, 3) == shown
