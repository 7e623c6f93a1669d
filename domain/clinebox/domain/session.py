"""A session's rules: seed, one activation, close (WIRE.md). No clock, no I/O, no decision left to a driver.

`step` follows `session_table`. The driver keeps a state for every session id (`Absent()` where it has none),
steps it with each request and with the end of each piece of work, and does what the effect says. One event
at a time for one id; the work itself runs beside. `Released` comes after the setup and the run have ended.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NewType, assert_never

from returns.result import Result

from clinebox.domain.budgets import BudgetFailure, checked_budget_s
from clinebox.domain.session_model import (
    Absent,
    ActivationRequested,
    Active,
    Closed,
    CloseFailed,
    CloseRequested,
    Closing,
    Do,
    Effect,
    Ending,
    Fail,
    Finished,
    HostPath,
    Open,
    Partial,
    Refusal,
    Release,
    Released,
    ReleaseFailed,
    ReturnAnswer,
    ReturnClose,
    RunEnded,
    Seeding,
    SeedRequested,
    SessionEvent,
    SessionPath,
    SessionState,
    SetupDone,
    SetupFailed,
    SetupRefused,
)
from clinebox.domain.session_refusal import refusal, shown_name
from clinebox.domain.session_table import Input, Move, RefusalCode, StateKind, http_status, rule

CloseWindow = NewType("CloseWindow", float)
"""Seconds for which a close receipt is kept; made by `close_window`, and by nothing else."""

DEFAULT_CLOSE_WINDOW_S: Final = CloseWindow(300.0)
"""`session_close_retry_window_seconds`; a retry does not extend it."""


def close_window(value_s: float) -> Result[CloseWindow, BudgetFailure]:
    """The window that `step` takes. Failure when it is nan, infinite, zero, negative or over 1e9 seconds.

    A receipt with a window of nan would never expire, one with zero would answer no retry.

    >>> close_window(float("nan")).failure().message
    'session_close_retry_window_seconds is nan s: give a number of seconds above 0 and at most 1e9'
    """
    return checked_budget_s("session_close_retry_window_seconds", value_s).map(CloseWindow)


def step(
    state: SessionState, event: SessionEvent, *, window_s: CloseWindow = DEFAULT_CLOSE_WINDOW_S
) -> tuple[SessionState, Effect | Refusal]:
    """The next state, and what to do or answer. Total."""
    match event:
        case SeedRequested() | ActivationRequested() | CloseRequested() | Released():
            state = current(state, event.now_s)
        case _:
            pass
    row = rule(state.kind, read(state, event))
    entered = _enter(row.target, state, event, window_s)
    if isinstance(row.outcome, RefusalCode):
        return entered, refusal(row.outcome, state, event)
    return entered, _effect(row.outcome, state, event)


def current(state: SessionState, now_s: float) -> SessionState:
    """The state at this time: a close receipt is gone once its window has passed."""
    return Absent() if isinstance(state, Closed) and now_s >= state.until_s else state


def route_activation(
    cookie_session_id: str | None, rollout_key: str | None
) -> HostPath | SessionPath | Refusal:
    """Where an activation belongs. A cookie always means its session, and never falls back to the host path.

    Without one `/v1/responses` is the host path, and the `/ng-rollout` route is refused.
    """
    if cookie_session_id is not None:
        return SessionPath(cookie_session_id)
    if rollout_key is None:
        return HostPath()
    code = RefusalCode.SESSION_NOT_OPEN
    message = (
        f"Rollout {shown_name(rollout_key)} was asked for without a session's cookie. Seed a session first."
    )
    return Refusal(http_status(code), code, message)


def read(state: SessionState, event: SessionEvent) -> Input:  # noqa: PLR0911 - one line for each kind of event
    """How an event looks from the state it meets: the table's column."""
    match event:
        case SeedRequested():
            return _read_seed(state, event)
        case ActivationRequested():
            return _read_activation(state, event)
        case CloseRequested():
            return _read_close(state, event)
        case SetupDone():
            return Input.SETUP_DONE
        case SetupRefused():
            return Input.SETUP_REFUSED
        case SetupFailed():
            return Input.SETUP_FAILED if event.undone else Input.SETUP_STUCK
        case RunEnded():
            return Input.RUN_ENDED
        case Released():
            return Input.RELEASED
        case ReleaseFailed():
            return Input.RELEASE_FAILED
        case _:
            assert_never(event)


def _read_seed(state: SessionState, event: SeedRequested) -> Input:
    own_cookie = event.cookie_session_id == event.seed.session_id
    if event.cookie_session_id is not None and not own_cookie:
        return Input.SEED_FOREIGN_COOKIE
    if isinstance(state, Absent):
        return Input.SEED_STALE_COOKIE if own_cookie else Input.SEED
    if isinstance(state, Closed):
        return Input.SEED
    return Input.SEED_SAME if state.seed == event.seed else Input.SEED_OTHER


def _read_activation(state: SessionState, event: ActivationRequested) -> Input:
    if isinstance(state, Absent | Closed):
        return Input.ACTIVATE
    if event.rollout_key is not None and event.rollout_key != state.seed.episode.capture_key:
        return Input.ACTIVATE_WRONG_ROLLOUT
    if not isinstance(state, Active | Finished):
        return Input.ACTIVATE
    return Input.ACTIVATE_SAME if state.request == event.request else Input.ACTIVATE_OTHER


def _read_close(state: SessionState, event: CloseRequested) -> Input:
    if isinstance(state, Absent):
        return Input.CLOSE
    episode = state.episode if isinstance(state, Closed) else state.seed.episode
    return Input.CLOSE if episode == event.episode else Input.CLOSE_OTHER_EPISODE


def _enter(
    target: StateKind, state: SessionState, event: SessionEvent, window_s: CloseWindow
) -> SessionState:
    """The state that the table names, made of what the old one and the event hold; else the old one stays."""
    match target:
        case StateKind.ABSENT | StateKind.SEEDING | StateKind.OPEN | StateKind.PARTIAL:
            return _enter_setup(target, state, event)
        case StateKind.ACTIVE | StateKind.FINISHED:
            return _enter_run(state, event)
        case StateKind.CLOSING | StateKind.CLOSE_FAILED | StateKind.CLOSED:
            return _enter_close(target, state, event, window_s)
        case _:
            assert_never(target)


def _enter_setup(target: StateKind, state: SessionState, event: SessionEvent) -> SessionState:
    match target, state, event:
        case StateKind.ABSENT, _, _:
            return Absent()
        case StateKind.SEEDING, Absent(), SeedRequested():
            return Seeding(event.seed)
        case StateKind.OPEN, Seeding(), SetupDone():
            return Open(state.seed)
        case StateKind.PARTIAL, Seeding(), SetupFailed():
            return Partial(state.seed, event.reason)
        case _:
            return state


def _enter_run(state: SessionState, event: SessionEvent) -> SessionState:
    match state, event:
        case Open(), ActivationRequested():
            return Active(state.seed, event.request)
        case Active(), RunEnded():
            return Finished(state.seed, state.request, event.answer)
        case _:
            return state


def _enter_close(
    target: StateKind, state: SessionState, event: SessionEvent, window_s: CloseWindow
) -> SessionState:
    match target, state, event:
        case StateKind.CLOSED, Absent(), CloseRequested():
            return Closed(event.episode, None, event.now_s + window_s)
        case StateKind.CLOSED, Closing(), Released():
            return Closed(state.seed.episode, event.answer, event.now_s + window_s)
        case StateKind.CLOSE_FAILED, Closing(), ReleaseFailed():
            return CloseFailed(state.seed, state.ending, event.reason)
        case _, (Closing() | CloseFailed()), (SetupDone() | SetupRefused() | SetupFailed() | RunEnded()):
            return replace(state, ending=Ending.NOTHING)
        case StateKind.CLOSING, (Seeding() | Open() | Partial() | Active() | Finished() | CloseFailed()), _:
            return Closing(state.seed, _ending(state))
        case _:
            return state


def _ending(state: SessionState) -> Ending:
    """What a release has to end first."""
    match state:
        case Seeding():
            return Ending.SETUP
        case Active():
            return Ending.RUN
        case Closing() | CloseFailed():
            return state.ending
        case _:
            return Ending.NOTHING


def _effect(move: Move, state: SessionState, event: SessionEvent) -> Effect:
    """The effect that the table names, with what it needs from the state and the event."""
    match move, state, event:
        case Move.RELEASE, _, _:
            return Release(_ending(state))
        case (Move.RETURN_ANSWER, Finished(answer=kept), _) | (Move.RETURN_ANSWER, _, RunEnded(answer=kept)):
            return ReturnAnswer(kept)
        case (Move.RETURN_CLOSE, Closed(answer=body), _) | (Move.RETURN_CLOSE, _, Released(answer=body)):
            return ReturnClose(body)
        case Move.RETURN_CLOSE, _, _:
            return ReturnClose(None)
        case ((Move.FAIL_SEED | Move.FAIL_CLOSE), _, (SetupFailed() | ReleaseFailed())):
            return Fail(move, event.reason)
        case _:
            return Do(move)
