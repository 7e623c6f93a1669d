"""The sentences that *Cline itself* writes in a terminal error, by equality or prefix (FORMAT.md §5, §7).

Nothing else is ever matched: no tool output, no model text, no stderr warning. Words never make a status.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from clinebox.domain.cline.versions import EVERY_VERSION, VersionRange


class SentenceKind(Enum):
    """What a sentence tells."""

    OUTPUT_CAP = auto()
    EMPTY_RESPONSE = auto()
    TRANSPORT = auto()


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, whole or as a prefix, with the versions that write it."""

    text: str
    kind: SentenceKind
    is_prefix: bool = False
    versions: VersionRange = EVERY_VERSION

    def matches(self, message: str) -> bool:
        """Whether the message is this sentence."""
        return message.startswith(self.text) if self.is_prefix else message == self.text


SENTENCES: Final = (
    # Finish reason `length` without a tool call (3.0.57); after three nudges since 3.0.64 (`length_forever`).
    Sentence(
        "Model reached the maximum output token limit before completing the turn", SentenceKind.OUTPUT_CAP
    ),
    # Three empty answers, or one that was capped or filtered; up to 3.0.60 also a dead proxy
    # (`empty_forever`, `length_without_text`, `html_forever`). cline.log tells them apart.
    Sentence("Model returned empty response", SentenceKind.EMPTY_RESPONSE),
    # A stream that just ends (`end_without_done_once`); an answer, or an empty one, up to 3.0.60.
    Sentence(
        "Response stream ended without a finish reason.",
        SentenceKind.TRANSPORT,
        versions=VersionRange(first=(3, 0, 61)),
    ),
    # 300 s without a byte (`hang_before_headers`, `hang_after_headers`).
    Sentence("The operation timed out.", SentenceKind.TRANSPORT),
    # RST or FIN after the headers (`reset_mid_stream_forever`, `close_mid_stream_forever`).
    Sentence("The socket connection was closed unexpectedly.", SentenceKind.TRANSPORT, is_prefix=True),
    # Refused, unknown host, RST before the headers (`refused`, `reset_before_headers_forever`).
    Sentence("Cannot connect to API:", SentenceKind.TRANSPORT, is_prefix=True),
    # A `data:` line that was cut (`malformed_sse_forever`): the server's bytes, not the model's JSON.
    Sentence("JSON parsing failed: Text:", SentenceKind.TRANSPORT, is_prefix=True),
    # 127 hops of a 307 (FORMAT.md §5).
    Sentence("The response redirected too many times.", SentenceKind.TRANSPORT, is_prefix=True),
)
