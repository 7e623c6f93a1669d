"""The laws of masking (issue 3, SPEC §6)."""

from __future__ import annotations

import base64
import json
import re
from itertools import pairwise
from urllib.parse import quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clinebox.domain.secrets.forms import forms_of
from clinebox.domain.secrets.masker import Masker, MaskStream, NotMasked, why_not_masked

KEY = "sk-proj-AbCd1234EfGh"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\nBKcwggSj\n-----END PRIVATE KEY-----\n"

# Few letters make overlaps, nesting and false beginnings likely; backslash, quote and `u` make escapes.
CROWDED = st.text('ab"\\nu0', min_size=8, max_size=14)
ORDINARY = st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=8, max_size=30)
SECRETS = st.lists(st.one_of(CROWDED, ORDINARY, st.just(PEM), st.just(KEY)), min_size=1, max_size=4)


def encodings(secret: str) -> list[bytes]:
    raw = secret.encode()
    return [
        raw,
        json.dumps(secret).encode(),
        base64.b64encode(b"u:" + raw),
        raw.hex().encode(),
        quote_plus(secret).encode(),
    ]


@st.composite
def secrets_and_text(draw: st.DrawFn) -> tuple[list[str], bytes]:
    """A text that holds secrets, whole and in pieces, between other text."""
    secrets = draw(SECRETS)
    pieces = draw(
        st.lists(
            st.one_of(
                st.sampled_from([code for secret in secrets for code in encodings(secret)]),
                st.tuples(st.sampled_from(secrets), st.integers(0, 30)).map(lambda p: p[0].encode()[: p[1]]),
                st.text('ab"\\nu0{}:,\n ', max_size=6).map(str.encode),
                st.binary(max_size=6).filter(lambda data: b"*" not in data),
                st.just(b'{"a":"'),
            ),
            max_size=10,
        )
    )
    return secrets, b"".join(pieces)


def streamed(stream: MaskStream, text: bytes, cuts: list[int]) -> bytes:
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    fed = [stream.feed(text[start:end]) for start, end in pairwise(edges)]
    return b"".join(fed) + stream.flush()


@given(secrets_and_text(), st.lists(st.integers(0, 200), max_size=6))
def test_a_stream_equals_the_whole_however_it_is_cut(
    given_: tuple[list[str], bytes], cuts: list[int]
) -> None:
    """Law: for every cut of the input the stream equals the whole."""
    secrets, text = given_
    masker = Masker(secrets)
    assert streamed(masker.stream(), text, cuts) == masker.mask(text)


@given(secrets_and_text())
def test_byte_by_byte_equals_the_whole_and_little_is_held(given_: tuple[list[str], bytes]) -> None:
    """Law: held bytes never exceed the longest form - 1."""
    secrets, text = given_
    masker = Masker(secrets)
    stream, written = masker.stream(), b""
    for at in range(len(text)):
        written += stream.feed(text[at : at + 1])
        assert stream.held_bytes <= max(0, masker.longest_form_bytes - 1)
    assert written + stream.flush() == masker.mask(text)
    assert stream.held_bytes == 0


@pytest.mark.parametrize("form", sorted(forms_of(KEY) | forms_of(PEM)))
def test_every_split_offset_of_every_form_is_masked(form: bytes) -> None:
    """goreleaser#6938, concourse#4389, buildbuddy PR#10386: a secret split over two writes leaked."""
    masker = Masker([KEY, PEM])
    for at in range(len(form) + 1):
        assert (
            masker.feed(b"key " + form[:at]) + masker.feed(form[at:] + b" end") + masker.flush()
            == b"key *** end"
        )


@given(secrets_and_text())
def test_masking_masked_text_changes_nothing(given_: tuple[list[str], bytes]) -> None:
    """Law: idempotent."""
    secrets, text = given_
    masker = Masker(secrets)
    once = masker.mask(text)
    assert masker.mask(once) == once


@given(secrets_and_text())
def test_no_registered_form_survives(given_: tuple[list[str], bytes]) -> None:
    """Law: no registered form of 8 or more characters survives, alone or inside larger text."""
    secrets, text = given_
    masked = Masker(secrets).mask(text)
    for secret in secrets:
        if why_not_masked(secret) is None:
            for code in encodings(secret):
                assert code.strip() not in masked


@given(secrets_and_text())
def test_nothing_that_is_not_secret_changes(given_: tuple[list[str], bytes]) -> None:
    """Law: nothing that is not secret changes: outside records, the clear stretches are the text itself."""
    secrets, text = given_
    plain = text.replace(b"{", b"(")
    forms = {form for secret in secrets if why_not_masked(secret) is None for form in forms_of(secret)}
    covered = bytearray(len(plain))
    for form in forms:
        for at in range(len(plain) - len(form) + 1):
            if plain.startswith(form, at):
                covered[at : at + len(form)] = b"\1" * len(form)
    assert Masker(secrets).mask(plain) == expected_plain(plain, covered)


def expected_plain(text: bytes, covered: bytearray) -> bytes:
    out = b""
    for at in range(len(text)):
        if not covered[at]:
            out += text[at : at + 1]
        elif at == 0 or not covered[at - 1]:
            out += b"***"
    return out


@given(st.binary(max_size=300))
def test_text_without_a_secret_comes_out_byte_for_byte(text: bytes) -> None:
    assert Masker([KEY, PEM]).mask(text) == text


@pytest.mark.parametrize(
    ("secrets", "text", "masked"),
    [
        (["abcdefgh", "efghijkl"], b"<abcdefghijkl>", b"<***>"),
        (["abcdefghijkl", "cdefghij"], b"<abcdefghijkl>", b"<***>"),
        (["abcdefgh"], b"abcdefghabcdefgh", b"***"),
        (["abcabcabcabc"], b"-abcabcabcabcabc-", b"-***-"),
        (["aaaaaaaa"], b"aaaaaaaaaaaaaaaaaaaab", b"***b"),
        (["abcdefgh", "abcdefghijkl"], b"abcdefghijkx", b"***ijkx"),
        (["key123key123"], b"key123key123key123", b"***"),
    ],
)
def test_overlapping_nested_and_touching_secrets_are_one_mask(
    secrets: list[str], text: bytes, masked: bytes
) -> None:
    assert Masker(secrets).mask(text) == masked


# --- Forced cuts


@pytest.mark.parametrize("kept", range(8, len(KEY)))
def test_a_secret_cut_at_the_end_is_masked(kept: int) -> None:
    """local-operator PR#1308: a truncated key is still the key."""
    assert Masker([KEY]).mask_cut(b"key: " + KEY.encode()[:kept]) == b"key: ***"


def test_seven_bytes_that_begin_a_secret_are_left_at_a_cut() -> None:
    assert Masker([KEY]).mask_cut(b"key: sk-proj") == b"key: sk-proj"


@pytest.mark.parametrize("kept", range(8, len(PEM.strip())))
def test_a_pem_cut_in_the_middle_is_masked_whole(kept: int) -> None:
    assert Masker([PEM]).mask_cut(b"cat key\n" + PEM.encode()[:kept]) == b"cat key\n***"


def test_a_pem_that_lost_its_head_and_tail_shows_less_than_eight_bytes_of_a_line() -> None:
    middle = b"ANBgkq\nhkiG9w0BAQEFAASC\nBKcwggS"
    assert middle in PEM.encode()
    assert Masker([PEM]).mask_cut(middle) == b"ANBgkq\n***\nBKcwggS"


def test_the_rest_of_a_secret_that_was_cut_is_masked_when_it_comes() -> None:
    masker = Masker([KEY])
    assert masker.feed(b"key sk-proj-Ab") + masker.cut() == b"key ***"
    assert masker.feed(b"Cd1234EfGh, done") + masker.flush() == b", done"


def test_a_beginning_that_was_shown_at_a_cut_and_turns_out_a_secret_is_masked_from_there() -> None:
    masker = Masker([KEY])
    assert masker.feed(b"key sk-p") + masker.cut() == b"key sk-p"
    assert masker.feed(b"roj-AbCd1234EfGh, done") + masker.flush() == b"***, done"


def test_a_cut_beginning_that_turns_out_harmless_does_not_hide_what_follows() -> None:
    masker = Masker([KEY])
    assert (
        masker.feed(b"sk-proj-Ab") + masker.cut() + masker.feed(b"solutely") + masker.flush()
        == b"***solutely"
    )


@given(secrets_and_text(), st.integers(0, 100))
def test_peeking_at_a_cut_changes_nothing(given_: tuple[list[str], bytes], at: int) -> None:
    secrets, text = given_
    masker = Masker(secrets)
    stream = masker.stream()
    first = stream.feed(text[:at])
    assert first + stream.peek_cut() == masker.mask_cut(text[:at])
    assert first + stream.feed(text[at:]) + stream.flush() == masker.mask(text)


# --- What is not masked, and said


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        ("hunter2", NotMasked.TOO_SHORT),
        ("  short \n", NotMasked.TOO_SHORT),
        ("********", NotMasked.TOO_SHORT),
        ("***abcdefg***", NotMasked.TOO_SHORT),
        ("completed", NotMasked.CLINE_VOCABULARY),
        ("run_result", NotMasked.CLINE_VOCABULARY),
        ("inputTok", NotMasked.CLINE_VOCABULARY),
        ('"finishReason":"completed"', NotMasked.CLINE_VOCABULARY),
        ("Model returned", NotMasked.CLINE_VOCABULARY),
        ('{}[]:,"\\{}', NotMasked.PUNCTUATION_ONLY),
        ("completed-7", None),
        ("hunter22", None),
    ],
)
def test_what_cannot_be_masked_is_named(secret: str, reason: NotMasked | None) -> None:
    assert why_not_masked(secret) is reason


def test_values_that_are_not_masked_are_reported_once_and_never_shown() -> None:
    masker = Masker(["hunter2", "pass123", "", "  ", "completed", KEY])
    text = b"hunter2 pass123 completed"
    assert masker.mask(text) == text
    assert len(masker.notes) == 2
    assert masker.notes[0].startswith("2 secret values: shorter than 8 characters")
    assert not re.search("hunter2|pass123|completed", " ".join(masker.notes))


def test_a_masker_shows_no_secret_in_its_repr() -> None:
    assert KEY not in repr(Masker([KEY])) + repr(Masker([KEY]).stream())


@pytest.mark.parametrize("secret", ["*hunter22", "hunter22*", "hun**ter22", "first-half***second-half"])
def test_a_secret_with_asterisks_is_masked_once_and_for_all(secret: str) -> None:
    masker = Masker([secret, KEY])
    for text in (secret, secret.replace("***", KEY), KEY + secret.strip("*"), secret.strip("*") + KEY):
        once = masker.mask(text.encode())
        assert secret.encode() not in once
        assert masker.mask(once) == once


def test_a_secret_whose_parts_between_asterisks_are_short_is_masked_all_the_same() -> None:
    assert Masker(["abc***defg"]).mask(b"<abc***defg>") == b"<***>"


def test_two_streams_of_one_masker_do_not_mix() -> None:
    masker = Masker([KEY])
    out, err = masker.stream(), masker.stream()
    assert out.feed(b"sk-proj-AbCd") == b""
    assert err.feed(b"1234EfGh\n") + err.flush() == b"1234EfGh\n"
    assert out.feed(b"1234EfGh\n") + out.flush() == b"***\n"


def test_text_is_masked_as_text() -> None:
    assert Masker(["pässwörd"]).mask_text("ä pässwörd ☕ \ud800") == "ä *** ☕ \ud800"


@given(st.lists(st.text(max_size=20), max_size=5), st.binary(max_size=100))
@example(["\udcff" * 9, "\ud800" * 9], b"\xff" * 9)
def test_no_input_makes_it_raise(secrets: list[str], text: bytes) -> None:
    Masker(secrets).mask(text)
