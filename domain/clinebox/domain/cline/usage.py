"""Tokens of a run: what Cline counted, and what is only a lower bound (SPEC §2, FORMAT.md §3).

`run_result.usage` is the sum of the lead's turns. It misses sub-agents, compaction calls and whatever broke,
and it is all zeros when the server sent no usage: zero and unknown look the same (Cline 3.0.57 to 3.0.65).
"""

from __future__ import annotations

from dataclasses import dataclass

from clinebox.domain.cline.cited import Cited, cite
from clinebox.domain.cline.events import Record, TokenCounts, TurnUsage


@dataclass(frozen=True, slots=True)
class UsageFacts:
    """The per-turn `usage` events: sums over every agent, and what the lead's zeros tell."""

    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    zero_turns: int = 0
    """Turns whose counts are all zero: the server sent none, or its stream was cut."""
    other_agents_turns: int = 0
    lead_fell_to_zero: Cited[TurnUsage] | None = None
    """The lead's last turn, if it has zeros after an earlier one had none."""

    @property
    def is_counted(self) -> bool:
        """Whether any turn had a count at all."""
        return self.input_tokens + self.output_tokens > 0


class UsageFold:
    """Sums the per-turn `usage` events."""

    __slots__ = ("_cached", "_fell", "_input", "_lead_counted", "_others", "_output", "_turns", "_zeros")

    def __init__(self) -> None:
        self._turns = self._input = self._output = self._cached = self._zeros = self._others = 0
        self._lead_counted = False
        self._fell: Cited[TurnUsage] | None = None

    def feed(self, record: Record, usage: TurnUsage, depth: int) -> None:
        """Count one turn; `depth` 0 is the lead's."""
        counts = usage.turn
        self._turns += 1
        self._input += counts.input or 0
        self._output += counts.output or 0
        self._cached += counts.cache_read or 0
        zero = is_zero(counts)
        self._zeros += zero
        if depth:
            self._others += 1
            return
        fell = zero and self._lead_counted
        self._fell = cite(usage, record.line, record.ts, record.raw, b'"inputTokens":') if fell else None
        self._lead_counted = self._lead_counted or not zero

    def facts(self) -> UsageFacts:
        """What was counted so far."""
        return UsageFacts(
            turns=self._turns,
            input_tokens=self._input,
            output_tokens=self._output,
            cached_tokens=self._cached,
            zero_turns=self._zeros,
            other_agents_turns=self._others,
            lead_fell_to_zero=self._fell,
        )


def is_zero(counts: TokenCounts) -> bool:
    """Whether nothing was counted: no model call has neither input nor output."""
    return not (counts.input or counts.output)
