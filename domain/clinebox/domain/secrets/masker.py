"""Bytes in, bytes out, with every registered form of every secret covered by `***` (SPEC §6)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from clinebox.domain.secrets.finder import Finder, FinderFactory, Span, WordIndex, merged
from clinebox.domain.secrets.forms import MINIMUM_LENGTH, forms_of, parts_of, trimmed
from clinebox.domain.secrets.prefixes import PrefixIndex
from clinebox.domain.secrets.record_writer import RecordWriter
from clinebox.domain.secrets.vocabulary import is_cline_vocabulary

_MASK_LIKE: Final = re.compile(r"^\*+|\*{3,}|\*+$", re.MULTILINE)
"""Asterisks that a written mask could be taken for: at either end, or three and more anywhere."""


_PIECE_BYTES: Final = 1 << 18


class NotMasked(StrEnum):
    """Why a value is left in the text; each is reported, never passed over."""

    TOO_SHORT = "too_short"
    """Fewer than 8 characters; asterisks at its ends do not count."""
    CLINE_VOCABULARY = "cline_vocabulary"
    """A word or time that Cline writes in its records: masking it would change a judgement."""
    PUNCTUATION_ONLY = "punctuation_only"
    """JSON's own punctuation and blanks, nothing else: masking it would blank every record."""


_SENTENCES: Final = {
    NotMasked.TOO_SHORT: "shorter than 8 characters: not masked where it stands alone; use a longer value",
    NotMasked.CLINE_VOCABULARY: "a word or time of Cline's records: not masked; use another value",
    NotMasked.PUNCTUATION_ONLY: "JSON punctuation or blanks only: not masked; use another value",
}


def why_not_masked(secret: str) -> NotMasked | None:
    """Why a value cannot be masked alone, or None when it is.

    >>> why_not_masked("hunter2"), why_not_masked("finishReason"), why_not_masked("hunter2-and-more")
    (<NotMasked.TOO_SHORT: 'too_short'>, <NotMasked.CLINE_VOCABULARY: 'cline_vocabulary'>, None)
    """
    if len(trimmed(secret)) < MINIMUM_LENGTH:
        return NotMasked.TOO_SHORT
    if not secret.strip('{}[]:,"\\ \t\r\n'):
        return NotMasked.PUNCTUATION_ONLY
    return NotMasked.CLINE_VOCABULARY if is_cline_vocabulary(trimmed(secret)) else None


def sentence_for(reason: NotMasked) -> str:
    """What to tell a person about a value that is not masked; never holds the value."""
    return _SENTENCES[reason]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What all streams of a masker share: immutable, safe to use from several threads."""

    find: Finder
    prefixes: PrefixIndex


class Masker:
    """Masks whole texts with `mask`, and one stream with `feed`, `flush` and `cut`; `stream()` opens more.

    Values of fewer than 8 characters, words of Cline's own records and mere JSON punctuation are not
    masked; `notes` says so once, without the values. Empty values are ignored.

    >>> Masker(["sk-0123456789"]).mask(b"key=sk-0123456789;")
    b'key=***;'
    """

    def __init__(self, secrets: Iterable[str] = (), *, finder: FinderFactory = WordIndex) -> None:
        values = sorted({secret for secret in secrets if secret.strip()})
        reasons = {value: why_not_masked(value) for value in values}
        forms = sorted({form for value in values if not reasons[value] for form in _maskable_forms(value)})
        self.notes: Final[tuple[str, ...]] = tuple(_notes(list(reasons.values())))
        """One sentence a reason for values that are not masked."""
        self.form_count: Final = len(forms)
        self.longest_form_bytes: Final = max(map(len, forms), default=0)
        self._plan = _Plan(finder(forms), PrefixIndex(forms))
        self._stream = MaskStream(self._plan)

    def mask(self, data: bytes) -> bytes:
        """Mask a whole text."""
        stream = self.stream()
        return b"".join((*map(stream.feed, _pieces(data)), stream.flush()))

    def mask_cut(self, data: bytes) -> bytes:
        """Mask a text that was cut at its end: also 8 or more bytes that begin a form there."""
        stream = self.stream()
        return b"".join((*map(stream.feed, _pieces(data)), stream.cut()))

    def mask_text(self, text: str) -> str:
        """Mask a string; lone surrogates survive."""
        return self.mask(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def mask_cut_text(self, text: str) -> str:
        """Mask a string that was cut at its end; lone surrogates survive."""
        return self.mask_cut(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def stream(self) -> MaskStream:
        """A new stream over the same forms."""
        return MaskStream(self._plan)

    def feed(self, chunk: bytes) -> bytes:
        """`MaskStream.feed` on the masker's own stream."""
        return self._stream.feed(chunk)

    def flush(self) -> bytes:
        """`MaskStream.flush` on the masker's own stream."""
        return self._stream.flush()

    def cut(self) -> bytes:
        """`MaskStream.cut` on the masker's own stream."""
        return self._stream.cut()

    @property
    def held_bytes(self) -> int:
        """`MaskStream.held_bytes` of the masker's own stream."""
        return self._stream.held_bytes


class MaskStream:
    """One text, masked as it comes: the pieces together equal the whole text masked, however it is cut.

    It holds back only what may yet turn out to begin a form: fewer bytes than the longest form has.
    """

    __slots__ = ("_done", "_held", "_plan", "_writer")

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._reset()

    def _reset(self) -> None:
        self._held = b""
        self._done = 0
        """How many of the held bytes are written (clear or covered); kept to recognise what overlaps them."""
        self._writer = RecordWriter()

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes; give what is certain by now, masked."""
        data = self._held + chunk
        keep_from = self._plan.prefixes.unfinished(data)
        written, position = self._write(data, self._spans(data), keep_from)
        self._held = data[keep_from:]
        self._done = max(0, position - keep_from)
        return written

    def flush(self) -> bytes:
        """The text has ended: give what is held, masked; the stream is new again."""
        written, _ = self._write(self._held, self._spans(self._held), len(self._held))
        self._reset()
        return written

    def cut(self) -> bytes:
        """Give what is held now, though the text goes on (a line or buffer bound).

        A beginning of 8 or more bytes of a form is masked. What is fed next still continues the same text:
        the rest of a secret that was cut here is masked as well.
        """
        data = self._held
        # What is held is exactly one beginning of a form, the longest.
        spans = [(0, len(data))] if len(data) >= MINIMUM_LENGTH else []
        written, _ = self._write(data, spans, len(data))
        self._done = len(data)
        return written

    def peek_cut(self) -> bytes:
        """What `cut` would give, without giving it."""
        twin = MaskStream(self._plan)
        twin._held, twin._done, twin._writer = self._held, self._done, self._writer.copy()
        return twin.cut()

    @property
    def held_bytes(self) -> int:
        """Bytes held back; always fewer than the longest form has."""
        return len(self._held)

    def _spans(self, data: bytes) -> list[Span]:
        return merged(self._plan.find(data))

    def _write(self, data: bytes, spans: list[Span], limit: int) -> tuple[bytes, int]:
        """Write `data` up to `limit`, and a span that reaches over it to its end. Returns how far it came."""
        position = self._done
        written: list[bytes] = []
        for start, end in spans:
            if start >= limit:
                break
            written.append(self._writer.clear(data[position:start]))
            written.append(self._writer.cover(data[max(position, start) : end]))
            position = max(position, end)
        written.append(self._writer.clear(data[position:limit]))
        return b"".join(written), max(position, limit)


def _pieces(data: bytes) -> Iterator[bytes]:
    """Pieces that bound what a search keeps in memory, however many secrets a hostile text holds."""
    return (data[at : at + _PIECE_BYTES] for at in range(0, len(data), _PIECE_BYTES))


def _maskable_forms(secret: str) -> Iterator[bytes]:
    """The forms of a secret, less words of Cline's; asterisks that could be a mask part it."""
    pieces = [piece for piece in _MASK_LIKE.split(trimmed(secret)) if len(trimmed(piece)) >= MINIMUM_LENGTH]
    for piece in pieces or [secret]:
        for part in parts_of(piece):
            if why_not_masked(part) is None:
                yield from forms_of(part)


def _notes(reasons: list[NotMasked | None]) -> Iterator[str]:
    for reason in NotMasked:
        count = reasons.count(reason)
        if count:
            yield f"{count} secret value{'s' if count > 1 else ''}: {sentence_for(reason)}"
