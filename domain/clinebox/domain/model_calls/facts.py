"""The calls of one session folded to what a judgement needs: bounded, whatever their number (SPEC §2, §11).

Which calls are the lead's last turn is told by order alone, because no request names its agent. Cline waits
for a sub-agent within the turn that spawned it, and turns again afterwards; compaction comes before the turn
it makes room for, and its request carries no tools. So the last call with tools is the last attempt of the
lead's last turn, and the calls directly before it that gave nothing are the earlier attempts. (Teammates work
beside the lead; with them the last call may be another's.)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from clinebox.domain.model_calls.faults import FIRST_REDIRECT_STATUS, OPEN, CallFault, fault_of
from clinebox.domain.model_calls.record import ModelCall

CALLS_LIMIT: Final = 64
"""Of each list of calls that is kept."""


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A call with the line that it was read from."""

    call: ModelCall
    line: int
    raw: bytes

    @property
    def fault(self) -> CallFault | None:
        """What was wrong with it."""
        return fault_of(self.call)

    @property
    def is_productive(self) -> bool:
        """Whether a whole answer passed that says anything."""
        return self.fault is None and self.call.response.produced_output


@dataclass(frozen=True, slots=True)
class UsageSum:
    """Tokens of every completion, sub-agents' and compactions' too: the sums of what was sent."""

    prompt_tokens: int = 0
    cached_tokens: int | None = None
    completion_tokens: int = 0
    reasoning_tokens: int | None = None
    counted: int = 0
    """Calls that have their counts."""
    uncounted_answers: int = 0
    """Whole answers without counts."""
    uncounted_broken: int = 0
    """Answers that began, broke, and have no counts."""
    uncounted_open: int = 0
    """Calls that Cline left, or that had not ended."""
    without_reasoning: int = 0
    """Counted calls that do not tell their reasoning tokens."""


@dataclass(frozen=True, slots=True)
class ModelCallFacts:
    """What the gateway's record says of a session."""

    source: str
    size_bytes: int = 0
    lines: int = 0
    bad_lines: int = 0
    oversized_lines: int = 0
    is_whole: bool = False
    """Whether every call is there, by the records' own count; an empty record is whole, and says: none."""
    calls: int = 0
    completions: int = 0
    """Calls that asked a model for an answer."""
    last: SeenCall | None = None
    """The last attempt of the lead's last turn."""
    newest: SeenCall | None = None
    """The last completion at all: a compaction's too."""
    unproductive: tuple[SeenCall, ...] = ()
    """The calls at the end that gave nothing, up to and with the last; oldest first, the newest kept."""
    recovered: tuple[SeenCall, ...] = ()
    """Calls that gave nothing, and that a later one made good; first ones first."""
    recovered_count: int = 0
    faulty: tuple[SeenCall, ...] = ()
    """Every call with a fault; the newest are kept."""
    open_calls: tuple[SeenCall, ...] = ()
    """Calls that Cline left, or that had not ended; the newest are kept."""
    first_output: SeenCall | None = None
    """The first call in which a model said anything at all, whole or not."""
    usage: UsageSum = field(default_factory=UsageSum)


class CallFold:
    """Folds the calls in their order."""

    def __init__(self) -> None:
        self._calls = self._completions = 0
        self._turns, self._any = _Course(), _Course()
        self._faulty: list[SeenCall] = []
        self._open: list[SeenCall] = []
        self._first_output: SeenCall | None = None
        self._usage = _UsageFold()

    def add(self, seen: SeenCall) -> None:
        """Take the next call."""
        self._calls += 1
        if not seen.call.is_completion:
            return
        self._completions += 1
        fault = seen.fault
        if fault is not None:
            _keep(self._faulty, seen)
            if fault.kind in OPEN:
                _keep(self._open, seen)
        if self._first_output is None and seen.call.response.produced_output:
            self._first_output = seen
        self._usage.add(seen.call, fault)
        self._any.add(seen, is_turn=True)
        self._turns.add(seen, is_turn=seen.call.request.has_tools is not False)

    def facts(self, source: str) -> ModelCallFacts:
        """What was seen so far, without what only the file tells."""
        # A run whose every tool was taken away has no call with tools, and yet turns.
        course = self._turns if self._turns.last is not None else self._any
        return ModelCallFacts(
            source=source,
            calls=self._calls,
            completions=self._completions,
            last=course.last,
            newest=self._any.last,
            unproductive=tuple(course.unproductive),
            recovered=tuple(course.recovered),
            recovered_count=course.recovered_count,
            faulty=tuple(self._faulty),
            open_calls=tuple(self._open),
            first_output=self._first_output,
            usage=self._usage.sum,
        )


class _Course:
    """The turns in their order: what failed, and what a later one made good."""

    __slots__ = ("last", "recovered", "recovered_count", "unproductive")

    def __init__(self) -> None:
        self.last: SeenCall | None = None
        self.unproductive: list[SeenCall] = []
        self.recovered: list[SeenCall] = []
        self.recovered_count = 0

    def add(self, seen: SeenCall, *, is_turn: bool) -> None:
        if is_turn:
            self.last = seen
        if not seen.is_productive:
            _keep(self.unproductive, seen)
        elif is_turn:
            self.recovered_count += len(self.unproductive)
            self.recovered += self.unproductive[: CALLS_LIMIT - len(self.recovered)]
            self.unproductive = []


class _UsageFold:
    __slots__ = ("sum",)

    def __init__(self) -> None:
        self.sum = UsageSum()

    def add(self, call: ModelCall, fault: CallFault | None) -> None:
        usage, total = call.response.usage, self.sum
        if usage is None or usage.prompt_tokens is None or usage.completion_tokens is None:
            self._miss(call, fault)
            return
        self.sum = UsageSum(
            prompt_tokens=total.prompt_tokens + usage.prompt_tokens,
            cached_tokens=_plus(total.cached_tokens, usage.cached_tokens),
            completion_tokens=total.completion_tokens + usage.completion_tokens,
            reasoning_tokens=_plus(total.reasoning_tokens, usage.reasoning_tokens),
            counted=total.counted + 1,
            uncounted_answers=total.uncounted_answers,
            uncounted_broken=total.uncounted_broken,
            uncounted_open=total.uncounted_open,
            without_reasoning=total.without_reasoning + (usage.reasoning_tokens is None),
        )

    def _miss(self, call: ModelCall, fault: CallFault | None) -> None:
        total = self.sum
        if fault is None:
            self.sum = replace(total, uncounted_answers=total.uncounted_answers + 1)
        elif fault.kind in OPEN:
            self.sum = replace(total, uncounted_open=total.uncounted_open + 1)
        elif call.http_status is not None and call.http_status < FIRST_REDIRECT_STATUS:
            self.sum = replace(total, uncounted_broken=total.uncounted_broken + 1)


def _plus(total: int | None, part: int | None) -> int | None:
    if part is None:
        return total
    return part if total is None else total + part


def _keep(kept: list[SeenCall], seen: SeenCall) -> None:
    kept.append(seen)
    del kept[:-CALLS_LIMIT]
