"""What a session is made of: its states, the events that meet it, the effects they have (WIRE.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias

from clinebox.domain.episode import EpisodeId
from clinebox.domain.session_table import Move, RefusalCode, StateKind


class Ending(StrEnum):
    """The work that a close has to end before it can release."""

    NOTHING = "nothing"
    SETUP = "setup"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Seed:
    """What a seed asks for; `fingerprint` is the one of the whole body, defaults filled in."""

    session_id: str
    episode: EpisodeId
    fingerprint: str


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer to an activation, kept to be given again byte for byte."""

    http_status: int
    body: bytes
    failure_report: str | None = None


# States.


@dataclass(frozen=True, slots=True)
class Absent:
    """No session: never seeded, seeded in vain, or closed longer ago than the window."""

    kind: ClassVar[StateKind] = StateKind.ABSENT


@dataclass(frozen=True, slots=True)
class Seeding:
    """The setup runs."""

    seed: Seed
    kind: ClassVar[StateKind] = StateKind.SEEDING


@dataclass(frozen=True, slots=True)
class Open:
    """Ready for its one activation."""

    seed: Seed
    kind: ClassVar[StateKind] = StateKind.OPEN


@dataclass(frozen=True, slots=True)
class Partial:
    """Set up half way, and not undone; `reason` says why."""

    seed: Seed
    reason: str
    kind: ClassVar[StateKind] = StateKind.PARTIAL


@dataclass(frozen=True, slots=True)
class Active:
    """The run goes on; `request` is the activation's fingerprint."""

    seed: Seed
    request: str
    kind: ClassVar[StateKind] = StateKind.ACTIVE


@dataclass(frozen=True, slots=True)
class Finished:
    """The run ended."""

    seed: Seed
    request: str
    answer: StoredAnswer
    kind: ClassVar[StateKind] = StateKind.FINISHED


@dataclass(frozen=True, slots=True)
class Closing:
    """A release runs; `ending` is what it first has to end."""

    seed: Seed
    ending: Ending
    kind: ClassVar[StateKind] = StateKind.CLOSING


@dataclass(frozen=True, slots=True)
class CloseFailed:
    """A release failed; the next close tries again."""

    seed: Seed
    ending: Ending
    reason: str
    kind: ClassVar[StateKind] = StateKind.CLOSE_FAILED


@dataclass(frozen=True, slots=True)
class Closed:
    """The close receipt; `answer` is None for an id that was unknown when it was closed."""

    episode: EpisodeId
    answer: bytes | None
    until_s: float
    kind: ClassVar[StateKind] = StateKind.CLOSED


UnderClose: TypeAlias = Closing | CloseFailed
Live: TypeAlias = Seeding | Open | Partial | Active | Finished | UnderClose
SessionState: TypeAlias = Absent | Live | Closed


# Events. `now_s` is the time of any clock that does not run backwards.


@dataclass(frozen=True, slots=True)
class SeedRequested:
    """`POST /v1/agent_sessions`; `cookie_session_id` is whom the request's cookie names."""

    seed: Seed
    now_s: float
    cookie_session_id: str | None = None


@dataclass(frozen=True, slots=True)
class ActivationRequested:
    """`POST …/v1/responses` with the session's cookie; `request` is a fingerprint."""

    session_id: str
    request: str
    now_s: float
    rollout_key: str | None = None


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """`POST /v1/agent_sessions/close`."""

    session_id: str
    episode: EpisodeId
    now_s: float


@dataclass(frozen=True, slots=True)
class SetupDone:
    """The setup succeeded."""


@dataclass(frozen=True, slots=True)
class SetupRefused:
    """The setup cannot be, and no retry can help; nothing was left behind."""

    reason: str


@dataclass(frozen=True, slots=True)
class SetupFailed:
    """The setup broke; `undone` when nothing of it is left."""

    reason: str
    undone: bool


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run has its answer, whatever it is: a failed activation (502) is repeated like any other."""

    answer: StoredAnswer


@dataclass(frozen=True, slots=True)
class Released:
    """Everything of the session is ended, collected and given back; `answer` is the close's body."""

    answer: bytes
    now_s: float


@dataclass(frozen=True, slots=True)
class ReleaseFailed:
    """The release broke; what is left is for the next try."""

    reason: str


SessionEvent: TypeAlias = (
    SeedRequested
    | ActivationRequested
    | CloseRequested
    | SetupDone
    | SetupRefused
    | SetupFailed
    | RunEnded
    | Released
    | ReleaseFailed
)


# Effects.


@dataclass(frozen=True, slots=True)
class Do:
    """An action or answer that needs nothing beside its name (`session_table.Move`)."""

    move: Move


@dataclass(frozen=True, slots=True)
class Release:
    """First end what still runs, then collect what was written, then stop or disconnect the sandbox."""

    ending: Ending


@dataclass(frozen=True, slots=True)
class ReturnAnswer:
    """Answer the activation, and all who joined it."""

    answer: StoredAnswer


@dataclass(frozen=True, slots=True)
class ReturnClose:
    """Answer the close; None: the id was unknown, so there are no observations."""

    answer: bytes | None


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer the seed or close (`move` says which) that its work failed, with the failure report."""

    move: Move
    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Answer 409 or 422 with `{error: {code, message}}`."""

    http_status: int
    code: RefusalCode
    message: str


Effect: TypeAlias = Do | Release | ReturnAnswer | ReturnClose | Fail


# Where an activation belongs, before any state is looked at.


@dataclass(frozen=True, slots=True)
class HostPath:
    """No session is meant: the host path."""


@dataclass(frozen=True, slots=True)
class SessionPath:
    """The session that the cookie names; step its state, `Absent()` where there is none."""

    session_id: str
