"""The example of docs/supervisor.md is run as it stands, but for its paths and the harness."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.adapters.supervisor.conftest import Bench

DOCUMENT = Path(__file__).parents[3] / "docs" / "supervisor.md"
HARNESS = """#!/bin/bash
{ printf '%s|' "$@"; cat; } > got
sleep 3143 < /dev/null > /dev/null 2>&1 &
"""


def example() -> str:
    (block,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    return str(block)


def test_the_example_runs_a_harness_to_its_receipt_and_leaves_nothing(bench: Bench) -> None:
    session = bench.session()
    programs, work = session.sandbox.root / "bin", session.sandbox.root / "work"
    for made in (programs, work):
        made.mkdir()
    (programs / "cline").write_text(HARNESS)
    (programs / "cline").chmod(0o755)
    session.sandbox.env["PATH"] = f"{programs}:{session.sandbox.env['PATH']}"
    text = example().replace("/private/session-1", str(session.dir)).replace('"/work"', repr(str(work)))
    namespace: dict[str, Any] = {"sandbox": session.sandbox}
    code = compile(text, str(DOCUMENT), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    ran = eval(code, namespace)  # noqa: S307 - our own document
    assert inspect.iscoroutine(ran)
    asyncio.run(ran)
    finished, left = namespace["finished"], namespace["left"]
    assert (work / "got").read_bytes() == b"--json|--| |Fix it."
    assert (finished.receipt.cleanup_confirmed, finished.receipt.return_code) == (True, 0)
    assert [survivor.command for survivor in finished.receipt.survivors] == ["sleep 3143"]
    assert (left.ended, left.left, session.marked(), session.dir.exists()) == (1, (), [], False)
