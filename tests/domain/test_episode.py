"""Names on the wire, and whether two requests are equal (WIRE.md "Seed")."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.domain.episode import (
    MAX_ATTEMPT,
    EpisodeId,
    FieldFailure,
    TaskId,
    parse_attempt,
    parse_capture_key,
    parse_episode,
    parse_filled_text,
    parse_name,
    parse_rollout_id,
    parse_task,
    parse_tool_names,
)
from clinebox.domain.fingerprint import fingerprint
from clinebox.domain.json_value import JsonValue

TEXT = st.text(st.characters(), max_size=20)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True)
NAMES_LIKE_KEYS = st.builds("{}-a{}".format, NAMES, st.integers(0, 99) | st.just("01"))
ATTEMPTS = st.integers(0, 3) | st.integers(0, MAX_ATTEMPT)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(NAMES | NAMES_LIKE_KEYS, ATTEMPTS)
def test_an_episode_and_its_capture_key_are_each_other_s_only_name(rollout_id: str, attempt: int) -> None:
    """WIRE.md: "the mapping goes both ways"."""
    parsed = parse_episode({"rollout_id": rollout_id, "attempt": attempt})
    if is_successful(parsed):
        assert parsed.unwrap() == EpisodeId(rollout_id, attempt)
        assert parse_capture_key(parsed.unwrap().capture_key) == parsed
    else:
        assert parsed.failure().field == "episode_id.rollout_id"


@given(NAMES | NAMES_LIKE_KEYS | TEXT)
def test_a_capture_key_that_names_an_episode_is_that_episode_s_key(key: str) -> None:
    """WIRE.md: "the mapping goes both ways"."""
    parsed = parse_capture_key(key)
    if is_successful(parsed):
        assert parsed.unwrap().capture_key == key


@pytest.mark.parametrize(
    ("key", "episode"),
    [
        ("task-7", EpisodeId("task-7")),
        ("task-7-a1", EpisodeId("task-7", 1)),
        ("task-7-a10", EpisodeId("task-7", 10)),
        ("task-a0", EpisodeId("task-a0")),
        ("task-a01", EpisodeId("task-a01")),
        ("task-a", EpisodeId("task-a")),
        ("a1", EpisodeId("a1")),
        ("x-A1", EpisodeId("x-A1")),
        (f"x-a{MAX_ATTEMPT}", EpisodeId("x", MAX_ATTEMPT)),
    ],
)
def test_a_capture_key_tells_rollout_and_attempt(key: str, episode: EpisodeId) -> None:
    assert parse_capture_key(key).unwrap() == episode
    assert episode.capture_key == key


@pytest.mark.parametrize(
    "key",
    [
        "",
        "-a1",
        "x-a1-a2",
        "x y-a1",
        "x-a1\n",
        "x\n-a1",
        "é-a1",
        f"x-a{MAX_ATTEMPT + 1}",
        "x-a" + "9" * 5_000,
    ],
)
def test_what_is_no_episode_s_capture_key_is_refused(key: str) -> None:
    failure = parse_capture_key(key).failure()
    assert failure.field == "capture key"
    assert len(failure.message) < 250


@pytest.mark.parametrize("name", ["a", "0", "A-z_9.x", "task-a0", "task-a01", "task-a", "x" * 10_000])
def test_a_rollout_id_is_a_name(name: str) -> None:
    assert parse_rollout_id(name).unwrap() == name


@pytest.mark.parametrize(
    "value",
    [
        "",
        "-a",
        ".x",
        "_x",
        "a b",
        "a/b",
        "a\n",
        "\na",
        "é",
        "a\x00",
        "x-a1",
        "x-a99",
        None,
        1,
        True,
        ["a"],
        {"a": 1},
    ],
)
def test_anything_else_is_no_rollout_id(value: JsonValue) -> None:
    """WIRE.md: "`rollout_id` matches … and may not end in `-a<N>`"; a line end does not slip past `$`."""
    failure = parse_rollout_id(value, "episode_id.rollout_id").failure()
    assert failure.field == "episode_id.rollout_id"
    assert failure.message.startswith("episode_id.rollout_id m")


def test_a_refused_name_says_the_rule_and_the_value() -> None:
    assert parse_name("a b", "tool_accesses[0].name").failure() == FieldFailure(
        "tool_accesses[0].name",
        "tool_accesses[0].name must start with a letter or digit and hold only letters, digits, '.', '_' and"
        " '-'; given was \"a b\"",
    )


@pytest.mark.parametrize(
    "value", [-1, MAX_ATTEMPT + 1, 10**4_000, True, False, 1.0, "1", None, [], {}, float("nan")]
)
def test_an_attempt_is_an_integer_from_zero(value: JsonValue) -> None:
    assert parse_attempt(value).failure().field == "attempt"


def test_a_number_that_python_would_not_even_print_is_no_attempt() -> None:
    assert "an integer of 16610 bits" in parse_attempt(10**5_000).failure().message


@pytest.mark.parametrize("value", [0, 1, MAX_ATTEMPT])
def test_an_attempt_may_be_any_exact_integer(value: int) -> None:
    assert parse_attempt(value).unwrap() == value


def test_the_attempt_is_zero_by_default() -> None:
    assert parse_episode({"rollout_id": "r"}).unwrap() == EpisodeId("r", 0)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, "episode_id"),
        ([], "episode_id"),
        ("r", "episode_id"),
        ({}, "episode_id.rollout_id"),
        ({"attempt": 1}, "episode_id.rollout_id"),
        ({"rollout_id": "r", "attempt": None}, "episode_id.attempt"),
        ({"rollout_id": "r", "tries": 1}, "episode_id.tries"),
    ],
)
def test_an_episode_names_the_field_that_is_wrong(value: JsonValue, field: str) -> None:
    """WIRE.md: every model "refuses unknown fields, with 422 and the field's name"."""
    assert parse_episode(value).failure().field == field


def test_session_and_task_ids_are_any_text_that_is_not_empty() -> None:
    assert parse_filled_text(" \n").unwrap() == " \n"
    assert parse_task({"taskset": "tb", "task_id": "é/1"}).unwrap() == TaskId("tb", "é/1")


@pytest.mark.parametrize("value", ["", None, 0, [], {}])
def test_an_empty_id_is_refused(value: JsonValue) -> None:
    assert parse_filled_text(value).failure().field == "agent_session_id"
    assert parse_task({"taskset": value, "task_id": "t"}).failure().field == "task_id.taskset"
    assert parse_task({"taskset": "s", "task_id": value}).failure().field == "task_id.task_id"
    assert parse_task(value).failure().field.startswith("task_id")


def test_tool_names_are_unique_in_a_session() -> None:
    """WIRE.md: "names unique in the session"."""
    assert parse_tool_names(["a", "A", "a.b"]).unwrap() == ("a", "A", "a.b")
    assert parse_tool_names([]).unwrap() == ()
    assert parse_tool_names(["a", "b", "a"]).failure() == FieldFailure(
        "tool_accesses[2].name", 'tool_accesses[2].name stands in the session twice; given was "a"'
    )
    assert parse_tool_names(["a", ""]).failure().field == "tool_accesses[1].name"


def nested(depth: int, core: JsonValue) -> JsonValue:
    value = core
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


@given(JSON)
def test_any_json_gives_a_value_or_a_failure(value: JsonValue) -> None:
    """Any JSON value of any depth gives a value or a Failure, never an exception."""
    for parsed in (
        parse_episode(value),
        parse_task(value),
        parse_name(value),
        parse_tool_names([value, value]),
        parse_episode({"rollout_id": value, "attempt": value}),
    ):
        if not is_successful(parsed):
            assert parsed.failure().message


def test_any_depth_gives_a_failure_and_a_fingerprint() -> None:
    deep = nested(100_000, 1)
    assert "nested too deeply" in parse_name(deep).failure().message
    assert fingerprint(deep) == fingerprint(nested(100_000, 1))
    assert fingerprint(deep) != fingerprint(nested(100_000, 2))


@given(JSON, JSON)
def test_equal_bodies_have_equal_fingerprints_and_others_have_not(left: JsonValue, right: JsonValue) -> None:
    """WIRE.md: "the same id with an equal body"; equal is what equals as JSON, member order aside."""
    told = [json.dumps(value, sort_keys=True, ensure_ascii=False) for value in (left, right)]
    assert (fingerprint(left) == fingerprint(right)) == (told[0] == told[1])
    assert len(fingerprint(left)) == 64


@given(st.dictionaries(TEXT, JSON, max_size=5))
def test_the_order_of_members_does_not_count(value: dict[str, JsonValue]) -> None:
    assert fingerprint(dict(reversed(value.items()))) == fingerprint(value)


def test_values_that_python_takes_for_equal_are_told_apart() -> None:
    values: list[JsonValue] = [
        1,
        1.0,
        True,
        "1",
        [1],
        {"1": 1},
        None,
        "",
        [],
        {},
        [[]],
        ["", ""],
        [""],
        10**5_000,
    ]
    assert len({fingerprint(value) for value in values}) == len(values)
