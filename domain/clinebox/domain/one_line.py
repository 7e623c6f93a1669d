"""Foreign text made fit for one line of a message: nothing in it can move a cursor or end the line."""

from __future__ import annotations

from typing import Final

CUT_MARK: Final = "…"


def one_line(text: str) -> str:
    r"""The text on one line: runs of white space and of unprintable characters become one space.

    Unprintable is what Unicode says it is: C0 and C1 controls (so no terminal escape survives), U+2028,
    bidirectional overrides, lone surrogates.

    >>> one_line("boom\r\n\x1b[31mred")
    'boom [31mred'
    """
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def cut(text: str, limit_chars: int) -> str:
    """At most `limit_chars` characters (1 or more); what was cut ends in `…`."""
    return text if len(text) <= limit_chars else text[: limit_chars - 1] + CUT_MARK


def excerpt(text: str, limit_chars: int) -> str:
    """One line of at most `limit_chars` characters; work is bounded however long the text is."""
    # Four characters read for each one shown: white space may shrink, but a gigabyte is never walked.
    read = text[: limit_chars * 4]
    return cut(one_line(read) + (CUT_MARK if len(read) < len(text) else ""), limit_chars)
