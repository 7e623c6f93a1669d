"""The session's rules, one by one (WIRE.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.episode import EpisodeId
from clinebox.domain.session import close_window, current, route_activation, step
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
    Seed,
    Seeding,
    SeedRequested,
    SessionEvent,
    SessionPath,
    SessionState,
    SetupDone,
    SetupFailed,
    SetupRefused,
    StoredAnswer,
)
from clinebox.domain.session_table import Move, RefusalCode

EPISODE = EpisodeId("task-7", 2)
OTHER_EPISODE = EpisodeId("task-7", 3)
SEED = Seed("s-1", EPISODE, "body-1")
OTHER_BODY = Seed("s-1", EPISODE, "body-2")
ANSWER = StoredAnswer(200, b'{"object":"response"}')
BODY = b'{"agent_session_id":"s-1"}'
LATER = 1_000.0


def seed_asked(seed: Seed = SEED, cookie: str | None = None, now_s: float = 0.0) -> SeedRequested:
    return SeedRequested(seed, now_s, cookie)


def activation(request: str = "request-1", key: str | None = None, now_s: float = 0.0) -> ActivationRequested:
    return ActivationRequested("s-1", request, now_s, key)


def close_asked(episode: EpisodeId = EPISODE, now_s: float = 0.0) -> CloseRequested:
    return CloseRequested("s-1", episode, now_s)


def code_of(state: SessionState, event: SessionEvent) -> RefusalCode | None:
    outcome = step(state, event)[1]
    return outcome.code if isinstance(outcome, Refusal) else None


def history(*events: SessionEvent) -> tuple[SessionState, Effect | Refusal]:
    state: SessionState = Absent()
    outcome: Effect | Refusal = Do(Move.IGNORE)
    for event in events:
        state, outcome = step(state, event)
    return state, outcome


# Seed.


def test_the_same_seed_again_returns_the_session_and_does_nothing_twice() -> None:
    """WIRE.md: "the same id with an equal body returns the existing session and does nothing twice"."""
    for state in (Open(SEED), Active(SEED, "r"), Finished(SEED, "r", ANSWER)):
        for cookie in (None, "s-1"):
            assert step(state, seed_asked(cookie=cookie)) == (state, Do(Move.RETURN_SESSION))


@pytest.mark.parametrize(
    "other",
    [OTHER_BODY, replace(SEED, episode=OTHER_EPISODE)],
)
def test_the_same_id_with_another_body_is_a_conflict(other: Seed) -> None:
    """WIRE.md: "The same id with another body: 409"."""
    for state in (Open(SEED), Partial(SEED, "x"), Active(SEED, "r"), Finished(SEED, "r", ANSWER)):
        assert code_of(state, seed_asked(other)) is RefusalCode.SESSION_CONFLICT


def test_a_cookie_of_a_session_whose_receipt_has_expired_is_a_conflict() -> None:
    """WIRE.md: "A cookie for a session whose close receipt has expired: 409"."""
    closed = Closed(EPISODE, BODY, until_s=300.0)
    assert code_of(closed, seed_asked(cookie="s-1", now_s=300.0)) is RefusalCode.STALE_COOKIE
    assert step(closed, seed_asked(now_s=300.0)) == (Seeding(SEED), Do(Move.START_SETUP))


def test_concurrent_seeds_are_serialised_whatever_their_bodies() -> None:
    """WIRE.md: "Concurrent seeds of one id are serialised; a seed that failed leaves nothing behind"."""
    for seed in (SEED, OTHER_BODY):
        assert step(Seeding(SEED), seed_asked(seed)) == (Seeding(SEED), Do(Move.AWAIT_SETUP))
    failed = SetupFailed("no disk", undone=True)
    assert history(seed_asked(), failed) == (Absent(), Fail(Move.FAIL_SEED, "no disk"))
    assert history(seed_asked(), failed, seed_asked(OTHER_BODY))[0] == Seeding(OTHER_BODY)


def test_a_refusal_that_no_retry_can_help_is_final_and_leaves_nothing() -> None:
    """WIRE.md: "A refusal that no retry can help … is 422 with the reason, final"."""
    state, outcome = history(seed_asked(), SetupRefused("cline_version 9.9.9 is not pinned"))
    assert state == Absent()
    assert outcome == Refusal(422, RefusalCode.SEED_REJECTED, "cline_version 9.9.9 is not pinned")


def test_a_setup_that_cannot_be_undone_is_kept_for_close_and_never_for_activation() -> None:
    """WIRE.md: "the partial state is kept for close, never for activation"."""
    partial, outcome = history(seed_asked(), SetupFailed("no disk", undone=False))
    assert outcome == Fail(Move.FAIL_SEED, "no disk")
    assert code_of(partial, activation()) is RefusalCode.SETUP_INCOMPLETE
    assert code_of(partial, seed_asked()) is RefusalCode.SETUP_INCOMPLETE
    assert step(partial, close_asked()) == (Closing(SEED, Ending.NOTHING), Release(Ending.NOTHING))


def test_a_close_that_races_a_seed_ends_the_setup_and_refuses_the_seed() -> None:
    closing, release = history(seed_asked(), close_asked())
    assert release == Release(Ending.SETUP)
    closing, refused = step(closing, SetupDone())
    assert isinstance(refused, Refusal)
    assert refused.code is RefusalCode.SESSION_CLOSING
    assert closing == Closing(SEED, Ending.NOTHING)
    closed, answered = step(closing, Released(BODY, 5.0))
    assert (closed, answered) == (Closed(EPISODE, BODY, 305.0), ReturnClose(BODY))


def test_a_setup_that_ends_after_its_session_is_gone_is_taken_down() -> None:
    for state in (Absent(), Closed(EPISODE, None, LATER)):
        for report in (SetupDone(), SetupFailed("x", undone=False)):
            assert step(state, report) == (state, Do(Move.DISCARD_SETUP))


# Activation.


def test_one_activation_starts_one_run_and_the_same_request_joins_it() -> None:
    """WIRE.md: "The same request again while it runs waits for the same result"."""
    active, started = history(seed_asked(), SetupDone(), activation())
    assert (active, started) == (Active(SEED, "request-1"), Do(Move.START_RUN))
    assert step(active, activation()) == (active, Do(Move.JOIN_RUN))


@pytest.mark.parametrize("answer", [ANSWER, StoredAnswer(502, b"\xff\x00", '{"failure_id":"x"}')])
def test_after_it_ended_the_same_request_gets_the_same_bytes(answer: StoredAnswer) -> None:
    """WIRE.md: "after it ended it returns the same response, byte for byte"; a failed activation too."""
    finished, given = history(seed_asked(), SetupDone(), activation(), RunEnded(answer))
    assert given == ReturnAnswer(answer)
    assert step(finished, activation()) == (finished, ReturnAnswer(answer))


def test_a_different_request_is_a_conflict_while_it_runs_and_after() -> None:
    """WIRE.md: "a *different* request is 409"."""
    for state in (Active(SEED, "request-1"), Finished(SEED, "request-1", ANSWER)):
        assert code_of(state, activation("request-2")) is RefusalCode.ACTIVATION_CONFLICT


def test_the_rollout_in_the_path_must_be_the_session_s_capture_key() -> None:
    """WIRE.md: "The rollout id in the path must equal the session's capture key, else 409"."""
    assert step(Open(SEED), activation(key="task-7-a2"))[1] == Do(Move.START_RUN)
    assert step(Open(SEED), activation(key=None))[1] == Do(Move.START_RUN)
    for key in ("task-7", "task-7-a3", "", "TASK-7-a2", "task-7-a2\n"):
        for state in (Open(SEED), Active(SEED, "request-1"), Finished(SEED, "request-1", ANSWER)):
            assert code_of(state, activation(key=key)) is RefusalCode.ROLLOUT_MISMATCH


@pytest.mark.parametrize("state", [Absent(), Seeding(SEED), Closed(EPISODE, BODY, LATER)], ids=str)
def test_an_activation_without_an_open_session_is_refused(state: SessionState) -> None:
    """WIRE.md: "a cookie without an open session, a closing one …: 409"."""
    assert code_of(state, activation()) is RefusalCode.SESSION_NOT_OPEN


def test_a_closing_session_takes_no_activation_not_even_the_same_one() -> None:
    """WIRE.md: "a closing one: 409"."""
    for state in (Closing(SEED, Ending.RUN), CloseFailed(SEED, Ending.RUN, "x")):
        assert code_of(state, activation()) is RefusalCode.SESSION_CLOSING


def test_only_a_request_without_cookie_and_rollout_takes_the_host_path() -> None:
    """WIRE.md: "`/v1/responses` without a cookie is the host path; … never a fall-back to the host path"."""
    assert route_activation(None, None) == HostPath()
    assert route_activation("s-9", None) == SessionPath("s-9")
    assert route_activation("", "task-7") == SessionPath("")
    refused = route_activation(None, "task-7")
    assert refused == Refusal(
        409,
        RefusalCode.SESSION_NOT_OPEN,
        "Rollout 'task-7' was asked for without a session's cookie. Seed a session first.",
    )


# Close.


def test_closing_an_unknown_id_succeeds_and_refuses_late_seeds_for_the_window() -> None:
    """WIRE.md: "Closing an unknown id succeeds …, and for the next … refuses a late seed of that id"."""
    closed, answered = step(Absent(), close_asked(now_s=10.0), window_s=close_window(50.0).unwrap())
    assert answered == ReturnClose(None)
    for now_s in (10.0, 59.9, -1e9):
        assert code_of(closed, seed_asked(now_s=now_s)) is RefusalCode.SESSION_CLOSED
    assert step(closed, seed_asked(now_s=60.0))[0] == Seeding(SEED)


@pytest.mark.parametrize("value_s", [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, -1.0, 1e10])
def test_a_window_that_no_receipt_could_be_kept_for_is_refused_by_name(value_s: float) -> None:
    message = close_window(value_s).failure().message
    assert message.startswith(
        f"session_close_retry_window_seconds is {value_s!r} s: give a number of seconds"
    )


@given(st.floats())
def test_every_window_that_is_taken_ends(value_s: float) -> None:
    """Law: a close receipt is kept for some time and not for ever, whatever was configured."""
    window = close_window(value_s).value_or(None)
    if window is None:
        assert not 0 < value_s <= 1e9
        return
    closed, _ = step(Absent(), close_asked(now_s=0.0), window_s=window)
    assert step(closed, close_asked(now_s=0.0))[0] == closed
    assert current(closed, value_s) == Absent()


def test_a_close_again_gets_the_same_answer_and_does_not_extend_the_window() -> None:
    """WIRE.md: "A successful close is retained for the same window: the same request … the same answer"."""
    for answer in (BODY, None):
        closed: SessionState = Closed(EPISODE, answer, until_s=300.0)
        assert step(closed, close_asked(now_s=299.0)) == (closed, ReturnClose(answer))
        assert step(closed, close_asked(now_s=300.0))[1] == ReturnClose(None)


def test_a_close_during_activation_ends_the_run_whose_callers_still_get_their_answer() -> None:
    """WIRE.md: "Close during an activation stops the harness …, collects what was written, then releases"."""
    closing, release = step(Active(SEED, "request-1"), close_asked())
    assert release == Release(Ending.RUN)
    closing, answered = step(closing, RunEnded(ANSWER))
    assert answered == ReturnAnswer(ANSWER)
    assert step(closing, Released(BODY, 0.0))[1] == ReturnClose(BODY)


def test_two_closes_at_once_share_one_release() -> None:
    for ending in Ending:
        closing = Closing(SEED, ending)
        assert step(closing, close_asked()) == (closing, Do(Move.JOIN_CLOSE))


def test_a_failed_close_keeps_the_session_marked_closing_for_another_try() -> None:
    """WIRE.md: "A failed close keeps the session, marked closing, for another try"."""
    failed, told = step(Closing(SEED, Ending.RUN), ReleaseFailed("daemon gone"))
    assert told == Fail(Move.FAIL_CLOSE, "daemon gone")
    assert code_of(failed, seed_asked()) is RefusalCode.SESSION_CLOSING
    assert code_of(failed, activation()) is RefusalCode.SESSION_CLOSING
    assert step(failed, close_asked()) == (Closing(SEED, Ending.RUN), Release(Ending.RUN))


def test_a_retry_does_not_wait_for_a_run_that_ended_between_two_tries() -> None:
    failed = CloseFailed(SEED, Ending.RUN, "daemon gone")
    failed_now, answered = step(failed, RunEnded(ANSWER))
    assert answered == ReturnAnswer(ANSWER)
    assert step(failed_now, close_asked())[1] == Release(Ending.NOTHING)


@pytest.mark.parametrize("now_s", [float("-inf"), -1.0, 0.0, 299.999])
def test_a_receipt_is_kept_until_its_window_ends(now_s: float) -> None:
    closed = Closed(EPISODE, BODY, until_s=300.0)
    assert current(closed, now_s) == closed


@pytest.mark.parametrize("now_s", [300.0, 301.0, float("inf")])
def test_a_receipt_is_gone_when_its_window_has_ended(now_s: float) -> None:
    assert current(Closed(EPISODE, BODY, until_s=300.0), now_s) == Absent()
