"""Text from a sandbox, made safe to show: what would steer a terminal is written out, not sent."""

from __future__ import annotations

import unicodedata
from typing import Final

from rich.text import Text

_STEERING: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode's categories of controls, formats (bidi overrides, zero-width signs), lone surrogates, private and
unassigned code points, line and paragraph separators (UAX #44, General_Category)."""


def shown(text: str, *, limit: int | None = None, lines: bool = False) -> str:
    r"""The text with every steering character as its escape; cut to `limit` characters with a `…`.

    `lines` keeps line ends; else they are escaped as well.

    >>> shown("a\x1b[31m\u202eb\n")
    'a\\x1b[31m\\u202eb\\n'
    """
    cut = text if limit is None or len(text) <= limit else text[:limit] + "…"
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(sign if lines and sign == "\n" else _escaped(sign) for sign in cut)


def plain(text: str, *, style: str = "", limit: int | None = None, lines: bool = False) -> Text:
    """The same for rich: its markup (`[red]`) and emoji codes in the text are never interpreted."""
    return Text(shown(text, limit=limit, lines=lines), style=style)


def _escaped(sign: str) -> str:
    if unicodedata.category(sign) in _STEERING:
        return sign.encode("unicode_escape").decode("ascii")
    return sign
