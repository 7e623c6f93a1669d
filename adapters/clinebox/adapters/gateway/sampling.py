"""Sets the caller's sampling fields in a request's JSON, and leaves every other byte as it came."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from clinebox.domain.json_value import JsonValue

Number: TypeAlias = int | float

CHAT: Final = "/chat/completions"
RESPONSES: Final = "/responses"
_DECODER: Final = json.JSONDecoder()
_BLANKS: Final = " \t\n\r"


@dataclass(frozen=True, slots=True)
class Sampling:
    """What the caller of a session asked for, and Cline cannot send; None leaves Cline's own.

    `max_output_tokens` is a bound, so a smaller one of Cline's stays (its compaction call sends 4,096). In a
    chat completion it is `max_completion_tokens` where the request has that field, else `max_tokens`.
    """

    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    max_output_tokens: int | None = None

    @property
    def asks(self) -> bool:
        """Whether anything is to be set."""
        return any(
            value is not None for value in (self.temperature, self.top_p, self.seed, self.max_output_tokens)
        )


@dataclass(frozen=True, slots=True)
class Sampled:
    """A body after its sampling fields were set."""

    body: bytes
    applied: Mapping[str, Number]
    """The fields as they stand in it."""
    asked: JsonValue
    """The request as the client sent it, parsed."""


@dataclass(frozen=True, slots=True)
class _Member:
    """Where the value of one top-level member stands in the text."""

    key: str
    value: JsonValue
    start: int
    end: int


def is_sampled_route(method: str, below: str) -> bool:
    """Whether a request is a completion, and so has sampling fields."""
    return method == "POST" and below in (CHAT, RESPONSES)


def with_sampling(body: bytes, below: str, sampling: Sampling) -> Sampled | None:
    """The body with the fields set; None when it is no JSON object in UTF-8, which no server would answer.

    Every byte outside the fields set stays. A member that stands twice is set twice.
    """
    try:
        text = body.decode("utf-8")
        members = list(_members(text))
    except (ValueError, RecursionError):
        return None
    wanted = _wanted(members, below, sampling)
    asked = {member.key: member.value for member in members}
    return Sampled(_spliced(text, members, wanted).encode("utf-8"), wanted, asked)


def _wanted(members: list[_Member], below: str, sampling: Sampling) -> dict[str, Number]:
    present = {member.key: member.value for member in members}
    fields: dict[str, Number | None] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
    }
    if sampling.max_output_tokens is not None:
        name = _bound_name(present, below)
        fields[name] = _smaller(present.get(name), sampling.max_output_tokens)
    return {name: value for name, value in fields.items() if value is not None}


def _bound_name(present: Mapping[str, JsonValue], below: str) -> str:
    if below == RESPONSES:
        return "max_output_tokens"
    return "max_completion_tokens" if "max_completion_tokens" in present else "max_tokens"


def _smaller(present: JsonValue, wanted: int) -> int:
    own = present if isinstance(present, int) and not isinstance(present, bool) else wanted
    return min(own, wanted)


def _spliced(text: str, members: list[_Member], wanted: Mapping[str, Number]) -> str:
    """The text with values replaced where they stand, and new members behind the last one."""
    parts: list[str] = []
    position = 0
    for member in members:
        if member.key in wanted:
            parts += [text[position : member.start], json.dumps(wanted[member.key])]
            position = member.end
    present = {member.key for member in members}
    added = [
        f"{json.dumps(name)}:{json.dumps(value)}" for name, value in wanted.items() if name not in present
    ]
    behind = members[-1].end if members else text.index("{") + 1
    parts.append(text[position:behind])
    parts.append(("," if members and added else "") + ",".join(added))
    return "".join(parts) + text[behind:]


def _members(text: str) -> Iterator[_Member]:
    """The members of the object that the whole text is (RFC 8259 §4). ValueError when it is none."""
    at = _expect(text, _skip(text, 0), "{")
    if text[at : at + 1] == "}":
        return _expect_end(text, at + 1)
    while True:
        key, end = _DECODER.raw_decode(text, at)
        if not isinstance(key, str):
            raise ValueError("a member's name is no string")  # noqa: TRY004 - the text is wrong, not a type
        start = _expect(text, _skip(text, end), ":")
        value, end = _DECODER.raw_decode(text, start)
        yield _Member(key, value, start, end)
        at = _skip(text, end)
        if text[at : at + 1] == "}":
            return _expect_end(text, at + 1)
        at = _expect(text, at, ",")


def _expect(text: str, at: int, sign: str) -> int:
    """The place of what follows this sign, blanks skipped."""
    if text[at : at + 1] != sign:
        raise ValueError(f"no {sign} at character {at}")
    return _skip(text, at + 1)


def _expect_end(text: str, at: int) -> None:
    if _skip(text, at) != len(text):
        raise ValueError("more than one JSON text")


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _BLANKS:
        at += 1
    return at
