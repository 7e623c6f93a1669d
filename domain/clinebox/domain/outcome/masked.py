"""An outcome without secrets, for people: classification reads raw bytes, masking follows (SPEC §6)."""

from __future__ import annotations

from dataclasses import replace

from clinebox.domain.bounded_json import Mask, bounded_json
from clinebox.domain.outcome.model import EvidenceEntry, Outcome


def masked_outcome(outcome: Outcome, mask: Mask) -> Outcome:
    """The same outcome with every text in it masked; `flag_details` are bounded as well."""
    return replace(
        outcome,
        text=mask(outcome.text),
        flag_details={flag: bounded_json(value, mask) for flag, value in outcome.flag_details.items()},
        notes=tuple(mask(note) for note in outcome.notes),
        evidence=tuple(_masked_entry(entry, mask) for entry in outcome.evidence),
        superseded=None if outcome.superseded is None else masked_outcome(outcome.superseded, mask),
    )


def _masked_entry(entry: EvidenceEntry, mask: Mask) -> EvidenceEntry:
    return replace(entry, excerpt=mask(entry.excerpt))
