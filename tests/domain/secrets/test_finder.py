"""The sampled search finds exactly what a plain search finds."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.secrets.finder import Span, WordIndex, merged

NARROW = st.text("ab", min_size=8, max_size=30).map(str.encode)
WIDE = st.binary(min_size=8, max_size=90)


def plain_search(forms: list[bytes], data: bytes) -> list[Span]:
    return merged(
        (at, at + len(form)) for form in forms for at in range(len(data)) if data[at : at + len(form)] == form
    )


@given(st.lists(NARROW, max_size=30), st.text("ab", max_size=300).map(str.encode))
def test_overlapping_and_nested_occurrences_are_all_found(forms: list[bytes], data: bytes) -> None:
    assert merged(WordIndex(forms)(data)) == plain_search(forms, data)


@given(st.lists(WIDE, min_size=1, max_size=60), st.data())
def test_forms_are_found_at_every_offset(forms: list[bytes], data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.one_of(st.sampled_from(forms), st.binary(max_size=9)), max_size=12))
    text = b"".join(pieces)
    assert merged(WordIndex(forms)(text)) == plain_search(forms, text)


def test_each_form_is_found_at_each_of_200_offsets() -> None:
    forms = [bytes((7 * n + 3 * k) % 251 for k in range(8 + n)) for n in range(80)]
    find = WordIndex(forms)
    for offset in range(200):
        for form in forms[::13]:
            data = b"\xff" * offset + form + b"\xff" * (offset % 5)
            assert merged(find(data)) == [(offset, offset + len(form))]


def test_nothing_is_found_where_nothing_is_registered() -> None:
    assert WordIndex([])(b"anything at all") == []
    assert WordIndex([b"12345678"])(b"") == []


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)).map(lambda p: (p[0], p[0] + p[1]))))
def test_merged_spans_cover_the_same_bytes_and_never_touch(spans: list[Span]) -> None:
    joined = merged(spans)
    assert {at for s, e in joined for at in range(s, e)} == {at for s, e in spans for at in range(s, e)}
    assert all(left[1] < right[0] for left, right in pairwise(joined))


def test_a_run_of_one_letter_is_one_span_and_not_one_a_letter() -> None:
    assert WordIndex([b"a" * 8])(b"-" + b"a" * 10_000) == [(1, 10_001)]
