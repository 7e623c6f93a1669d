from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from clinebox.entrypoints.cli.terminal_text import plain, shown


@pytest.mark.parametrize(
    ("hostile", "safe"),
    [
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\u200bb\u2028c\u2066d", r"a\u200bb\u2028c\u2066d"),
        ("\x9b31m", r"\x9b31m"),
        ("\x00\r\n\t", r"\x00\r\n\t"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_would_steer_a_terminal_is_written_out(hostile: str, safe: str) -> None:
    assert shown(hostile) == safe


@pytest.mark.parametrize("text", ["plain", "Grüße", "日本語", "😀", "a [red]b[/red] :smile:", ""])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert shown(text) == text


def test_line_ends_stay_only_where_they_are_wanted() -> None:
    assert shown("a\nb") == r"a\nb"
    assert shown("a\nb\r\n", lines=True) == "a\nb\\r\n"


def test_a_long_text_is_cut_with_a_sign() -> None:
    assert shown("abcdef", limit=3) == "abc…"
    assert shown("abc", limit=3) == "abc"


def test_rich_markup_and_emoji_codes_are_shown_and_not_interpreted() -> None:
    console = Console(width=60, record=True, color_system=None)
    with console.capture() as captured:
        console.print(plain("[red]x[/red] [link=http://e]y[/] :smile: [/nothing]"))
    assert captured.get() == "[red]x[/red] [link=http://e]y[/] :smile: [/nothing]\n"


@given(st.text(st.characters()))
def test_nothing_that_steers_ever_gets_through(text: str) -> None:
    """Control characters, ANSI and bidi in texts from the sandbox are shown escaped, never sent raw."""
    steering = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not [sign for sign in shown(text) if unicodedata.category(sign) in steering]
