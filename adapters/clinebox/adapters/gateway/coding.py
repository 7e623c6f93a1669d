"""Content codings undone for reading only; what is passed on stays coded (RFC 9110 §8.4)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

GROWTH_LIMIT: Final = 64
"""A chunk is read up to so many times its size (and 64 KiB): no archive bomb is unpacked."""
FLOOR_BYTES: Final = 64 * 1024
_WINDOW_BITS: Final = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}


def decoder_for(coding: bytes | None) -> Callable[[bytes], bytes] | None:
    """What undoes a coding, piece by piece; None for none, and for one that is not known.

    The gateway asks for `identity`: this is for servers that do not care. What is damaged reads as nothing.
    """
    bits = _WINDOW_BITS.get(coding.strip().lower()) if coding is not None else None
    if bits is None:
        return None
    inflater = zlib.decompressobj(bits)

    def decode(piece: bytes) -> bytes:
        try:
            piece = inflater.unconsumed_tail + piece
            return inflater.decompress(piece, max(FLOOR_BYTES, len(piece) * GROWTH_LIMIT))
        except zlib.error:
            return b""

    return decode
