"""Two seeds, two activations and two closes in every order, with every end of their work in every place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

import pytest

from clinebox.domain.episode import EpisodeId
from clinebox.domain.session import step
from clinebox.domain.session_model import (
    Absent,
    ActivationRequested,
    Closed,
    CloseFailed,
    CloseRequested,
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

EPISODE = EpisodeId("task-7")
SEED = Seed("s-1", EPISODE, "body-1")
ANSWER = StoredAnswer(200, b"answer")
SETUP_ENDS: tuple[SessionEvent, ...] = (
    SetupDone(),
    SetupRefused("why"),
    SetupFailed("why", undone=True),
    SetupFailed("why", undone=False),
)
RELEASE_ENDS: tuple[SessionEvent, ...] = (Released(b"observations", 0.0), ReleaseFailed("why"))


@dataclass(frozen=True)
class World:
    """A driver of one session, as a value: what was sent, what runs, who waits, who got which answer."""

    state: SessionState = field(default_factory=Absent)
    unsent: frozenset[str] = frozenset()
    asks_again: frozenset[str] = frozenset()
    setup_for: str | None = None
    run_for: frozenset[str] = frozenset()
    release_for: frozenset[str] = frozenset()
    runs: int = 0
    close_was_taken: bool = False
    answers: frozenset[tuple[str, Effect | Refusal]] = frozenset()

    @property
    def rests(self) -> bool:
        return not (self.unsent or self.setup_for or self.run_for or self.release_for)


def sent(world: World, name: str, event: SessionEvent) -> World:
    """The world after a request: its work started or joined, or its answer given."""
    state, outcome = step(world.state, event)
    assert_sound(world, outcome)
    closes = isinstance(event, CloseRequested) and not isinstance(outcome, Refusal)
    world = replace(world, state=state, close_was_taken=world.close_was_taken or closes)
    match outcome:
        case Do(move=Move.START_SETUP):
            return replace(world, setup_for=name)
        case Do(move=Move.AWAIT_SETUP):
            return replace(world, asks_again=world.asks_again | {name})
        case Do(move=Move.START_RUN | Move.JOIN_RUN):
            started = outcome == Do(Move.START_RUN)
            return replace(world, run_for=world.run_for | {name}, runs=world.runs + started)
        case Release() | Do(move=Move.JOIN_CLOSE):
            return replace(world, release_for=world.release_for | {name})
        case _:
            return answered(world, frozenset({name}), outcome)


def assert_sound(world: World, outcome: Effect | Refusal) -> None:
    """No work is started twice or after a close, and none is joined that does not run."""
    match outcome:
        case Do(move=Move.START_SETUP | Move.START_RUN):
            assert running(world) is Ending.NOTHING
            assert not world.release_for
            assert not world.close_was_taken
        case Do(move=Move.AWAIT_SETUP):
            assert world.setup_for
        case Do(move=Move.JOIN_RUN):
            assert world.run_for
        case Do(move=Move.JOIN_CLOSE):
            assert world.release_for
        case Release():
            assert not world.release_for
            assert outcome.ending is running(world)
        case _:
            pass


def running(world: World) -> Ending:
    if world.setup_for:
        return Ending.SETUP
    return Ending.RUN if world.run_for else Ending.NOTHING


def answered(world: World, names: frozenset[str], outcome: Effect | Refusal) -> World:
    assert outcome != Do(Move.IGNORE)
    assert not names & {name for name, _ in world.answers}, "answered twice"
    return replace(world, answers=world.answers | {(name, outcome) for name in names})


def after(world: World, requests: Mapping[str, SessionEvent]) -> Iterator[World]:
    """Every world that can come next."""
    for name in world.unsent:
        yield sent(replace(world, unsent=world.unsent - {name}), name, requests[name])
    if world.setup_for is not None:
        for end in SETUP_ENDS:
            yield from setup_ended(world, world.setup_for, end, requests)
    if world.run_for:
        state, outcome = step(world.state, RunEnded(ANSWER))
        yield answered(replace(world, state=state, run_for=frozenset()), world.run_for, outcome)
    if world.release_for and not world.setup_for and not world.run_for:
        for end in RELEASE_ENDS:
            state, outcome = step(world.state, end)
            yield answered(replace(world, state=state, release_for=frozenset()), world.release_for, outcome)


def setup_ended(
    world: World, seeder: str, end: SessionEvent, requests: Mapping[str, SessionEvent]
) -> Iterator[World]:
    """The seeder's answer; who waited asks again, in any order."""
    state, outcome = step(world.state, end)
    ended = answered(replace(world, state=state, setup_for=None), frozenset({seeder}), outcome)
    if not ended.asks_again:
        yield ended
    for name in ended.asks_again:
        yield sent(replace(ended, asks_again=ended.asks_again - {name}), name, requests[name])


def every_world(requests: Mapping[str, SessionEvent]) -> set[World]:
    start = World(unsent=frozenset(requests))
    seen, waiting = {start}, [start]
    while waiting:
        fresh = set(after(waiting.pop(), requests)) - seen
        seen |= fresh
        waiting.extend(fresh)
    return seen


def requests_of(*, same_body: bool, same_request: bool, same_episode: bool) -> dict[str, SessionEvent]:
    return {
        "seed 1": SeedRequested(SEED, 0.0),
        "seed 2": SeedRequested(SEED if same_body else replace(SEED, fingerprint="body-2"), 0.0),
        "activation 1": ActivationRequested("s-1", "request-1", 0.0),
        "activation 2": ActivationRequested("s-1", "request-1" if same_request else "request-2", 0.0),
        "close 1": CloseRequested("s-1", EPISODE, 0.0),
        "close 2": CloseRequested("s-1", EPISODE if same_episode else EpisodeId("task-8"), 0.0),
    }


@pytest.mark.parametrize(
    ("same_body", "same_request", "same_episode"), list(product((True, False), repeat=3))
)
def test_every_interleaving_of_two_seeds_two_activations_and_two_closes_is_sound(
    same_body: bool,  # noqa: FBT001 - pytest passes it by name
    same_request: bool,  # noqa: FBT001
    same_episode: bool,  # noqa: FBT001
) -> None:
    """Issue: "all interleavings of two seeds, two activations, two closes".

    In every history there is one setup at a time, one run at all, one release at a time, and nothing is
    started after a close; every request gets exactly one answer, and what was joined gets the same one.
    """
    requests = requests_of(same_body=same_body, same_request=same_request, same_episode=same_episode)
    worlds = every_world(requests)
    ends = [world for world in worlds if world.rests]
    assert len(ends) > 50
    for world in worlds:
        assert world.runs <= 1
    for world in ends:
        assert not world.asks_again
        given = dict(world.answers)
        assert set(given) == set(requests)
        runs = {answer for answer in given.values() if isinstance(answer, ReturnAnswer)}
        closes = {answer for answer in given.values() if isinstance(answer, ReturnClose)}
        assert runs <= {ReturnAnswer(ANSWER)}
        assert len(closes) <= 1
        assert isinstance(world.state, Closed | CloseFailed)
        assert isinstance(world.state, Closed) == bool(closes)
        if isinstance(world.state, CloseFailed):
            assert Fail(Move.FAIL_CLOSE, "why") in given.values()


def test_equal_requests_meet_a_happy_end_in_some_history() -> None:
    worlds = every_world(requests_of(same_body=True, same_request=True, same_episode=True))
    happy = {
        ("seed 1", Do(Move.RETURN_SESSION)),
        ("seed 2", Do(Move.RETURN_SESSION)),
        ("activation 1", ReturnAnswer(ANSWER)),
        ("activation 2", ReturnAnswer(ANSWER)),
        ("close 1", ReturnClose(b"observations")),
        ("close 2", ReturnClose(b"observations")),
    }
    assert any(world.answers == happy for world in worlds)
