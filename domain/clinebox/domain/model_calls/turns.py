"""Which turn of which agent a call was made for: by time, and where the clocks disagree by count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from clinebox.domain.cline.transcript_model import Transcript
from clinebox.domain.model_calls.faults import fault_of
from clinebox.domain.model_calls.record import ModelCall

CLOCK_TOLERANCE_S: Final = 0.05
"""Cline writes `iteration_start` before the request (FORMAT.md §2); its stamp is rounded to milliseconds."""


@dataclass(frozen=True, slots=True)
class TurnRef:
    """A turn of an agent, and when it began by Cline's clock."""

    invocation_id: str
    iteration: int | None
    started_at_s: float


@dataclass(frozen=True, slots=True)
class JoinedCall:
    """A call and the turn that it was made for; None where that cannot be told."""

    call: ModelCall
    turn: TurnRef | None


def turns_of(transcript: Transcript) -> tuple[TurnRef, ...]:
    """Every turn of every agent that has a time, in the order in which they began."""
    found = [
        TurnRef(agent.invocation_id, turn.iteration, turn.started_ms / 1000)
        for agent in transcript.invocations
        for turn in agent.turns
        if turn.started_ms is not None
    ]
    return tuple(sorted(found, key=lambda turn: turn.started_at_s))


def join_turns(calls: Sequence[ModelCall], turns: Sequence[TurnRef]) -> tuple[TurnRef | None, ...]:
    """For each call the turn it was made for, or None where that cannot be told.

    By time a call belongs to the newest turn that had begun when it arrived, as agents work one at a time.
    That is believed if every turn but the last then has its call; else the clocks disagree, and whole answers
    are dealt to the turns in order, if there are as many of them.
    """
    timed = tuple(_newest_before(call, turns) for call in calls)
    called = {id(turn) for turn in timed}
    if all(id(turn) in called for turn in turns[:-1]) and None not in timed:
        return timed
    return _by_count(calls, turns)


def _newest_before(call: ModelCall, turns: Sequence[TurnRef]) -> TurnRef | None:
    at_s = call.times.received_at_s + CLOCK_TOLERANCE_S
    return next((turn for turn in reversed(turns) if turn.started_at_s <= at_s), None)


def _by_count(calls: Sequence[ModelCall], turns: Sequence[TurnRef]) -> tuple[TurnRef | None, ...]:
    answers = [call for call in calls if _is_answer(call)]
    if len(answers) != len(turns):
        return (None,) * len(calls)
    dealt = {answer.number: turn for answer, turn in zip(answers, turns, strict=True)}
    return tuple(dealt.get(call.number) for call in calls)


def _is_answer(call: ModelCall) -> bool:
    asked = call.is_completion and call.request.has_tools is not False
    return asked and fault_of(call) is None
