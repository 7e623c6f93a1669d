"""Any history of a session, against a model that keeps plain facts and knows no table (WIRE.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from clinebox.domain.episode import EpisodeId
from clinebox.domain.session import close_window, current, step
from clinebox.domain.session_model import (
    Absent,
    ActivationRequested,
    Closed,
    CloseFailed,
    CloseRequested,
    Closing,
    Do,
    Effect,
    Ending,
    Fail,
    Refusal,
    Release,
    Released,
    ReleaseFailed,
    ReturnAnswer,
    ReturnClose,
    RunEnded,
    Seed,
    SeedRequested,
    SessionEvent,
    SessionState,
    SetupDone,
    SetupFailed,
    SetupRefused,
    StoredAnswer,
)
from clinebox.domain.session_table import Move

EPISODE = EpisodeId("task-7", 2)
OTHER_EPISODE = EpisodeId("task-7", 3)
SEED = Seed("s-1", EPISODE, "body-1")
WINDOW = close_window(100.0).unwrap()


@dataclass
class Model:
    """What one session id is, as WIRE.md tells it."""

    body: str | None = None
    episode: EpisodeId = EPISODE
    partial: bool = False
    closing: bool = False
    setup_runs: bool = False
    run_runs: bool = False
    release_runs: bool = False
    request: str | None = None
    answer: bytes | None = None
    receipt: tuple[bytes | None, float] | None = None
    runs_started: int = 0

    def forget(self) -> None:
        self.__init__()  # type: ignore[misc]

    def seed(self, body: str, cookie: str | None) -> str:
        if cookie == "s-2" or self.receipt or self.closing:
            return "409"
        if self.body is None:
            return "409" if cookie else "start"
        if self.setup_runs:
            return "wait"
        return "session" if body == self.body and not self.partial else "409"

    def activate(self, request: str, key: str | None) -> str:
        ready = self.body is not None and not (self.setup_runs or self.partial or self.closing)
        if not ready or key == "task-7":
            return "409"
        if self.request is None:
            return "start"
        if self.request != request:
            return "409"
        return "join" if self.run_runs else "answer"

    def close(self, episode: EpisodeId) -> str:
        if self.body is None and self.receipt is None:
            return "unknown"
        if episode != self.episode:
            return "409"
        if self.receipt:
            return "receipt"
        return "join" if self.release_runs else "release"


WORDS = {
    Move.START_SETUP: "start",
    Move.START_RUN: "start",
    Move.AWAIT_SETUP: "wait",
    Move.JOIN_RUN: "join",
    Move.JOIN_CLOSE: "join",
    Move.RETURN_SESSION: "session",
}


def plain(outcome: Effect | Refusal) -> str:
    """An outcome in the model's words."""
    match outcome:
        case Refusal():
            return str(outcome.http_status)
        case Do():
            return WORDS.get(outcome.move, outcome.move.value)
        case ReturnAnswer():
            return "answer"
        case Release():
            return "release"
        case _:
            return repr(outcome)


class SessionMachine(RuleBasedStateMachine):
    """Issue: "Session: a state machine test against a model"."""

    def __init__(self) -> None:
        super().__init__()
        self.state: SessionState = Absent()
        self.model = Model()
        self.now_s = 0.0

    def send(self, event: SessionEvent) -> Effect | Refusal:
        self.state, outcome = step(self.state, event, window_s=WINDOW)
        return outcome

    @rule(body=st.sampled_from(["body-1", "body-2"]), cookie=st.sampled_from([None, None, "s-1", "s-2"]))
    def seed(self, body: str, cookie: str | None) -> None:
        expected = self.model.seed(body, cookie)
        assert (
            plain(self.send(SeedRequested(replace(SEED, fingerprint=body), self.now_s, cookie))) == expected
        )
        if expected == "start":
            self.model.body, self.model.setup_runs = body, True

    @precondition(lambda self: self.model.setup_runs)
    @rule(how=st.sampled_from(["done", "refused", "undone", "stuck"]))
    def setup_ends(self, how: str) -> None:
        closing = self.model.closing
        self.model.setup_runs = False
        if how == "done":
            assert plain(self.send(SetupDone())) == ("409" if closing else "session")
        elif how == "refused":
            assert plain(self.send(SetupRefused("why"))) == "422"
        else:
            outcome = self.send(SetupFailed("why", undone=how == "undone"))
            assert outcome == Fail(Move.FAIL_SEED, "why")
        self.model.partial = how == "stuck"
        if how in {"refused", "undone"} and not closing:
            self.model.forget()

    @rule(
        request=st.sampled_from(["request-1", "request-1", "request-2"]),
        key=st.sampled_from([None, "task-7-a2", "task-7"]),
    )
    def activate(self, request: str, key: str | None) -> None:
        expected = self.model.activate(request, key)
        outcome = self.send(ActivationRequested("s-1", request, self.now_s, key))
        assert plain(outcome) == expected
        if expected == "answer":
            assert outcome == ReturnAnswer(StoredAnswer(200, self.model.answer or b""))
        if expected == "start":
            self.model.request, self.model.run_runs = request, True
            self.model.runs_started += 1

    @precondition(lambda self: self.model.run_runs)
    @rule(body=st.binary(max_size=3))
    def run_ends(self, body: bytes) -> None:
        assert self.send(RunEnded(StoredAnswer(200, body))) == ReturnAnswer(StoredAnswer(200, body))
        self.model.run_runs, self.model.answer = False, body

    @rule(episode=st.sampled_from([EPISODE, EPISODE, OTHER_EPISODE]))
    def close(self, episode: EpisodeId) -> None:
        expected = self.model.close(episode)
        outcome = self.send(CloseRequested("s-1", episode, self.now_s))
        if expected == "unknown":
            assert outcome == ReturnClose(None)
            self.model.receipt, self.model.episode = (None, self.now_s + 100.0), episode
        elif expected == "receipt":
            assert self.model.receipt
            assert outcome == ReturnClose(self.model.receipt[0])
        else:
            assert plain(outcome) == expected
        if expected == "release":
            assert outcome == Release(self.ending())
            self.model.closing = self.model.release_runs = True

    def ending(self) -> Ending:
        if self.model.setup_runs:
            return Ending.SETUP
        return Ending.RUN if self.model.run_runs else Ending.NOTHING

    @precondition(lambda self: self.model.release_runs)
    @rule(body=st.binary(max_size=3), ok=st.booleans())
    def release_ends(self, body: bytes, ok: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        still_at_work = self.model.setup_runs or self.model.run_runs
        if ok and not still_at_work:
            assert self.send(Released(body, self.now_s)) == ReturnClose(body)
            self.model.forget()
            self.model.receipt = (body, self.now_s + 100.0)
        else:
            assert self.send(ReleaseFailed("daemon gone")) == Fail(Move.FAIL_CLOSE, "daemon gone")
            self.model.release_runs = False

    @rule(seconds=st.sampled_from([1.0, 50.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        if self.model.receipt and self.now_s >= self.model.receipt[1]:
            self.model.forget()

    @invariant()
    def a_session_runs_once(self) -> None:
        assert self.model.runs_started <= 1

    @invariant()
    def the_state_is_the_model_s(self) -> None:
        state = current(self.state, self.now_s)
        assert isinstance(state, Closed) == (self.model.receipt is not None)
        assert isinstance(state, Absent) == (self.model.body is None and self.model.receipt is None)
        assert isinstance(state, Closing | CloseFailed) == self.model.closing
        assert isinstance(state, Closing) == self.model.release_runs


SessionMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
test_any_history_agrees_with_the_model = SessionMachine.TestCase
