"""The session's rules as one table: in which state which event leads where (WIRE.md).

The table is data. `session.step` follows it, `docs/session.md` is generated from it, tests walk through it.
What it does not hold cannot come from outside: a report of work that nobody started, which is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class StateKind(StrEnum):
    """Where a session is in its life."""

    ABSENT = "absent"
    """Never seeded, seeded in vain, or closed and its receipt expired."""
    SEEDING = "seeding"
    OPEN = "open"
    PARTIAL = "partial"
    """Set up half way, and that could not be undone: for close, never for activation."""
    ACTIVE = "active"
    FINISHED = "finished"
    """The one activation ended; its answer is kept."""
    CLOSING = "closing"
    CLOSE_FAILED = "close_failed"
    """Marked closing; kept for another try."""
    CLOSED = "closed"
    """Gone; its close receipt is kept for the window."""


class Input(StrEnum):
    """An event as it looks from the state it meets. The last seven are reports of work that was started."""

    SEED = "seed"
    SEED_SAME = "seed, equal body"
    SEED_OTHER = "seed, other body"
    SEED_FOREIGN_COOKIE = "seed, cookie of another session"
    SEED_STALE_COOKIE = "seed, cookie of a session that is gone"
    ACTIVATE = "activate"
    ACTIVATE_SAME = "activate, same request"
    ACTIVATE_OTHER = "activate, other request"
    ACTIVATE_WRONG_ROLLOUT = "activate, other rollout in the path"
    CLOSE = "close"
    CLOSE_OTHER_EPISODE = "close, other episode"
    SETUP_DONE = "setup done"
    SETUP_REFUSED = "setup refused for good"
    SETUP_FAILED = "setup failed, undone"
    SETUP_STUCK = "setup failed, not undone"
    RUN_ENDED = "run ended"
    RELEASED = "released"
    RELEASE_FAILED = "release failed"


class Move(StrEnum):
    """What the driver has to do."""

    START_SETUP = "start the setup"
    AWAIT_SETUP = "wait for the setup, ask again"
    RETURN_SESSION = "200: the session"
    FAIL_SEED = "5xx: the seed failed"
    DISCARD_SETUP = "take down what came too late"
    START_RUN = "start the run"
    JOIN_RUN = "share the run's answer"
    RETURN_ANSWER = "the run's answer"
    RELEASE = "stop, collect, release"
    JOIN_CLOSE = "share the close's answer"
    RETURN_CLOSE = "200: the close's answer"
    FAIL_CLOSE = "5xx: the close failed"
    IGNORE = "nothing"


class RefusalCode(StrEnum):
    """Why a request is refused; 409, but for `SEED_REJECTED`, which is 422 and final."""

    SEED_REJECTED = "seed_rejected"
    SESSION_CONFLICT = "session_conflict"
    FOREIGN_COOKIE = "foreign_cookie"
    STALE_COOKIE = "stale_cookie"
    SETUP_INCOMPLETE = "setup_incomplete"
    SESSION_CLOSING = "session_closing"
    SESSION_CLOSED = "session_closed"
    SESSION_NOT_OPEN = "session_not_open"
    ACTIVATION_CONFLICT = "activation_conflict"
    ROLLOUT_MISMATCH = "rollout_mismatch"
    EPISODE_MISMATCH = "episode_mismatch"


@dataclass(frozen=True, slots=True)
class Row:
    """In `state`, `event` leads to `target` and to `outcome`."""

    state: StateKind
    event: Input
    target: StateKind
    outcome: Move | RefusalCode


_S, _E, _M, _R = StateKind, Input, Move, RefusalCode


def _stay(states: Iterable[StateKind], event: Input, outcome: Move | RefusalCode) -> tuple[Row, ...]:
    return tuple(Row(state, event, state, outcome) for state in states)


_LIVE: Final = (_S.SEEDING, _S.OPEN, _S.PARTIAL, _S.ACTIVE, _S.FINISHED, _S.CLOSING, _S.CLOSE_FAILED)
_UNDER_CLOSE: Final = (_S.CLOSING, _S.CLOSE_FAILED)
_GONE: Final = (_S.ABSENT, _S.CLOSED)

ROWS: Final[tuple[Row, ...]] = (
    # Seed. Concurrent seeds of one id are serialised: the later one asks again when the first has ended.
    Row(_S.ABSENT, _E.SEED, _S.SEEDING, _M.START_SETUP),
    *_stay((_S.SEEDING,), _E.SEED_SAME, _M.AWAIT_SETUP),
    *_stay((_S.SEEDING,), _E.SEED_OTHER, _M.AWAIT_SETUP),
    *_stay((_S.OPEN, _S.ACTIVE, _S.FINISHED), _E.SEED_SAME, _M.RETURN_SESSION),
    *_stay((_S.OPEN, _S.PARTIAL, _S.ACTIVE, _S.FINISHED), _E.SEED_OTHER, _R.SESSION_CONFLICT),
    *_stay((_S.PARTIAL,), _E.SEED_SAME, _R.SETUP_INCOMPLETE),
    *_stay(_UNDER_CLOSE, _E.SEED_SAME, _R.SESSION_CLOSING),
    *_stay(_UNDER_CLOSE, _E.SEED_OTHER, _R.SESSION_CLOSING),
    *_stay((_S.CLOSED,), _E.SEED, _R.SESSION_CLOSED),
    *_stay(_S, _E.SEED_FOREIGN_COOKIE, _R.FOREIGN_COOKIE),
    *_stay((_S.ABSENT,), _E.SEED_STALE_COOKIE, _R.STALE_COOKIE),
    # The setup's end. A close that came first has the last word: the seed is refused, the release goes on.
    Row(_S.SEEDING, _E.SETUP_DONE, _S.OPEN, _M.RETURN_SESSION),
    Row(_S.SEEDING, _E.SETUP_REFUSED, _S.ABSENT, _R.SEED_REJECTED),
    Row(_S.SEEDING, _E.SETUP_FAILED, _S.ABSENT, _M.FAIL_SEED),
    Row(_S.SEEDING, _E.SETUP_STUCK, _S.PARTIAL, _M.FAIL_SEED),
    *_stay(_UNDER_CLOSE, _E.SETUP_DONE, _R.SESSION_CLOSING),
    *_stay(_UNDER_CLOSE, _E.SETUP_REFUSED, _R.SEED_REJECTED),
    *_stay(_UNDER_CLOSE, _E.SETUP_FAILED, _M.FAIL_SEED),
    *_stay(_UNDER_CLOSE, _E.SETUP_STUCK, _M.FAIL_SEED),
    *_stay(_GONE, _E.SETUP_DONE, _M.DISCARD_SETUP),
    *_stay(_GONE, _E.SETUP_STUCK, _M.DISCARD_SETUP),
    # Activation: one a session. The caller's disconnect is no event: only a close stops a run.
    Row(_S.OPEN, _E.ACTIVATE, _S.ACTIVE, _M.START_RUN),
    *_stay((_S.ACTIVE,), _E.ACTIVATE_SAME, _M.JOIN_RUN),
    *_stay((_S.FINISHED,), _E.ACTIVATE_SAME, _M.RETURN_ANSWER),
    *_stay((_S.ACTIVE, _S.FINISHED), _E.ACTIVATE_OTHER, _R.ACTIVATION_CONFLICT),
    *_stay(_LIVE, _E.ACTIVATE_WRONG_ROLLOUT, _R.ROLLOUT_MISMATCH),
    *_stay((_S.ABSENT, _S.SEEDING, _S.CLOSED), _E.ACTIVATE, _R.SESSION_NOT_OPEN),
    *_stay((_S.PARTIAL,), _E.ACTIVATE, _R.SETUP_INCOMPLETE),
    *_stay(_UNDER_CLOSE, _E.ACTIVATE, _R.SESSION_CLOSING),
    # The run's end. Whoever waits for its answer gets it, also when a close was what ended it.
    Row(_S.ACTIVE, _E.RUN_ENDED, _S.FINISHED, _M.RETURN_ANSWER),
    *_stay((*_UNDER_CLOSE, *_GONE), _E.RUN_ENDED, _M.RETURN_ANSWER),
    # Close. Of an unknown id it succeeds, and fences the id off against a seed that is still under way.
    Row(_S.ABSENT, _E.CLOSE, _S.CLOSED, _M.RETURN_CLOSE),
    *(Row(state, _E.CLOSE, _S.CLOSING, _M.RELEASE) for state in _LIVE if state is not _S.CLOSING),
    *_stay((_S.CLOSING,), _E.CLOSE, _M.JOIN_CLOSE),
    *_stay((_S.CLOSED,), _E.CLOSE, _M.RETURN_CLOSE),
    *_stay((*_LIVE, _S.CLOSED), _E.CLOSE_OTHER_EPISODE, _R.EPISODE_MISMATCH),
    Row(_S.CLOSING, _E.RELEASED, _S.CLOSED, _M.RETURN_CLOSE),
    Row(_S.CLOSING, _E.RELEASE_FAILED, _S.CLOSE_FAILED, _M.FAIL_CLOSE),
)

TABLE: Final[Mapping[tuple[StateKind, Input], Row]] = {(row.state, row.event): row for row in ROWS}


def rule(state: StateKind, event: Input) -> Row:
    """The row for an event in a state; where the table holds none, the event changes and moves nothing."""
    return TABLE.get((state, event), Row(state, event, state, Move.IGNORE))


def diagram(rows: Iterable[Row] = ROWS) -> str:
    """The transitions between states as a Mermaid state diagram, without those that stay."""
    lines = [f"    {row.state} --> {row.target}: {row.event}" for row in rows if row.state != row.target]
    expiry = f"    {StateKind.CLOSED} --> {StateKind.ABSENT}: the receipt's window ends"
    start = f"    [*] --> {StateKind.ABSENT}"
    return "\n".join(["stateDiagram-v2", start, *lines, expiry])


def rule_list(rows: Iterable[Row] = ROWS) -> str:
    """Every row as a Markdown table, state by state."""
    ordered = sorted(rows, key=lambda row: list(StateKind).index(row.state))
    lines = [f"| {row.state} | {row.event} | {row.target} | {_shown(row.outcome)} |" for row in ordered]
    return "\n".join(["| in state | event | then | answer or action |", "|---|---|---|---|", *lines])


def _shown(outcome: Move | RefusalCode) -> str:
    if isinstance(outcome, Move):
        return outcome.value
    return f"{http_status(outcome)} `{outcome}`"


def http_status(code: RefusalCode) -> int:
    """The HTTP status of a refusal: 422 where no retry can help, else 409."""
    return 422 if code is RefusalCode.SEED_REJECTED else 409
