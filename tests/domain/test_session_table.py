"""The session's transition table: whole, followed, and shown in the documentation (WIRE.md)."""

from __future__ import annotations

import doctest
from itertools import product
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from clinebox.domain.episode import EpisodeId
from clinebox.domain.session import current, read, step
from clinebox.domain.session_model import (
    Absent,
    ActivationRequested,
    Active,
    Closed,
    CloseFailed,
    CloseRequested,
    Closing,
    Do,
    Ending,
    Finished,
    Open,
    Partial,
    Refusal,
    Released,
    ReleaseFailed,
    RunEnded,
    Seed,
    Seeding,
    SeedRequested,
    SessionEvent,
    SessionState,
    SetupDone,
    SetupFailed,
    SetupRefused,
    StoredAnswer,
)
from clinebox.domain.session_table import ROWS, TABLE, Move, RefusalCode, StateKind, diagram, rule, rule_list

DOCUMENT = Path(__file__).parents[2] / "docs" / "session.md"
EPISODE = EpisodeId("task-7", 2)
OTHER_EPISODE = EpisodeId("task-7", 3)
SEED = Seed("s-1", EPISODE, "body-1")
OTHER_BODY = Seed("s-1", EPISODE, "body-2")
ANSWER = StoredAnswer(200, b'{"object":"response"}')
BODY = b'{"agent_session_id":"s-1"}'
LATER = 1_000.0

STATES: list[SessionState] = [
    Absent(),
    Seeding(SEED),
    Open(SEED),
    Partial(SEED, "half way"),
    Active(SEED, "request-1"),
    Finished(SEED, "request-1", ANSWER),
    *(Closing(SEED, ending) for ending in Ending),
    *(CloseFailed(SEED, ending, "daemon gone") for ending in Ending),
    Closed(EPISODE, BODY, LATER),
    Closed(EPISODE, None, LATER),
]
REQUESTS: list[SessionEvent] = [
    *(SeedRequested(seed, 0.0, cookie) for seed, cookie in product((SEED, OTHER_BODY), (None, "s-1", "s-2"))),
    *(
        ActivationRequested("s-1", request, 0.0, key)
        for request, key in product(("request-1", "request-2"), (None, "task-7-a2", "task-7"))
    ),
    CloseRequested("s-1", EPISODE, 0.0),
    CloseRequested("s-1", OTHER_EPISODE, 0.0),
]
REPORTS: list[SessionEvent] = [
    SetupDone(),
    SetupRefused("no pinned cline_version"),
    SetupFailed("no disk", undone=True),
    SetupFailed("no disk", undone=False),
    RunEnded(ANSWER),
    Released(BODY, 0.0),
    ReleaseFailed("daemon gone"),
]


def code_of(state: SessionState, event: SessionEvent) -> RefusalCode | None:
    outcome = step(state, event)[1]
    return outcome.code if isinstance(outcome, Refusal) else None


def test_no_two_rows_speak_of_the_same_event_in_the_same_state() -> None:
    assert len(TABLE) == len(ROWS)


@pytest.mark.parametrize("state", STATES, ids=str)
def test_every_event_leads_where_the_table_says(state: SessionState) -> None:
    """Issue: "Session rules (WIRE.md) as a transition table"; states and events are closed unions."""
    for event in REQUESTS + REPORTS:
        row = rule(state.kind, read(state, event))
        entered, outcome = step(state, event)
        assert entered.kind is row.target
        if isinstance(row.outcome, RefusalCode):
            assert isinstance(outcome, Refusal)
            assert (outcome.code, outcome.http_status) == (
                row.outcome,
                422 if row.outcome == "seed_rejected" else 409,
            )


@pytest.mark.parametrize("state", STATES, ids=str)
def test_no_request_is_ignored_and_a_refused_one_changes_nothing(state: SessionState) -> None:
    for event in REQUESTS:
        entered, outcome = step(state, event)
        assert outcome != Do(Move.IGNORE)
        if isinstance(outcome, Refusal):
            assert entered == state
            assert outcome.message.isprintable()


@pytest.mark.parametrize("state", STATES, ids=str)
def test_a_report_of_work_that_nobody_started_changes_nothing(state: SessionState) -> None:
    for event in REPORTS:
        entered, outcome = step(state, event)
        if outcome == Do(Move.IGNORE):
            assert entered == state


def test_every_row_of_the_table_is_met_by_some_event() -> None:
    met = {(state.kind, read(state, event)) for state in STATES for event in REQUESTS + REPORTS}
    assert {(row.state, row.event) for row in ROWS} == met & set(TABLE)


def test_every_state_is_entered_and_left() -> None:
    moved = {(row.state, row.target) for row in ROWS if row.state != row.target}
    assert {target for _, target in moved} == set(StateKind)
    assert {source for source, _ in moved} == set(StateKind) - {StateKind.CLOSED}


def test_the_documentation_shows_the_table() -> None:
    """Issue: "the docs' diagram is generated from the table and checked"."""
    text = DOCUMENT.read_text(encoding="utf-8")
    assert f"```mermaid\n{diagram()}\n```\n" in text, f"docs/session.md must hold:\n{diagram()}"
    assert f"\n\n{rule_list()}\n\n" in text, f"docs/session.md must hold:\n{rule_list()}"


def test_every_refusal_has_its_sentence(snapshot: SnapshotAssertion) -> None:
    told = {
        outcome.code.value: f"{outcome.http_status}: {outcome.message}"
        for state in STATES
        for event in REQUESTS + REPORTS
        if isinstance(outcome := step(state, event)[1], Refusal)
    }
    assert set(told) == {code.value for code in RefusalCode}
    assert dict(sorted(told.items())) == snapshot


@pytest.mark.parametrize("state", STATES, ids=str)
def test_a_cookie_that_names_another_session_is_a_conflict_in_every_state(state: SessionState) -> None:
    """WIRE.md: "A cookie that names another session: 409"."""
    assert code_of(state, SeedRequested(SEED, 0.0, "s-2")) is RefusalCode.FOREIGN_COOKIE


def test_a_close_of_another_episode_is_a_conflict_wherever_one_is_known() -> None:
    """WIRE.md: "`AgentCloseSessionRequest` …; another episode: 409"."""
    for state in STATES:
        expected = None if isinstance(state, Absent) else RefusalCode.EPISODE_MISMATCH
        assert code_of(state, CloseRequested("s-1", OTHER_EPISODE, 0.0)) is expected


@pytest.mark.parametrize("state", [state for state in STATES if not isinstance(state, Closed)], ids=str)
def test_nothing_but_a_receipt_expires(state: SessionState) -> None:
    assert current(state, float("inf")) == state


def test_the_documentation_s_example_is_true() -> None:
    result = doctest.testfile(str(DOCUMENT), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
