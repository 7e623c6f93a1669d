r"""The last lines of masked output, however it was written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.secrets.masker import Masker
from clinebox.domain.secrets.tail import LINE_CHARACTERS, TAIL_LINES, OutputTail

KEY = "sk-AbCd1234EfGh"
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\n-----END KEY-----"
MASKER = Masker([KEY, PEM])

PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"\n",
                b"\r",
                b"\r\n",
                KEY.encode(),
                KEY.encode()[:9],
                PEM.encode(),
                PEM.encode()[:30],
                "☕é".encode(),
            ]
        ),
        st.binary(max_size=5),
        st.sampled_from([b"x" * 7, b"\n" * 9]),
    ),
    max_size=40,
)


def last_lines(masked: bytes, *, lines: int, width: int) -> tuple[str, ...]:
    split = re.split(rb"\r\n|\n|\r", masked)
    kept = split if split[-1] else split[:-1]
    return tuple(line.decode("utf-8", "replace")[:width] for line in kept[-lines:])


@given(PIECES, st.integers(1, 12))
def test_the_tail_is_the_last_lines_of_the_masked_whole(pieces: list[bytes], size: int) -> None:
    """Law: equals the last 80 lines of the masked whole (cut at its end), at every moment."""
    tail = OutputTail(MASKER, max_lines=4, max_characters=9)
    text = b"".join(pieces)
    for at in range(0, len(text), size):
        tail.feed(text[at : at + size])
        whole = MASKER.mask_cut(text[: at + size])
        assert tail.lines() == last_lines(whole, lines=4, width=9)


@given(PIECES)
def test_the_pieces_as_written_give_the_same_tail(pieces: list[bytes]) -> None:
    tail = OutputTail(MASKER)
    for piece in pieces:
        tail.feed(piece)
    whole = MASKER.mask_cut(b"".join(pieces))
    assert tail.lines() == last_lines(whole, lines=TAIL_LINES, width=LINE_CHARACTERS)


def test_only_the_last_eighty_lines_are_kept() -> None:
    tail = OutputTail(Masker())
    tail.feed(b"".join(b"%d\n" % n for n in range(100)))
    assert tail.lines() == tuple(str(n) for n in range(20, 100))


def test_a_secret_that_crosses_the_width_is_masked_before_the_line_is_cut() -> None:
    tail = OutputTail(MASKER)
    tail.feed(b"x" * 498 + KEY.encode() + b" more\n")
    assert tail.lines() == ("x" * 498 + "**",)


@pytest.mark.parametrize("at", range(1, len(KEY)))
def test_a_secret_in_two_writes_is_masked(at: int) -> None:
    tail = OutputTail(MASKER)
    tail.feed(b"key=" + KEY.encode()[:at])
    tail.feed(KEY.encode()[at:] + b"\n")
    assert tail.lines() == ("key=***",)


def test_a_secret_cut_at_the_end_of_the_capture_is_masked() -> None:
    tail = OutputTail(MASKER)
    tail.feed(b"key=" + KEY.encode()[:10])
    assert tail.lines() == ("key=***",)
    tail.feed(KEY.encode()[10:] + b"!\n")
    assert tail.lines() == ("key=***!",)


def test_a_line_without_an_end_holds_no_more_than_its_width() -> None:
    tail = OutputTail(MASKER)
    for _ in range(100):
        tail.feed("é".encode() * 10_000)
    assert tail.lines() == ("é" * LINE_CHARACTERS,)
    source = tail._sources[""]
    assert len(source.line._text) == LINE_CHARACTERS
    assert source.stream.held_bytes < MASKER.longest_form_bytes


def test_a_character_in_two_writes_is_one_character() -> None:
    tail = OutputTail(MASKER)
    for at in range(6):
        tail.feed("☕☕".encode()[at : at + 1])
    assert tail.lines() == ("☕☕",)


def test_a_progress_bar_is_a_line_each_time_and_crlf_is_one_end_in_two_writes() -> None:
    tail = OutputTail(MASKER)
    for piece in (b"10%\r", b"20%\r\n", b"done\r", b"\n", b"\r", b"\nend"):
        tail.feed(piece)
    assert tail.lines() == ("10%", "20%", "done", "", "end")


def test_nothing_was_written() -> None:
    tail = OutputTail(MASKER)
    assert tail.lines() == ()
    tail.feed(b"")
    assert tail.lines() == ()


def test_bytes_that_are_no_utf8_are_shown_as_such() -> None:
    tail = OutputTail(MASKER)
    tail.feed(b"\xff\xfe half \xe2\x98")
    assert tail.lines() == ("\ufffd\ufffd half \ufffd",)


def test_two_sources_mix_lines_but_never_the_inside_of_one() -> None:
    tail = OutputTail(MASKER)
    tail.feed(b"out " + KEY.encode()[:6], source="stdout")
    tail.feed(b"err 1\nerr 2", source="stderr")
    tail.feed(KEY.encode()[6:] + b"\n", source="stdout")
    assert tail.lines() == ("err 1", "out ***", "err 2")
