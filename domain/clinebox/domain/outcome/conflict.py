"""One contradiction in the evidence."""

from __future__ import annotations

from dataclasses import dataclass

from clinebox.domain.outcome.model import EvidenceEntry


@dataclass(frozen=True, slots=True)
class Conflict:
    """One contradiction, in a sentence, with the line that contradicts."""

    sentence: str
    entry: EvidenceEntry
