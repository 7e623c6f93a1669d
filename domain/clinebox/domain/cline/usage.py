"""Tokens of a run: what Cline counted, and what is only a lower bound (SPEC §2, FORMAT.md §3).

`run_result.usage` is the sum of the lead's turns. It misses sub-agents, compaction calls and whatever broke,
and it is all zeros when the server sent no usage: zero and unknown look the same (Cline 3.0.57 to 3.0.65).
"""

from __future__ import annotations

from typing import NamedTuple

from clinebox.domain.cline.cited import Cited, cite
from clinebox.domain.cline.events import Record, TokenCounts, TurnUsage


class UsageFacts(NamedTuple):
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
        fell = not depth and self._lead_counted and is_zero(counts)
        self.count(counts.input or 0, counts.output or 0, counts.cache_read or 0, depth)
        if fell:
            self._fell = cite(usage, record.line, record.ts, record.raw, b'"inputTokens":')

    def count(self, input_tokens: int, output_tokens: int, cached_tokens: int, depth: int) -> None:
        """Count one turn by its numbers alone; what fell to zero is `feed`'s to quote."""
        self._turns += 1
        self._input += input_tokens
        self._output += output_tokens
        self._cached += cached_tokens
        counted = input_tokens > 0 or output_tokens > 0
        self._zeros += not counted
        if depth:
            self._others += 1
            return
        self._fell = None
        self._lead_counted = self._lead_counted or counted

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
