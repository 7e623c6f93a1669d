"""Where a text ends in the beginning of a registered form: what a stream has to hold back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_KEY: Final = 4


class PrefixIndex:
    """Answers where the longest unfinished form at the end of a text begins."""

    __slots__ = ("_by_key", "_longest", "_short")

    def __init__(self, forms: Sequence[bytes]) -> None:
        self._longest = max(map(len, forms), default=1)
        self._short = frozenset(form[:length] for form in forms for length in range(1, _KEY))
        self._by_key: dict[bytes, tuple[bytes, ...]] = {}
        for form in forms:
            self._by_key[form[:_KEY]] = (*self._by_key.get(form[:_KEY], ()), form)

    def unfinished(self, data: bytes) -> int:
        """The first index from which `data` begins, but does not complete, a form; else its length.

        What stands from there on is always shorter than the longest form.
        """
        size = len(data)
        by_key = self._by_key
        for at in range(max(0, size - self._longest + 1), size - _KEY + 1):
            if data[at : at + _KEY] in by_key and self._begins(data[at:]):
                return at
        for at in range(max(0, size - _KEY + 1, size - self._longest + 1), size):
            if data[at:] in self._short:
                return at
        return size

    def _begins(self, rest: bytes) -> bool:
        forms = self._by_key[rest[:_KEY]]
        return any(len(form) > len(rest) and form.startswith(rest) for form in forms)
