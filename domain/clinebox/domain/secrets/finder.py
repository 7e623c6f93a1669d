"""Where registered forms occur in bytes: one pass over aligned words, whatever the number of forms.

`bytes.find` per form reads the text once a form; one `re` alternation tries every form at every byte. Here
the text is read as 4-byte words, one every `stride` bytes, and each is looked up in a set. A form of
`stride + 3` bytes or more cannot occur without one of its own words standing at a sampled place, so
the forms whose words were not seen are not there; the few others are searched for exactly.
Figures: docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

Span: TypeAlias = tuple[int, int]
"""Start and end (exclusive) of bytes to be covered."""

Finder: TypeAlias = Callable[[bytes], Iterable[Span]]
"""Spans that together cover all occurrences of all forms and no other byte, in any order."""

FinderFactory: TypeAlias = Callable[[Sequence[bytes]], Finder]
"""Prepares a finder for forms of 8 or more bytes; an adapter may bring a faster one."""

_WORD: Final = 4
_LARGEST_STRIDE: Final = 64
_CHOICES: Final = 8
"""Places tried for the rarest word of a form; more would only lengthen the preparation."""

# Nanoseconds measured on CPython 3.11 (benchmarks/masking.py); only their ratio matters.
_FIND_COST_PER_BYTE: Final = 0.1
_FIND_COST_PER_SKIP: Final = 4.0
"""`bytes.find` skips by up to the length of what it looks for, so long forms are found faster."""
_WORD_COST: Final = 30.0

_COMMON: Final = bytes(
    3 if byte in b" etaoinsrl" else 2 if byte in b'bcdfghjkmpquvwxyz"\\:,./-_=0' else 1 for byte in range(256)
)
"""How often a byte stands in logs, roughly; a word of rare bytes makes fewer false alarms."""


class WordIndex:
    """Finds forms by sampled words; the shortest few are searched for one by one where that is cheaper."""

    __slots__ = ("_direct", "_families", "_owners", "_step", "_words")

    def __init__(self, forms: Sequence[bytes]) -> None:
        self._families = _families(forms)
        ordered = sorted(self._families, key=lambda form: (len(form), form))
        direct = _direct_count([len(form) for form in ordered])
        self._direct = frozenset(ordered[:direct])
        sampled = ordered[direct:]
        stride = _stride(len(sampled[0])) if sampled else _WORD
        self._step = stride // _WORD
        self._owners = _owners(sampled, stride)
        self._words = frozenset(self._owners)

    def __call__(self, data: bytes) -> list[Span]:
        """What the occurrences in `data` cover."""
        return [span for head in self._present(data) for span in self._family_spans(data, head)]

    def _family_spans(self, data: bytes, head: bytes) -> Iterator[Span]:
        """Where a family occurs; stretches that overlap are one, so that a run of one letter is one span."""
        family = self._families[head]
        start = end = 0
        at = data.find(head)
        while at >= 0:
            if at > end:
                if end:
                    yield start, end
                start = at
            longest = next(form for form in family if data.startswith(form, at))
            end = max(end, at + len(longest))
            # In a run of one letter, go to the last occurrence that still touches; the rest lies between.
            touching = data.rfind(head, at + 1, end + len(head)) if len(family) == 1 else -1
            at = touching if touching >= 0 else data.find(head, at + 1)
        if end:
            yield start, end

    def _present(self, data: bytes) -> frozenset[bytes]:
        """The heads of families that may occur in `data`; no other does."""
        if not self._words:
            return self._direct
        words = memoryview(data)[: len(data) // _WORD * _WORD].cast("I")[:: self._step]
        seen = self._words.intersection(words)
        return self._direct.union(*(self._owners[word] for word in seen)) if seen else self._direct


def merged(spans: Iterable[Span]) -> list[Span]:
    """Overlapping, nested and touching spans joined, in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _stride(shortest: int) -> int:
    """The widest sampling at which a form of this length still holds a whole sampled word."""
    return min((shortest - _WORD + 1) // _WORD * _WORD, _LARGEST_STRIDE)


def _families(forms: Sequence[bytes]) -> dict[bytes, tuple[bytes, ...]]:
    """Forms, longest first, by their shortest beginning that is a form too (base64 less its end)."""
    families: dict[bytes, tuple[bytes, ...]] = {}
    head = b""
    for form in sorted(set(forms)):
        if not head or not form.startswith(head):
            head = form
        families[head] = (form, *families.get(head, ()))
    return {head: tuple(sorted(family, key=len, reverse=True)) for head, family in families.items()}


def _direct_count(lengths: Sequence[int]) -> int:
    """How many of the shortest forms to search for one by one, so that the rest can be sampled wider."""
    costs: list[float] = []
    searched = 0.0
    for length in lengths:
        costs.append(searched + _WORD_COST / _stride(length))
        searched += _FIND_COST_PER_BYTE + _FIND_COST_PER_SKIP / length
    costs.append(searched)
    return costs.index(min(costs))


def _owners(forms: Sequence[bytes], stride: int) -> dict[int, tuple[bytes, ...]]:
    """Which forms a sampled word speaks for: of each form, one word for each place it may start at."""
    owners: dict[int, tuple[bytes, ...]] = {}
    for form in forms:
        for word in {_rarest(form, residue, stride) for residue in range(stride)}:
            key = memoryview(word).cast("I")[0]
            owners[key] = (*owners.get(key, ()), form)
    return owners


def _rarest(form: bytes, residue: int, stride: int) -> bytes:
    """Of the form's words at `residue`, `residue + stride`, …: the one least likely in other text."""
    last = min(len(form) - _WORD, residue + stride * (_CHOICES - 1))
    words = (form[at : at + _WORD] for at in range(residue, last + 1, stride))
    return min(words, key=lambda word: sum(word.translate(_COMMON)))
