"""An outcome without secrets, for people: classification reads raw bytes, masking follows (SPEC §6)."""

from __future__ import annotations

from dataclasses import replace

from clinebox.domain.bounded_json import Mask, bounded_json
from clinebox.domain.outcome.model import Outcome


def masked_outcome(outcome: Outcome, mask: Mask, mask_cut: Mask) -> Outcome:
    """The same outcome with every text in it masked; `flag_details` are bounded as well.

    `mask_cut` is for what was cut before it came here: excerpts may end in the middle of a secret.
    """
    return replace(
        outcome,
        text=mask_cut(outcome.text),
        flag_details={flag: bounded_json(value, mask) for flag, value in outcome.flag_details.items()},
        notes=tuple(mask_cut(note) for note in outcome.notes),
        evidence=tuple(replace(entry, excerpt=mask_cut(entry.excerpt)) for entry in outcome.evidence),
        superseded=None if outcome.superseded is None else masked_outcome(outcome.superseded, mask, mask_cut),
    )
