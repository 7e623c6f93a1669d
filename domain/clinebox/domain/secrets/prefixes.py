"""Where a text ends in the beginning of a registered form: what a stream has to hold back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_KEY: Final = 4
_NEAR: Final = 256
"""Up to so many bytes from the end every place is looked at; further off, only for forms that long."""


class PrefixIndex:
    """Answers where the longest unfinished form at the end of a text begins."""

    __slots__ = ("_by_key", "_far_keys", "_longest", "_short")

    def __init__(self, forms: Sequence[bytes]) -> None:
        self._longest = max(map(len, forms), default=1)
        self._far_keys = frozenset(form[:_KEY] for form in forms if len(form) > _NEAR)
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
        far = self._first_far(data)
        if far < size:
            return far
        for at in range(max(0, size - min(self._longest - 1, _NEAR)), size - _KEY + 1):
            if data[at : at + _KEY] in by_key and self._begins(data[at:]):
                return at
        for at in range(max(0, size - _KEY + 1, size - self._longest + 1), size):
            if data[at:] in self._short:
                return at
        return size

    def _first_far(self, data: bytes) -> int:
        """The first beginning of a long form that is more than 256 bytes long; else the text's length."""
        size = len(data)
        first, near = size, size - _NEAR
        for key in self._far_keys:
            at = data.find(key, max(0, size - self._longest + 1), max(0, min(near, first) + _KEY - 1))
            while at >= 0 and not self._begins(data[at:]):
                at = data.find(key, at + 1, max(0, min(near, first) + _KEY - 1))
            first = at if at >= 0 else first
        return first

    def _begins(self, rest: bytes) -> bool:
        forms = self._by_key[rest[:_KEY]]
        return any(len(form) > len(rest) and form.startswith(rest) for form in forms)
