r"""The last lines of what a program wrote, masked and bounded: what a failure report carries (SPEC §6)."""

from __future__ import annotations

import codecs
import re
from collections import deque
from dataclasses import dataclass
from typing import Final

from clinebox.domain.secrets.masker import Masker, MaskStream

TAIL_LINES: Final = 80
LINE_CHARACTERS: Final = 500

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class OutputTail:
    r"""The last 80 lines of a program's output, each of at most 500 characters, after masking.

    Lines end at `\n`, `\r` (progress bars) or `\r\n`. Bytes that are not UTF-8 become U+FFFD. An unterminated
    line is held up to its width, and the masker holds less than its longest form beside it; however
    long a line is, no more is kept.

    >>> tail = OutputTail(Masker(["sk-0123456789"]))
    >>> for piece in (b"start\nkey sk-0123", b"456789\n50%\r100%"):
    ...     tail.feed(piece)
    >>> tail.lines()
    ('start', 'key ***', '50%', '100%')
    """

    __slots__ = ("_lines", "_masker", "_sources", "_width")

    def __init__(
        self, masker: Masker, *, max_lines: int = TAIL_LINES, max_characters: int = LINE_CHARACTERS
    ) -> None:
        self._masker = masker
        self._width = max_characters
        self._lines: deque[str] = deque(maxlen=max_lines)
        self._sources: dict[str, _Source] = {}

    def feed(self, data: bytes, *, source: str = "") -> None:
        """Take the next bytes of a source, however they are cut.

        Lines of several sources stand in the order in which they ended; a secret that one source wrote in
        two pieces is one secret, whatever another wrote in between.
        """
        if source not in self._sources:
            self._sources[source] = _Source(self._masker.stream(), _OpenLine(self._width))
        at = self._sources[source]
        self._lines.extend(at.line.feed(at.stream.feed(data)))

    def lines(self) -> tuple[str, ...]:
        """The lines so far, oldest first, unterminated ones included; the beginning of a secret is masked.

        Nothing is consumed: what is fed later continues where it was.
        """
        so_far = deque(self._lines, maxlen=self._lines.maxlen)
        for source in self._sources.values():
            line = source.line.copy()
            so_far.extend(line.feed(source.stream.peek_cut()))
            so_far.extend(line.finish())
        return tuple(so_far)


@dataclass(frozen=True, slots=True)
class _Source:
    """One stream of several, each with its own open line and its own held bytes."""

    stream: MaskStream
    line: _OpenLine


class _OpenLine:
    """Splits masked bytes into lines and decodes them; keeps of the open line what may be shown."""

    __slots__ = ("_after_return", "_begun", "_decoder", "_text", "_width")

    def __init__(self, width: int) -> None:
        self._width = width
        self._text = ""
        self._begun = False
        """Whether the open line has any byte; one that has only cut-off bytes is a line all the same."""
        self._after_return = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def copy(self) -> _OpenLine:
        """An independent line at the same place."""
        twin = _OpenLine(self._width)
        twin._text, twin._begun, twin._after_return = self._text, self._begun, self._after_return
        twin._decoder.setstate(self._decoder.getstate())
        return twin

    def feed(self, data: bytes) -> list[str]:
        """The lines that `data` ends."""
        if self._after_return and data:
            data = data.removeprefix(b"\n")
            self._after_return = False
        pieces = _LINE_END.split(data)
        ended = [self._end(piece) for piece in pieces[:-1]]
        self._extend(pieces[-1])
        self._after_return = self._after_return or data.endswith(b"\r")
        return ended

    def finish(self) -> list[str]:
        """The open line, if there is one."""
        return [self._end(b"")] if self._begun else []

    def _end(self, piece: bytes) -> str:
        self._extend(piece)
        text = (self._text + self._decoder.decode(b"", final=True))[: self._width]
        self._text, self._begun = "", False
        self._decoder.reset()
        return text

    def _extend(self, piece: bytes) -> None:
        self._begun = self._begun or bool(piece)
        if len(self._text) < self._width:
            self._text = (self._text + self._decoder.decode(piece))[: self._width]
