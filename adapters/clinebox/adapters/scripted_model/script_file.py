"""Reading a script from YAML or JSON, with errors that name the file, the line and the key."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.scripted_model.script import (
    Comments,
    Match,
    Script,
    ScriptModel,
    ToolCall,
    Turn,
    Usage,
)
from clinebox.adapters.scripted_model.values import shown

SCRIPT_LIMIT_BYTES: Final = 32 * 1024 * 1024

WANTED: Final = {
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "string_type": "a text in quotes",
    "string_unicode": "a text that UTF-8 can carry",
    "int_type": "a whole number",
    "int_parsing_size": "a number of fewer digits",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
}
"""What pydantic's error types ask for, in words for people."""

Location = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class ScriptProblem:
    """One thing that is wrong, and where. `line` counts from 1."""

    line: int | None
    key: str
    message: str


@dataclass(frozen=True, slots=True)
class ScriptError:
    """Why a script cannot be played: every problem found, in the order of the file."""

    path: str
    problems: tuple[ScriptProblem, ...]

    def __str__(self) -> str:
        return "\n".join(self._sentence(problem) for problem in self.problems)

    def _sentence(self, problem: ScriptProblem) -> str:
        place = self.path if problem.line is None else f"{self.path}:{problem.line}"
        return ": ".join(part for part in (place, problem.key, problem.message) if part)


def load_script(path: Path) -> Result[Script, ScriptError]:
    """Read and check the script in `path`; `.json` is read as JSON, anything else as YAML.

    Failure(ScriptError) when the file cannot be read or is no script.
    """
    try:
        data = path.read_bytes() if path.stat().st_size <= SCRIPT_LIMIT_BYTES else None
    except OSError as error:
        return _failure(str(path), None, f"cannot be read: {error.strerror or error}")
    if data is None:
        return _failure(str(path), None, f"is larger than {SCRIPT_LIMIT_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _failure(str(path), data.count(b"\n", 0, error.start) + 1, "is not UTF-8 text")
    return parse_script(text, source=str(path), as_json=path.suffix.lower() == ".json")


def parse_script(text: str, *, source: str, as_json: bool = False) -> Result[Script, ScriptError]:
    """Check a script's text; `source` names it in errors.

    Failure(ScriptError) when the text is no YAML (or JSON), or no script.
    """
    parsed = _parsed(text, source, as_json=as_json)
    if not is_successful(parsed):
        return Failure(parsed.failure())
    node, data = parsed.unwrap()
    problems = tuple(_duplicates(node))
    if problems:
        return Failure(ScriptError(source, problems))
    if not isinstance(data, list | dict):
        return _failure(source, node.start_mark.line + 1, f"must be a list of turns, not {shown(data)}")
    # A bare list of turns is a script, too.
    in_list = isinstance(data, list)
    try:
        return Success(Script.model_validate({"turns": data} if in_list else data))
    except ValidationError as error:
        return Failure(ScriptError(source, _problems(error, node, prefix="turns" if in_list else None)))


class _Loader(yaml.SafeLoader):
    """YAML with JSON's types: a date stays the text that stands there."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _parsed(text: str, source: str, *, as_json: bool) -> Result[tuple[yaml.Node, object], ScriptError]:
    """The file's nodes, which know their lines, and its value."""
    try:
        data = json.loads(text) if as_json else None
        # JSON allows raw tabs between values only, where YAML does not; lines stay as they are.
        node, value = _composed(text.replace("\t", " ") if as_json else text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        return Failure(ScriptError(source, (_unreadable(error, text),)))
    if node is None:
        return _failure(source, None, "is empty; it needs a list of turns")
    return Success((node, data if as_json else value))


def _unreadable(error: Exception, text: str) -> ScriptProblem:
    match error:
        case json.JSONDecodeError():
            return ScriptProblem(error.lineno, "", f"is not JSON: {error.msg}")
        case yaml.MarkedYAMLError():
            mark = error.problem_mark or error.context_mark
            return ScriptProblem(mark.line + 1 if mark else None, "", f"is not YAML: {error.problem}")
        case yaml.reader.ReaderError():
            line = text.count("\n", 0, error.position) + 1
            return ScriptProblem(line, "", f"is not YAML: it holds U+{ord(text[error.position]):04X}")
        case RecursionError():
            return ScriptProblem(None, "", "is nested too deeply")
        case _:
            return ScriptProblem(None, "", f"cannot be read: {error}")


def _composed(text: str) -> tuple[yaml.Node | None, object]:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        return node, loader.construct_document(node) if node is not None else None
    finally:
        loader.dispose()


def _failure(source: str, line: int | None, message: str) -> Failure[ScriptError]:
    return Failure(ScriptError(source, (ScriptProblem(line, "", message),)))


def _duplicates(node: yaml.Node) -> Iterator[ScriptProblem]:
    """Keys that stand twice in one mapping: YAML's parser would silently keep the last."""
    waiting, seen = [node], {id(node)}
    while waiting:
        here = waiting.pop()
        keys: set[str] = set()
        for key, child in _children(here):
            if key is not None and key.value in keys:
                yield ScriptProblem(key.start_mark.line + 1, str(key.value), "stands twice in one mapping")
            keys.add(str(key.value) if key is not None else "")
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)


def _children(node: yaml.Node) -> Iterator[tuple[yaml.Node | None, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        yield from node.value
    elif isinstance(node, yaml.SequenceNode):
        yield from ((None, child) for child in node.value)


def _problems(error: ValidationError, node: yaml.Node, *, prefix: str | None) -> tuple[ScriptProblem, ...]:
    problems = [
        ScriptProblem(
            _line(node, _in_file(details["loc"], prefix)), _dotted(details["loc"]), _message(details)
        )
        for details in error.errors(include_url=False)
    ]
    return tuple(sorted(problems, key=lambda problem: problem.line or 0))


def _in_file(location: Location, prefix: str | None) -> Location:
    return location[1:] if prefix is not None and location[:1] == (prefix,) else location


def _line(node: yaml.Node, location: Location) -> int:
    """The line of the deepest node on the way to `location`: of the key where the value is a mapping's."""
    line = node.start_mark.line + 1
    for step in location:
        found = _step(node, step)
        if found is None:
            break
        key, node = found
        line = (key or node).start_mark.line + 1
    return line


def _step(node: yaml.Node, step: int | str) -> tuple[yaml.Node | None, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        return (None, node.value[step]) if step < len(node.value) else None
    for key, child in _children(node):
        if key is not None and key.value == str(step):
            return key, child
    return None


def _dotted(location: Location) -> str:
    """`turns[1].tool_calls[0].name`."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in location if step != "[key]"]
    return "".join(parts).removeprefix(".")


def _message(details: ErrorDetails) -> str:
    value = shown(details["input"])
    limits = details.get("ctx", {})
    kind = details["type"]
    match kind:
        case "extra_forbidden":
            message = _unknown_key(details["loc"])
        case "missing":
            message = "is missing"
        case "value_error":
            message = details["msg"].removeprefix("Value error, ")
        case "enum":
            allowed = str(limits.get("expected", "")).replace(" or ", ", ").replace("'", "")
            message = f"is {value}; allowed: {allowed}"
        case "greater_than_equal":
            message = f"is {value}; allowed: {limits.get('ge')} and more"
        case "less_than_equal":
            message = f"is {value}; allowed: up to {limits.get('le')}"
        case _ if kind in WANTED:
            message = f"must be {WANTED[kind]}, not {value}"
        case _:
            message = f"is {value}: {details['msg']}"
    return message


def _unknown_key(location: Location) -> str:
    allowed = _allowed_keys(location)
    close = difflib.get_close_matches(str(location[-1]), allowed, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"is no key of a script{hint}; allowed here: {', '.join(allowed)}"


def _allowed_keys(location: Location) -> list[str]:
    named = [step for step in location[:-1] if isinstance(step, str)]
    models: dict[str, type[ScriptModel]] = {
        "turns": Turn,
        "tool_calls": ToolCall,
        "usage": Usage,
        "match": Match,
        "comments": Comments,
    }
    return list((models[named[-1]] if named else Script).model_fields)
