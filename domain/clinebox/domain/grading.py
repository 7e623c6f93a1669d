"""From how a verifier ended and what it wrote, to a reward or a typed error; never a zero by accident.

Source: SPEC §13. The files are `/logs/verifier/reward.txt` and `reward.json`, emptied before the verifier
starts, so what stands in them is the verifier's own.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.domain.json_value import JsonValue, parse_json

VERIFIER_ERROR_KIND: Final = "verifier_error"
"""The failure kind of WIRE.md."""

REWARD_LIMIT_BYTES: Final = 64 * 1024
"""A reward file is one number; anything longer is not one."""

LAST_FAILING_EXIT_CODE: Final = 125
"""1 to 125 is the verifier's own "no"; 126 and 127 mean "could not be run" (bash(1), EXIT STATUS)."""

SIGNAL_BASE: Final = 128
"""128+N is what a shell reports of a command ended by the signal N."""

LAST_SIGNAL: Final = 64
"""Linux's SIGRTMAX (signal(7))."""

EXCERPT_LIMIT: Final = 60

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Exited:
    """The verifier ended with this code, 0 to 255; 128+N is the signal N."""

    exit_code: int


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The verifier's own bound ended it."""

    limit_s: float


@dataclass(frozen=True, slots=True)
class NotRun:
    """The verifier could not be started or watched; `why` is a sentence for people."""

    why: str


VerifierEnd: TypeAlias = Exited | TimedOut | NotRun


@dataclass(frozen=True, slots=True)
class VerifierError:
    """Why there is no reward, in a sentence for people."""

    message: str


def grade(
    end: VerifierEnd, *, reward_txt: bytes | None = None, reward_json: bytes | None = None
) -> Result[float, VerifierError]:
    """The reward of a run: a finite number from a reward file, else 1.0 for exit 0 and 0.0 for 1 to 125.

    A file counts only beside an exit of 0 to 125: a verifier that was killed, timed out or could not run a
    command (126, 127) may have left the number that it meant to replace. `reward.txt` is read first, and
    `reward.json` only where there is no `reward.txt`.

    Failure(VerifierError) when the verifier did not end by itself with 0 to 125, or when the file that
    counts holds no finite number (NaN, infinity, empty, malformed, over 64 KiB).

    >>> grade(Exited(0)), grade(Exited(1), reward_txt=b"0.25"), grade(Exited(2))
    (<Success: 1.0>, <Success: 0.25>, <Success: 0.0>)
    """
    return _own_exit_code(end).bind(lambda code: _reward(code, reward_txt, reward_json))


def _own_exit_code(end: VerifierEnd) -> Result[int, VerifierError]:
    match end:
        case TimedOut(limit_s):
            return _error(
                f"the verifier did not end within {limit_s:g} s; raise --verify-timeout or shorten it"
            )
        case NotRun(why):
            return _error(f"the verifier was not run: {why}")
        case Exited(code):
            return _judged_exit_code(code)
        case _:
            assert_never(end)


def _judged_exit_code(code: int) -> Result[int, VerifierError]:
    if 0 <= code <= LAST_FAILING_EXIT_CODE:
        return Success(code)
    number = -code if code < 0 else code - SIGNAL_BASE
    if 0 < number <= LAST_SIGNAL:
        return _error(f"the verifier was ended by signal {number} (exit code {code})")
    if LAST_FAILING_EXIT_CODE < code < SIGNAL_BASE:
        return _error(
            f"the verifier ended with exit code {code}: a command could not be run, or was not found"
        )
    return _error(f"the verifier ended with exit code {code}, which says neither yes (0) nor no (1 to 125)")


def _reward(
    exit_code: int, reward_txt: bytes | None, reward_json: bytes | None
) -> Result[float, VerifierError]:
    if reward_txt is not None:
        return _from_text(reward_txt)
    if reward_json is not None:
        return _from_json(reward_json)
    return Success(1.0 if exit_code == 0 else 0.0)


def _from_text(content: bytes) -> Result[float, VerifierError]:
    if len(content) > REWARD_LIMIT_BYTES:
        return _too_long("reward.txt", content)
    text = content.decode("ascii", "replace").strip(" \t\r\n")
    if not _NUMBER.fullmatch(text):
        return _error(f"reward.txt holds no finite number: {_excerpt(content)}")
    return _finite("reward.txt", float(text), content)


def _from_json(content: bytes) -> Result[float, VerifierError]:
    if len(content) > REWARD_LIMIT_BYTES:
        return _too_long("reward.json", content)
    parsed = parse_json(content)
    if not is_successful(parsed):
        return _error(f"reward.json is not JSON ({parsed.failure()}): {_excerpt(content)}")
    number = _number_of(parsed.unwrap())
    if number is None:
        return _error(f'reward.json is neither a number nor {{"reward": number}}: {_excerpt(content)}')
    return _finite("reward.json", number, content)


def _number_of(value: JsonValue) -> float | None:
    """A bare number or the member `reward`; `true` is none, and one too large for a float is infinite."""
    candidate = value.get("reward") if isinstance(value, dict) else value
    if isinstance(candidate, bool) or not isinstance(candidate, int | float):
        return None
    try:
        return float(candidate)
    except OverflowError:
        return math.inf


def _finite(name: str, number: float, content: bytes) -> Result[float, VerifierError]:
    if not math.isfinite(number):
        return _error(f"{name} holds no finite number: {_excerpt(content)}")
    return Success(number)


def _too_long(name: str, content: bytes) -> Result[float, VerifierError]:
    return _error(f"{name} is longer than {REWARD_LIMIT_BYTES} bytes: {_excerpt(content)}")


def _error(message: str) -> Failure[VerifierError]:
    return Failure(VerifierError(message))


def _excerpt(content: bytes) -> str:
    """The file's beginning as an ASCII literal: it was written in the sandbox."""
    if not content:
        return "it is empty"
    cut = "…" if len(content) > EXCERPT_LIMIT else ""
    return ascii(content[:EXCERPT_LIMIT].decode("utf-8", "replace")) + cut
