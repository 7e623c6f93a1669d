"""The accelerated search changes the speed and nothing else."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.adapters.masking_accelerator import automaton_finder, fastest_finder
from clinebox.domain.secrets.finder import WordIndex, merged
from clinebox.domain.secrets.forms import forms_of
from clinebox.domain.secrets.masker import Masker

SECRETS = st.lists(
    st.one_of(st.text("ab", min_size=8, max_size=14), st.text(min_size=8, max_size=30)),
    min_size=1,
    max_size=6,
)


@st.composite
def secrets_and_text(draw: st.DrawFn) -> tuple[list[str], bytes]:
    secrets = draw(SECRETS)
    forms = sorted({form for secret in secrets for form in forms_of(secret)}) or [b""]
    piece = st.one_of(
        st.sampled_from(forms), st.binary(max_size=6), st.text("ab", max_size=20).map(str.encode)
    )
    return secrets, b"".join(draw(st.lists(piece, max_size=12)))


@given(secrets_and_text())
def test_both_find_the_same_stretches(given_: tuple[list[str], bytes]) -> None:
    """Law: with the optional accelerator, the same results."""
    secrets, text = given_
    forms = sorted({form for secret in secrets for form in forms_of(secret)})
    assert merged(automaton_finder(forms)(text)) == merged(WordIndex(forms)(text))


@given(secrets_and_text(), st.lists(st.integers(0, 200), max_size=5))
def test_both_mask_alike_whole_and_streamed(given_: tuple[list[str], bytes], cuts: list[int]) -> None:
    """Law: with the optional accelerator, the same results, for every cut of the input."""
    secrets, text = given_
    plain, fast = Masker(secrets), Masker(secrets, finder=automaton_finder)
    assert fast.mask(text) == plain.mask(text)
    assert fast.mask_cut(text) == plain.mask_cut(text)
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    for start, end in pairwise(edges):
        assert fast.feed(text[start:end]) == plain.feed(text[start:end])
    assert fast.flush() == plain.flush()


@pytest.mark.parametrize("text", [b"", b"nothing is registered"])
def test_no_forms_find_nothing(text: bytes) -> None:
    assert list(automaton_finder([])(text)) == []


def test_the_automaton_is_taken_where_it_is_installed() -> None:
    assert fastest_finder() is automaton_finder
