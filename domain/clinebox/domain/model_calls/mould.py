"""The common form of a stream's text events, learnt from one of them: what fits it is known without parsing.

An engine that streams text repeats all but the text itself. So a run of such events is `head text tail head
text tail …`: where a `tail head` stands at each seam, and no quote anywhere else, there is nothing but text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

LEARNT_LIMIT_BYTES: Final = 4_096
"""Of an event to learn from."""
_TEXT: Final = re.compile(rb'"(?:content|reasoning_content|reasoning)": ?"([^"\\]*)"')
_QUOTE: Final = b'"'


@dataclass(frozen=True, slots=True)
class Mould:
    """What stands before and behind the text of each event."""

    head: bytes
    tail: bytes
    _seam: bytes = field(init=False, repr=False)
    _quotes: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_seam", self.tail + self.head)
        object.__setattr__(self, "_quotes", self._seam.count(_QUOTE))

    def fits(self, events: bytes) -> bool:
        r"""Whether these whole events are texts in this form, one or many, and nothing else. Total.

        The texts are not validated: a damaged one (a line end in it, half an escape) is told so too.

        >>> mould = Mould(b'data: {"content":"', b'"}\n\n')
        >>> one = b'data: {"content":"a"}\n\n'
        >>> mould.fits(one + one), mould.fits(one + b"data: [DONE]\n\n"), mould.fits(b"")
        (True, False, False)
        """
        if not events.startswith(self.head) or not events.endswith(self.tail):
            return False
        seams = events.count(self._seam)
        return events.count(_QUOTE) == (seams + 1) * self._quotes


def learnt(data: bytes) -> Mould | None:
    """The form of an event whose `data` is known to be a piece of text and no more; None: none to learn."""
    found = _TEXT.search(data) if len(data) <= LEARNT_LIMIT_BYTES else None
    if found is None:
        return None
    return Mould(b"data: " + data[: found.start(1)], data[found.end(1) :] + b"\n\n")
