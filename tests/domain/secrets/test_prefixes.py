"""What a stream holds back: the longest unfinished form at the end, near or far."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.secrets.prefixes import PrefixIndex

FORMS = st.lists(
    st.one_of(
        st.text("ab", min_size=8, max_size=12).map(str.encode),
        st.tuples(st.text("ab", min_size=1, max_size=9), st.integers(30, 90)).map(
            lambda p: (p[0] * p[1]).encode()
        ),
    ),
    max_size=6,
)


@given(FORMS, st.text("ab", max_size=20).map(str.encode), st.data())
def test_it_is_the_first_place_from_which_a_form_begins(
    forms: list[bytes], before: bytes, data: st.DataObject
) -> None:
    form = data.draw(st.sampled_from(forms or [b""]))
    text = before + form[: data.draw(st.integers(0, len(form)))]
    places = (
        at
        for at in range(len(text))
        if any(len(form) > len(text) - at and form.startswith(text[at:]) for form in forms)
    )
    assert PrefixIndex(forms).unfinished(text) == next(places, len(text))
