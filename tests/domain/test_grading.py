from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful
from returns.result import Success

from clinebox.domain.grading import Exited, NotRun, TimedOut, VerifierEnd, grade

BY_ITSELF = st.integers(0, 125).map(Exited)
NOT_BY_ITSELF: st.SearchStrategy[VerifierEnd] = st.one_of(
    st.integers(126, 255).map(Exited),
    st.integers(-64, -1).map(Exited),
    st.floats(0.1, 10_000).map(TimedOut),
    st.text().map(NotRun),
)
FILE = (
    st.none() | st.binary(max_size=200) | st.sampled_from([b"0", b"1", b"nan", b"inf", b'{"reward": 0}', b""])
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def sentence(end: VerifierEnd, *, reward_txt: bytes | None = None, reward_json: bytes | None = None) -> str:
    graded = grade(end, reward_txt=reward_txt, reward_json=reward_json)
    assert not is_successful(graded), graded
    return graded.failure().message


def test_exit_0_without_a_file_is_1() -> None:
    assert grade(Exited(0)) == Success(1.0)


@pytest.mark.parametrize("code", range(1, 126))
def test_exit_1_to_125_without_a_file_is_0(code: int) -> None:
    assert grade(Exited(code)) == Success(0.0)


@pytest.mark.parametrize("code", [126, 127, 128, *range(129, 256), -9])
def test_an_exit_code_that_is_not_the_verifiers_own_is_an_error(code: int) -> None:
    assert str(code) in sentence(Exited(code))


def test_a_command_that_was_not_found_says_so() -> None:
    assert "not found" in sentence(Exited(127))


def test_a_signal_is_named_by_its_number() -> None:
    assert "signal 9" in sentence(Exited(137))
    assert "signal 15" in sentence(Exited(-15))


def test_an_exit_code_past_the_signals_says_neither_yes_nor_no() -> None:
    assert "neither yes" in sentence(Exited(128))
    assert "neither yes" in sentence(Exited(255))


def test_a_timeout_names_its_limit_and_the_way_on() -> None:
    assert sentence(TimedOut(600)) == (
        "the verifier did not end within 600 s; raise --verify-timeout or shorten it"
    )


def test_a_verifier_that_was_not_run_says_why() -> None:
    assert sentence(NotRun("the sandbox was gone")) == "the verifier was not run: the sandbox was gone"


@pytest.mark.parametrize(
    ("content", "reward"),
    [
        (b"1", 1.0),
        (b"0\n", 0.0),
        (b" 0.5\r\n", 0.5),
        (b"-2", -2.0),
        (b"+1.", 1.0),
        (b".25", 0.25),
        (b"1e-3", 0.001),
    ],
)
def test_a_number_in_reward_txt_is_the_reward_whatever_the_exit_code(content: bytes, reward: float) -> None:
    assert grade(Exited(0), reward_txt=content) == Success(reward)
    assert grade(Exited(1), reward_txt=content) == Success(reward)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\n", b"nan", b"NaN", b"inf", b"-Infinity", b"1e999", b"one", b"1 2", b"1\n0", b"0x1", b"1_0",
        b"1,0", b"true", b"\x00", b"\xff\xfe1\x00", b"1\x00", "\u0661".encode(),
        b"0" * 70_000, b'{"reward": 1}',
    ],
)  # fmt: skip
def test_a_reward_txt_without_a_finite_number_is_an_error_and_never_0(content: bytes) -> None:
    assert sentence(Exited(0), reward_txt=content).startswith("reward.txt ")
    assert sentence(Exited(1), reward_txt=content, reward_json=b"1").startswith("reward.txt ")


@pytest.mark.parametrize(
    ("content", "reward"),
    [(b"1", 1.0), (b"0.5", 0.5), (b'{"reward": 1}', 1.0), (b'{"reward": -0.5, "more": []}', -0.5)],
)
def test_a_number_in_reward_json_is_the_reward(content: bytes, reward: float) -> None:
    assert grade(Exited(3), reward_json=content) == Success(reward)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"NaN", b"Infinity", b'{"reward": NaN}', b'{"reward": 1e999}', b"1" * 400, b"1" * 5000, b"true",
        b'{"reward": true}', b'{"reward": "1"}', b'{"reward": null}', b"{}", b"[1]", b'"1"', b"{",
        b"[" * 30_000, b" " * 70_000, b"\xff",
    ],
)  # fmt: skip
def test_a_reward_json_without_a_finite_number_is_an_error_and_never_0(content: bytes) -> None:
    assert sentence(Exited(0), reward_json=content).startswith("reward.json ")


def test_reward_txt_is_read_before_reward_json() -> None:
    assert grade(Exited(0), reward_txt=b"0.25", reward_json=b"0.75") == Success(0.25)


def test_hostile_bytes_are_quoted_as_ascii_and_bounded() -> None:
    said = sentence(Exited(0), reward_txt=b"\x1b[31m\xe2\x80\xae" + b"x" * 1000)
    assert said.isascii() is False  # the cut's own sign
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert len(said) < 200


@given(end=NOT_BY_ITSELF, txt=FILE, js=FILE)
def test_no_end_but_an_exit_of_0_to_125_gives_a_reward(
    end: VerifierEnd, txt: bytes | None, js: bytes | None
) -> None:
    """126, 127, a signal, the verifier's timeout … is `verifier_error`, never 0."""
    assert sentence(end, reward_txt=txt, reward_json=js)


@given(end=st.one_of(BY_ITSELF, NOT_BY_ITSELF), txt=FILE, js=FILE)
def test_a_reward_is_always_finite_and_nothing_is_ever_raised(
    end: VerifierEnd, txt: bytes | None, js: bytes | None
) -> None:
    """NaN or a malformed file is `verifier_error`."""
    graded = grade(end, reward_txt=txt, reward_json=js)
    assert not is_successful(graded) or math.isfinite(graded.unwrap())


@given(end=BY_ITSELF, number=FINITE)
def test_every_finite_number_comes_back_from_either_file(end: Exited, number: float) -> None:
    """A finite number in `/logs/verifier/reward.txt` or `reward.json` is the reward."""
    assert grade(end, reward_txt=repr(number).encode()) == Success(number)
    assert grade(end, reward_json=json.dumps(number).encode()) == Success(number)
    assert grade(end, reward_json=json.dumps({"reward": number}).encode()) == Success(number)


def test_only_white_space_is_taken_off_a_reward() -> None:
    assert grade(Exited(0), reward_txt=b" \t1\r\n") == Success(1.0)
    assert "'X1'" in sentence(Exited(0), reward_txt=b"X1")


def test_a_reward_is_marked_as_cut_only_where_it_is() -> None:
    assert sentence(Exited(0), reward_txt=b"x" * 60).endswith(f"'{'x' * 60}'")
    assert sentence(Exited(0), reward_txt=b"x" * 61).endswith("…")


def test_an_exit_code_stands_in_a_whole_sentence() -> None:
    said = sentence(Exited(255))
    assert said == "the verifier ended with exit code 255, which says neither yes (0) nor no (1 to 125)"
