"""Writes docs/reference.md from the code; a test compares the two. Run it with the project's Python."""

from __future__ import annotations

import inspect
from enum import EnumMeta
from pathlib import Path

import clinebox.domain

TARGET = Path(__file__).with_name("reference.md")
WIDTH = 100
HEAD = """# Reference: clinebox.domain

Made from the code by `docs/make_reference.py`. These names are the public API; how they go together is
told in [classify](classify.md), [mask](masking.md), [failures](failures.md) and [embed](embedding.md).
Adapters that others may use have pages of their own: the [scripted model](scripted-model.md) and the
[sandboxes](sandboxes.md).
"""


def reference() -> str:
    """The whole page."""
    names = sorted(clinebox.domain.__all__, key=str.casefold)
    return "\n".join([HEAD, *(_entry(name, getattr(clinebox.domain, name)) for name in names)])


def _entry(name: str, thing: object) -> str:
    module = inspect.getmodule(thing)
    where = "" if module is None else f"\nfrom `{module.__name__}`\n"
    head = f"## {name}\n\n```python\n{_signature(name, thing)}\n```\n\n{inspect.getdoc(thing) or ''}\n{where}"
    return head + "".join(_method(method, what) for method, what in _methods(thing))


def _methods(thing: object) -> list[tuple[str, object]]:
    """Public methods and properties that a class defines itself, enumerations aside."""
    if not isinstance(thing, type) or isinstance(thing, EnumMeta):
        return []
    own = [(name, what) for name, what in vars(thing).items() if not name.startswith("_")]
    return [(name, what) for name, what in own if inspect.isfunction(what) or isinstance(what, property)]


def _method(name: str, what: object) -> str:
    shown = name if isinstance(what, property) else _signature(name, what)
    return f"\n- `{shown}`: {(inspect.getdoc(what) or '').splitlines()[0]}\n"


def _signature(name: str, thing: object) -> str:
    if isinstance(thing, EnumMeta):
        return f"{name}: " + " | ".join(str(member.value) for member in thing)
    if not callable(thing):
        return name
    signature = inspect.signature(thing)
    parameters = [str(parameter).replace("'", "") for parameter in signature.parameters.values()]
    result = str(signature.return_annotation).replace("'", "")
    text = f"{name}({', '.join(parameters)}) -> {result}"
    if len(text) < WIDTH:
        return text
    lines = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{name}(\n{lines}) -> {result}"


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
