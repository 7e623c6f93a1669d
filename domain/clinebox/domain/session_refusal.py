"""What a refused request is told: a code, and one sentence with the values and the way on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from clinebox.domain.one_line import excerpt
from clinebox.domain.session_model import (
    Absent,
    ActivationRequested,
    Closed,
    CloseRequested,
    Refusal,
    SeedRequested,
    SessionEvent,
    SessionState,
    SetupRefused,
)
from clinebox.domain.session_table import RefusalCode, http_status

NAME_LIMIT_CHARS: Final = 80
"""Of an id in a sentence."""

_SENTENCES: Final[Mapping[RefusalCode, str]] = {
    RefusalCode.SEED_REJECTED: "{reason}",
    RefusalCode.SESSION_CONFLICT: "{session} exists with another body. Close it, or seed under another id.",
    RefusalCode.FOREIGN_COOKIE: "{session} was asked for with the cookie of {asked}. Seed without a cookie.",
    RefusalCode.STALE_COOKIE: "{session}, named by the cookie, is gone. Seed another one, without a cookie.",
    RefusalCode.SETUP_INCOMPLETE: "{session} was set up only in part. Close it, then seed under another id.",
    RefusalCode.SESSION_CLOSING: "{session} is closing. Seed under another id.",
    RefusalCode.SESSION_CLOSED: "{session} was closed. Seed under another id.",
    RefusalCode.SESSION_NOT_OPEN: "{session} is not open. Seed it, and wait for the answer.",
    RefusalCode.ACTIVATION_CONFLICT: "{session} has its one activation, of another request. Seed anew.",
    RefusalCode.ROLLOUT_MISMATCH: "{session} belongs to rollout {own}, and the path names {asked}.",
    RefusalCode.EPISODE_MISMATCH: "{session} belongs to episode {own}, and the request names {asked}.",
}


def refusal(code: RefusalCode, state: SessionState, event: SessionEvent) -> Refusal:
    """The refusal of an event in a state. Total; ids are shown on one line, bounded."""
    sentence = _SENTENCES[code].format(
        session=f"Session {shown_name(_session_id(state, event))}",
        own=shown_name(_own_key(state)),
        asked=shown_name(_asked(event)),
        reason=event.reason if isinstance(event, SetupRefused) else "The session cannot be set up.",
    )
    return Refusal(http_status(code), code, sentence)


def shown_name(name: str) -> str:
    """A foreign name in a sentence."""
    return f"'{excerpt(name, NAME_LIMIT_CHARS)}'"


def _session_id(state: SessionState, event: SessionEvent) -> str:
    match state, event:
        case _, SeedRequested():
            return event.seed.session_id
        case _, (ActivationRequested() | CloseRequested()):
            return event.session_id
        case ((Absent() | Closed()), _):
            return ""
        case _:
            return state.seed.session_id


def _own_key(state: SessionState) -> str:
    match state:
        case Absent():
            return ""
        case Closed():
            return state.episode.capture_key
        case _:
            return state.seed.episode.capture_key


def _asked(event: SessionEvent) -> str:
    """What the request named that is not the session's."""
    match event:
        case SeedRequested():
            return event.cookie_session_id or ""
        case ActivationRequested():
            return event.rollout_key or ""
        case CloseRequested():
            return event.episode.capture_key
        case _:
            return ""
