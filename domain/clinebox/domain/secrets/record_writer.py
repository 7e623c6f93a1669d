r"""Writes text with parts covered by `***`, so that a JSON record stays a JSON record.

Bytes are matched, not JSON values, so a match may begin or end in the middle of an escape (`\n` + `AAAAAAA`
holds the secret `nAAAAAAA`) or reach over quotes and numbers. In a line that begins like a record (`{"`)
a cut escape is completed, quotes and punctuation stay, and a number that is covered becomes `1`, as does a
`null`, `true` or `false` whose beginning is covered. In every other line a covered stretch is simply `***`.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

MASK: Final = b"***"

_BLANKS: Final = b" \t\r"
_PUNCTUATION: Final = b"{}[]:, \t\r\n"
_NUMBER_PUNCTUATION: Final = b"+-."
_DIGITS: Final = b"0123456789"
_BEFORE_VALUE: Final = b":[," + _NUMBER_PUNCTUATION + b"eE" + _DIGITS
"""What a number, or `true`, may directly follow; anything else is no record any more."""
_NUMBER: Final = b"1"
_STRING_REST: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*\\?', re.DOTALL)
_CUT_ESCAPE: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?")
_LONGEST_CUT_ESCAPE: Final = 5
_LITERALS: Final = (b"null", b"true", b"false")
_CUT_LITERAL: Final = re.compile(rb"(?<![0-9A-Za-z])(?:n(?:ul?)?|t(?:ru?)?|f(?:a(?:ls?)?)?)$")
_LONGEST_CUT_LITERAL: Final = 4


class _Place(Enum):
    """Where in a line the writer stands."""

    LINE_START = auto()
    AFTER_BRACE = auto()
    PLAIN = auto()
    IN_RECORD = auto()
    IN_STRING = auto()


_RECORD_HEADS: Final = {
    _Place.LINE_START: re.compile(rb'[ \t\r]*\{[ \t\r]*(?=")'),
    _Place.AFTER_BRACE: re.compile(rb'[ \t\r]*(?=")'),
}
"""A match that begins with it holds it whole: 8 bytes do not, only where blanks fill them."""


class RecordWriter:
    """Turns clear and covered stretches, in order, into output; how they are cut changes nothing."""

    __slots__ = ("_covered", "_escape", "_literal", "_masking", "_place", "_previous")

    def __init__(self) -> None:
        self._place = _Place.LINE_START
        self._escape = b""
        """The escape that the input has begun and not ended, inside a string."""
        self._masking = False
        """Whether a mask was written and nothing since."""
        self._previous = b"{"
        """The last byte of input that is no blank, inside a record."""
        self._literal = b""
        """The `null`, `true` or `false` that the input has begun and not ended."""
        self._covered = False
        """Whether that beginning was covered: then the rest is no text of its own any more."""

    def copy(self) -> RecordWriter:
        """An independent writer at the same place."""
        twin = RecordWriter()
        twin._place, twin._escape = self._place, self._escape
        twin._masking, twin._previous = self._masking, self._previous
        twin._literal, twin._covered = self._literal, self._covered
        return twin

    def clear(self, data: bytes) -> bytes:
        """Write `data` as it is."""
        if self._covered and self._literal:
            data = self._without_literal(data)
        if not data:
            return b""
        left = self._leave_mask()
        written = left + data if left else data
        end_of_line = data.rfind(b"\n")
        if end_of_line >= 0:
            self._place, self._escape, self._literal = _Place.LINE_START, b"", b""
            data = data[end_of_line + 1 :]
        self._read(data)
        return written

    def cover(self, data: bytes) -> bytes:
        """Write a mask for `data`, joined to a mask directly before it."""
        head = self._record_head(data)
        if self._place in (_Place.IN_RECORD, _Place.IN_STRING):
            return head + self._cover_in_record(data[len(head) :])
        self._place = _Place.PLAIN
        return self._mask(MASK) if data else b""

    def _record_head(self, data: bytes) -> bytes:
        """What `data` has of a record's beginning, to be kept, so that the line is still a record."""
        head = _RECORD_HEADS.get(self._place)
        found = head.match(data) if head else None
        if not found:
            return b""
        self._place, self._masking, self._previous = _Place.IN_RECORD, False, b"{"
        return found[0]

    def _mask(self, mask: bytes) -> bytes:
        written = b"" if self._masking else mask
        self._masking = True
        return written

    def _leave_mask(self) -> bytes:
        r"""Close a mask that ended inside an escape: what follows a `\` must still follow one."""
        if not self._masking:
            return b""
        self._masking = False
        kept = self._escape if self._escape == b"\\" else b""
        self._escape = kept
        return kept

    def _read(self, data: bytes) -> None:
        """Follow clear text, which holds no line end, to see where it leads."""
        if self._place is _Place.LINE_START:
            data = data.lstrip(_BLANKS)
            if data:
                self._place = _Place.AFTER_BRACE if data[:1] == b"{" else _Place.PLAIN
                data = data[1:]
        if self._place is _Place.AFTER_BRACE:
            data = data.lstrip(_BLANKS)
            if data:
                self._place = _Place.IN_RECORD if data[:1] == b'"' else _Place.PLAIN
        if self._place in (_Place.IN_RECORD, _Place.IN_STRING) and data:
            self._read_record(data)

    def _read_record(self, data: bytes) -> None:
        """Count the quotes that no backslash escapes: an odd number changes sides."""
        text = self._escape + data
        quotes = text.replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"')
        inside = (self._place is _Place.IN_STRING) != bool(quotes & 1)
        self._place = _Place.IN_STRING if inside else _Place.IN_RECORD
        self._escape = _cut_escape(text) if inside else b""
        self._previous = data.rstrip(_BLANKS)[-1:] or self._previous
        cut = None if inside else _CUT_LITERAL.search((self._literal + data)[-_LONGEST_CUT_LITERAL - 1 :])
        self._literal, self._covered = cut[0] if cut else b"", False

    def _without_literal(self, data: bytes) -> bytes:
        """Clear text less what it has of a literal that became `1`."""
        at = 0
        while at < len(data) and self._goes_on(data[at : at + 1]):
            at += 1
        if at < len(data):
            self._literal = b""
        return data[at:]

    def _goes_on(self, byte: bytes) -> bool:
        """Whether the literal that was begun goes on with this byte; then it is taken."""
        longer = self._literal + byte
        if not any(literal.startswith(longer) for literal in _LITERALS):
            return False
        self._literal, self._previous = longer, byte
        return True

    def _cover_in_record(self, data: bytes) -> bytes:
        written = bytearray()
        at = 0
        while at < len(data):
            if self._place is _Place.IN_STRING:
                at = self._cover_string(data, at, written)
            else:
                self._cover_outside(data[at : at + 1], written)
                at += 1
        return bytes(written)

    def _cover_string(self, data: bytes, at: int, written: bytearray) -> int:
        """Cover up to the string's end; a quote that ends it is written. Returns where the rest begins."""
        text = self._escape + data[at:]
        content = _STRING_REST.match(text)
        end = content.end() if content else 0
        if end:
            written += self._mask(_completed(self._escape) + MASK)
        at += end - len(self._escape)
        self._escape = _cut_escape(text) if end == len(text) else b""
        if at < len(data):
            written += b'"'
            self._place, self._masking, self._previous = _Place.IN_RECORD, False, b'"'
        return at + 1 if end < len(text) else at

    def _cover_outside(self, byte: bytes, written: bytearray) -> None:
        """Keep what gives a record its structure; a number (or `true`) becomes `1`."""
        if self._literal and self._goes_on(byte):
            # The beginning is written, or covered: so is the rest.
            written += b"" if self._covered else byte
            return
        exponent = byte in b"eE" and self._previous in _DIGITS
        begins = byte in b"ntf" and self._previous in b":[,"
        self._literal, self._covered = (byte, True) if begins else (b"", False)
        if byte == b'"' or byte in _PUNCTUATION or byte in _NUMBER_PUNCTUATION or exponent:
            written += byte
            self._masking = False
        else:
            written += self._mask(_NUMBER if self._previous in _BEFORE_VALUE else MASK)
        if byte not in _BLANKS:
            self._previous = byte
        if byte == b'"':
            self._place = _Place.IN_STRING
        elif byte == b"\n":
            self._place = _Place.LINE_START


def _cut_escape(text: bytes) -> bytes:
    """The escape that `text` begins and does not end, or nothing."""
    at = text.rfind(b"\\", -_LONGEST_CUT_ESCAPE)
    if at < 0 or not _CUT_ESCAPE.fullmatch(text, at):
        return b""
    before = text[: at + 1]
    backslashes = len(before) - len(before.rstrip(b"\\"))
    return text[at:] if backslashes % 2 else b""


def _completed(escape: bytes) -> bytes:
    r"""What makes an escape, cut by a match, a whole one: `\` becomes `\\`, `\u00e` becomes `\u00e0`."""
    if escape == b"\\":
        return b"\\"
    return b"0" * (6 - len(escape)) if escape else b""
