"""`${oc.env:VAR}` in configuration texts, resolved without OmegaConf (SPEC §6).

The behaviour is OmegaConf 2.4's where that yields a string, checked against it; with two differences:
a default is only looked at when it is needed, and an unquoted default may hold any character but a comma.
What OmegaConf would turn into another type (`true`, `1.50`, a list, null) is unresolved, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from returns.result import Failure, Result, Success

_DEEPEST: Final = 32
_NAME_LIMIT: Final = 60
_OPENING: Final = re.compile(r"(\\*)\$\{")
_STEP: Final = re.compile(r"\\.|['\"]|[{}]|,", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\([\\()\[\]{}:=, \t])")
_RETYPED: Final = re.compile(
    r"(?:true|false|[+-]?(?:inf|nan)|[+-](?:0|[1-9][\d_]*)|[1-9]\d*_[\d_]*"
    r"|[+-]?(?:\d[\d_]*)?\.\d[\d_]*(?:e[+-]?\d+)?|[+-]?\d[\d_]*\.(?:e[+-]?\d+)?|[+-]?\d[\d_]*e[+-]?\d+)",
    re.IGNORECASE,
)
"""Unquoted, these are no strings to OmegaConf; `-5` alone of the signed ones comes out as written."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Why a text has no value; what depends on it is skipped. Holds names, never values."""

    reason: str


def has_interpolation(text: str) -> bool:
    """Whether `text` holds an unescaped `${`."""
    return any(len(found[1]) % 2 == 0 for found in _OPENING.finditer(text))


def resolve(text: str, env: Mapping[str, str]) -> Result[str, Unresolved]:
    r"""The text with every `${oc.env:VAR}` and `${oc.env:VAR,default}` replaced; defaults may nest.

    A variable that is set to nothing counts as set. `\${` is a literal `${`. Failure(Unresolved) when a
    variable without default is not set, a default is no string, a brace or quote is not closed, it nests
    deeper than 32, or it is any other interpolation.

    >>> resolve("${oc.env:A,${oc.env:B,none}}", {"B": "b"}).unwrap()
    'b'
    >>> resolve("${oc.env:A}", {}).failure().reason
    'environment variable A is not set'
    """
    resolved = _expand(text, env, depth=0)
    return Failure(resolved) if isinstance(resolved, Unresolved) else Success(resolved)


def _expand(text: str, env: Mapping[str, str], *, depth: int) -> str | Unresolved:
    """Replace every interpolation in `text`, from left to right."""
    if depth > _DEEPEST:
        return Unresolved(f"nested deeper than {_DEEPEST}")
    written: list[str] = []
    at = 0
    while opening := _OPENING.search(text, at):
        backslashes = len(opening[1])
        written.append(text[at : opening.start()] + "\\" * (backslashes // 2))
        at = opening.end()
        if backslashes % 2:
            written.append("${")
            continue
        end = _closing(text, at)
        if end is None:
            return Unresolved("a `${` is not closed")
        value = _evaluate(text[at:end], env, depth=depth + 1)
        if isinstance(value, Unresolved):
            return value
        written.append(value)
        at = end + 1
    return "".join((*written, text[at:]))


def _evaluate(body: str, env: Mapping[str, str], *, depth: int) -> str | Unresolved:
    """The value of what stands between `${` and `}`."""
    resolver, colon, rest = body.partition(":")
    if not colon or resolver.strip() != "oc.env":
        return Unresolved(f"${{{_shown(resolver)}}}: only ${{oc.env:VAR}} is resolved")
    name_text, *defaults = _arguments(rest)
    name = _argument(name_text, env, depth=depth)
    if isinstance(name, Unresolved):
        return name
    if not name or len(defaults) > 1:
        what = "a default with a comma must be quoted" if name else "a variable's name is missing"
        return Unresolved(f"${{oc.env:{_shown(name_text)}}}: {what}")
    if name in env:
        return env[name]
    if not defaults:
        return Unresolved(f"environment variable {_shown(name_text)} is not set")
    default = _argument(defaults[0], env, depth=depth)
    return (
        Unresolved(f"{_shown(name_text)}: {default.reason}") if isinstance(default, Unresolved) else default
    )


def _argument(text: str, env: Mapping[str, str], *, depth: int) -> str | Unresolved:
    """The string that an argument stands for: quoted, or bare with its blanks trimmed."""
    bare = text.strip(" \t")
    quote = bare[:1]
    if quote in ("'", '"') and quote:
        if len(bare) == 1 or _unquoted_end(bare) != len(bare):
            return Unresolved("text stands beside a quoted default")
        return _expand(bare[1:-1].replace("\\" + quote, quote), env, depth=depth)
    if quote in ("[", "{") or bare.lower() == "null" or _RETYPED.fullmatch(bare):
        return Unresolved("the default is no string to OmegaConf; quote it")
    if ("${" in bare and "\\" in bare) or (bare[-1:] in ("\\", ":") and text[-1:] in (" ", "\t")):
        return Unresolved("the default's escapes are ambiguous; quote it")
    return _expand(bare, env, depth=depth) if "${" in bare else _ESCAPED.sub(r"\1", bare)


def _unquoted_end(text: str) -> int:
    """Where the quoted piece that begins `text` ends."""
    at = 1
    while at < len(text) and text[at] != text[0]:
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _steps(text: str, at: int) -> Iterator[tuple[int, str, int]]:
    """Braces and commas outside quotes: where, which, and how deep in braces it stands."""
    depth = 0
    quote = ""
    for step in _STEP.finditer(text, at):
        mark = step[0]
        if mark in ("'", '"'):
            quote = "" if mark == quote else quote or mark
        elif not quote and mark in ("{", "}", ","):
            depth += {"{": 1, "}": -1}.get(mark, 0)
            yield step.start(), mark, depth


def _closing(text: str, at: int) -> int | None:
    """The brace that closes an interpolation whose body begins at `at`."""
    return next((where for where, mark, depth in _steps(text, at) if mark == "}" and depth < 0), None)


def _arguments(text: str) -> list[str]:
    """The pieces between commas that stand outside quotes and braces."""
    commas = [where for where, mark, depth in _steps(text, 0) if mark == "," and depth == 0]
    edges = [-1, *commas, len(text)]
    return [text[start + 1 : end] for start, end in pairwise(edges)]


def _shown(name: str) -> str:
    """A name for people, bounded; what another variable holds, or a default, is not shown."""
    if "${" in name:
        return "with a nested name"
    bounded = name.strip(" \t")[:_NAME_LIMIT]
    return bounded if bounded.isprintable() else repr(bounded)
