"""What an operator asks for in `POST /sessions`: a JSON object, each member checked by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.gateway.sampling import Sampling
from clinebox.adapters.gateway.targets import parse_target
from clinebox.domain.bounded_json import json_excerpt
from clinebox.domain.json_value import JsonValue, parse_json

DEFAULT_TTL_S: Final = 24 * 3600.0
LONGEST_TTL_S: Final = 30 * 24 * 3600.0
SHOWN_CHARS: Final = 80
LARGEST: Final = 1e6
"""Of a temperature; servers have smaller bounds of their own, and say so."""
_MEMBERS: Final = ("prefix", "sampling", "ttl_s")
_SAMPLING: Final = ("temperature", "top_p", "seed", "max_output_tokens")

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class SessionOrder:
    """One session as an operator wants it."""

    prefix: str = ""
    sampling: Sampling = field(default_factory=Sampling)
    ttl_s: float = DEFAULT_TTL_S
    """After so long the session ends by itself, should nobody end it."""


class _RefusedError(Exception):
    """A member cannot be used; the text is the sentence."""


def parse_session_order(body: bytes) -> Result[SessionOrder, str]:
    """An order from a request's body; an empty body is an order with every default. Total.

    Failure(sentence) names the member, its value and what is allowed.

    >>> parse_session_order(b'{"ttl_s": 60}').unwrap().ttl_s
    60.0
    >>> parse_session_order(b'{"ttl_s": -1}').failure()
    'ttl_s is -1: it must be a number of seconds above 0, at most 2592000'
    """
    parsed = parse_json(body or b"{}")
    if not is_successful(parsed):
        return Failure('the body is not JSON; it must be an object such as {} or {"ttl_s": 3600}')
    try:
        return Success(_order(parsed.unwrap()))
    except _RefusedError as error:
        return Failure(str(error))


def _order(value: JsonValue) -> SessionOrder:
    members = _members("the body", value, _MEMBERS)
    return SessionOrder(
        prefix=_checked(members, "prefix", _prefix, "a path such as /ng-rollout/KEY", ""),
        sampling=_sampling(members.get("sampling")),
        ttl_s=_checked(
            members,
            "ttl_s",
            lambda value: _number(value, 0, LONGEST_TTL_S, above=True),
            f"a number of seconds above 0, at most {LONGEST_TTL_S:.0f}",
            DEFAULT_TTL_S,
        ),
    )


def _sampling(value: JsonValue) -> Sampling:
    members = {} if value is None else _members("sampling", value, _SAMPLING)
    return Sampling(
        temperature=_checked(
            members, "temperature", lambda v: _number(v, 0, LARGEST), "a number from 0", None
        ),
        top_p=_checked(
            members, "top_p", lambda v: _number(v, 0, 1, above=True), "a number above 0, at most 1", None
        ),
        seed=_checked(members, "seed", _integer, "a whole number of at most 64 bits", None),
        max_output_tokens=_checked(
            members, "max_output_tokens", lambda v: _integer(v, 1), "a whole number from 1", None
        ),
    )


def _members(where: str, value: JsonValue, known: tuple[str, ...]) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise _RefusedError(f"{where} is no JSON object")
    unknown = sorted(value.keys() - set(known))
    if unknown:
        raise _RefusedError(f"{where} has the member {_shown(unknown[0])}: there are {', '.join(known)}")
    return value


def _checked(
    members: dict[str, JsonValue],
    name: str,
    read: Callable[[JsonValue], _Value | None],
    allowed: str,
    default: _Value,
) -> _Value:
    value = members.get(name)
    if value is None:
        return default
    usable = read(value)
    if usable is None:
        raise _RefusedError(f"{name} is {_shown(value)}: it must be {allowed}")
    return usable


def _prefix(value: JsonValue) -> str | None:
    """Nothing that could lead out of the upstream, by the same rule as a request's own path."""
    if not isinstance(value, str) or not value.isascii():
        return None
    path = "/" + value.strip("/")
    return path if parse_target(b"/s/x/v1" + path.encode("ascii")) is not None else None


def _number(value: JsonValue, low: float, high: float, *, above: bool = False) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    # NaN compares as false; an integer beyond any float compares exactly, and is never converted.
    fits = (value > low if above else value >= low) and value <= high
    return float(value) if fits else None


def _integer(value: JsonValue, low: int = -(1 << 63)) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if low <= value < 1 << 63 else None


def _shown(value: JsonValue) -> str:
    return json_excerpt(value, str, SHOWN_CHARS)
