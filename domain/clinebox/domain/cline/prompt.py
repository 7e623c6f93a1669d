"""What reaches Cline for any task text (SPEC §10): its own rewriting is kept off, nothing else is touched.

Tried with the binaries 3.0.57 and 3.0.65, prompt through a pipe, the request recorded at the model's side:

- White space at both ends is trimmed as JavaScript's `trim` does: U+FEFF too, NEL and U+001C not.
- `@/p`, `@./p`, `@../p`, `@~/p` anywhere, also in the middle of a word, and `@"/p q"`: an existing file is
  attached, and the word becomes `[file: p]`. In backticks the first kind is not expanded (the path then ends
  in a backtick, and no such file is there); the quoted kind is, so there the `@` alone gets the backticks.
- `@word` at the start or after white space, whatever the word is (`@property`, `@types/node`): Cline indexes
  the work directory in a worker that does not keep the process alive, and **exits with 0, without one byte of
  output, without a request**. Where a watcher keeps it alive (a rules directory, AGENTS.md) or a stdio MCP
  server does, the text arrives, and a word that names a file of the work directory is attached.
- `/team x` first, in any case, also `/team-x`: rewritten; with nothing after it: exit 0, nothing done. Any
  other first `/name` is replaced by the workflow or skill of that name, if there is one (source).
- `<user_input…>` and `<user_command…>` are cut out, and `</user_input>` moves to the end: Cline wraps each
  prompt in such a tag and takes it off again.
- Everything else arrives byte for byte: 1 byte, one word, 60 KB, 64 KiB ± 1, 300 KiB, multi-byte characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from returns.result import Failure, Result, Success

DEFAULT_PROMPT_LIMIT_BYTES: Final = 8 * 1024 * 1024

_SPACES: Final = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
"""ECMA-262, sections 12.2 and 12.3: what `trim` and `\\s` take for white space. Python's set differs."""
_IS_SPACE: Final = re.compile(f"[{_SPACES}]")
_WORD: Final = re.compile(f"[^{_SPACES}]*")
_SLASH_WORD: Final = re.compile(f"/[^{_SPACES}]+")
_TAG: Final = r"</?(?=user_input)|<(?=user_command)"
_PATH_START: Final = r'"?(?:/|~/|\.{1,2}/)'
_HIT: Final = re.compile(f"{_TAG}|@")
_LIVE_IN_WORD: Final = re.compile(f"{_TAG}|@(?={_PATH_START})")
_PATH: Final = re.compile(rf"@(?:/|~/|\.{{1,2}}/)[^{_SPACES}]")
_QUOTED_PATH: Final = re.compile(r'@"(?:/|~/|\.{1,2}/)[^"\r\n]+"')
_HAS_TAG: Final = re.compile(_TAG)

_LEADING: Final = "(`'\""
_TRAILING: Final = "),.:;!?`'\""
"""What Cline itself strips from a mention."""
_CLOSERS: Final = _TRAILING + "]}>"
"""A path in the middle of a word that ends so, as in `'@/lib/x'`, names no file: Cline leaves it as it is."""

_OPENER_OF: Final = {")": "(", "]": "[", "}": "{", ">": "<"}
_CLOSING_LIMIT: Final = 8
"""Brackets that are looked at after a word; a bound on the work."""


class PromptProblem(StrEnum):
    """Why a text cannot be a prompt."""

    EMPTY = "empty"
    NUL = "nul"
    NOT_UNICODE = "not_unicode"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class PromptFailure:
    """Why a text cannot be a prompt, in a sentence for people."""

    problem: PromptProblem
    message: str


@dataclass(frozen=True, slots=True)
class PromptChange:
    """One place where Cline would have rewritten the text. `offset_chars` counts in the trimmed original."""

    offset_chars: int
    original: str
    replacement: str


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """The text that Cline is given and the model receives, and what was changed in it."""

    text: str
    changes: tuple[PromptChange, ...]

    @property
    def content(self) -> bytes:
        """The text as UTF-8: what goes through the pipe."""
        return self.text.encode()


def prepare_prompt(
    task: str, *, limit_bytes: int = DEFAULT_PROMPT_LIMIT_BYTES
) -> Result[PreparedPrompt, PromptFailure]:
    """The prompt for a task: trimmed, and whatever Cline would expand put in backticks.

    Failure when it is empty, holds a NUL or a lone surrogate, or is over `limit_bytes` of UTF-8.

    >>> prepare_prompt(" Read @/etc/hostname. ").unwrap().text
    'Read `@/etc/hostname`.'
    >>> prepare_prompt("/team up").unwrap().changes
    (PromptChange(offset_chars=0, original='/team', replacement='`/team`'),)
    """
    text = trimmed(task)
    problem = _problem(text)
    if problem is not None:
        return Failure(problem)
    changes = tuple(_changes(text))
    prompt = PreparedPrompt(_applied(text, changes), changes)
    return _bounded(prompt, limit_bytes)


def trimmed(text: str) -> str:
    r"""The text without JavaScript's white space at both ends.

    >>> trimmed("\ufeff\u00a0x\x85")
    'x\x85'
    """
    start = 0
    while start < len(text) and _IS_SPACE.match(text, start):
        start += 1
    end = len(text)
    while end > start and _IS_SPACE.match(text, end - 1):
        end -= 1
    return text[start:end]


def _problem(text: str) -> PromptFailure | None:
    if not text:
        return PromptFailure(PromptProblem.EMPTY, "the task is empty: say what Cline is to do")
    nul = text.find("\0")
    if nul >= 0:
        return PromptFailure(
            PromptProblem.NUL, f"the task holds a NUL character (at {nul}): give it as plain text"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return PromptFailure(
            PromptProblem.NOT_UNICODE,
            f"the task holds a character that UTF-8 cannot carry (at {error.start}): give it as UTF-8 text",
        )
    return None


def _bounded(prompt: PreparedPrompt, limit_bytes: int) -> Result[PreparedPrompt, PromptFailure]:
    size_bytes = len(prompt.content)
    if size_bytes <= limit_bytes:
        return Success(prompt)
    return Failure(
        PromptFailure(
            PromptProblem.TOO_LARGE,
            f"the task has {size_bytes:,} bytes, and {limit_bytes:,} are allowed: "
            "put the long part in a file of the work directory",
        )
    )


def _changes(text: str) -> Iterator[PromptChange]:
    """Left to right, each place once; a word is never looked at twice, so the work is linear."""
    position = 0
    slash = _SLASH_WORD.match(text)
    if slash:
        change = _slash_change(slash[0])
        yield change
        position = len(change.original)
    while hit := _HIT.search(text, position):
        if hit[0] != "@":
            yield _ticked(hit.start(), hit[0])
            position = hit.end()
            continue
        found, position = _at(text, hit.start())
        yield from found


def _slash_change(word: str) -> PromptChange:
    plain = not any(mark in word for mark in "@<`")
    return _ticked(0, word if plain else "/")


def _at(text: str, start: int) -> tuple[list[PromptChange], int]:
    """What becomes of the `@` at `start`, and where to look next."""
    if _QUOTED_PATH.match(text, start):
        return [_ticked(start, "@")], start + 1
    first = start == 0 or _IS_SPACE.match(text, start - 1) is not None
    is_path = _PATH.match(text, start) is not None
    if not (first or is_path):
        return [], start + 1
    word = _WORD.match(text, start)
    end = word.end() if word else start + 1
    mentioned = first and _mention(text[start + 1 : end])
    if not (mentioned or is_path):
        return [], start + 1
    return list(_word_changes(text, start, end, mentioned=mentioned)), end


def _mention(word: str) -> bool:
    """Whether Cline looks for a file of this name: its own stripping, then neither empty nor with an `@`."""
    core = word.lstrip(_LEADING).rstrip(_TRAILING)
    return bool(core) and "@" not in core


def _word_changes(text: str, start: int, end: int, *, mentioned: bool) -> Iterator[PromptChange]:
    word = text[start:end]
    has_tag = _HAS_TAG.search(word) is not None
    if not mentioned and not has_tag and _names_no_file(word):
        return
    core = _core(word)
    if has_tag or "`" in core or '"' in core or core[1:2] in ("", *_LEADING):
        yield from _mark_by_mark(word, start, mentioned=mentioned)
        return
    yield _ticked(start, core)


def _core(word: str) -> str:
    """The word less the punctuation after it; a bracket that the word itself opened stays inside."""
    core = word.rstrip(_CLOSERS)
    for mark in word[len(core) : len(core) + _CLOSING_LIMIT]:
        opener = _OPENER_OF.get(mark)
        if opener is None or core.count(opener) <= core.count(mark):
            break
        core += mark
    return core


def _names_no_file(word: str) -> bool:
    """Whether the path that Cline reads here holds a mark that, in practice, no file's name has."""
    return "`" in word or word[-1] in _CLOSERS


def _mark_by_mark(word: str, start: int, *, mentioned: bool) -> Iterator[PromptChange]:
    """Backticks cannot go around this word: they go around each `@` or `<` that Cline would act on."""
    if mentioned and not _LIVE_IN_WORD.match(word):
        yield _ticked(start, "@")
    for mark in _LIVE_IN_WORD.finditer(word):
        yield _ticked(start + mark.start(), mark[0])


def _ticked(offset: int, original: str) -> PromptChange:
    return PromptChange(offset, original, f"`{original}`")


def _applied(text: str, changes: tuple[PromptChange, ...]) -> str:
    parts: list[str] = []
    position = 0
    for change in changes:
        parts += text[position : change.offset_chars], change.replacement
        position = change.offset_chars + len(change.original)
    return "".join((*parts, text[position:]))
