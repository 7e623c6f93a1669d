"""A command's output: bounded where it is born, both streams at once, bytes as they are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clinebox.domain.ports import Command, ExecResult

if TYPE_CHECKING:
    from tests.adapters.sandboxes.conftest import Start

    from clinebox.adapters.sandboxes.local import ContainmentChoice
    from clinebox.adapters.sandboxes.local_sandbox import LocalSandbox

BOUND_S = 30.0


async def run(
    sandbox: LocalSandbox, script: str, *, stdin: bytes = b"", timeout_s: float = BOUND_S
) -> ExecResult:
    command = Command(("bash", "-c", script), stdin=stdin)
    return (await sandbox.exec(command, timeout_s=timeout_s)).unwrap()


def test_output_is_bounded_at_its_birth_and_the_rest_is_read_away(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> ExecResult:
        async with start(containment, workdir) as sandbox:
            script = "head -c 60000000 /dev/zero; head -c 11000000 /dev/zero >&2; exit 3"
            return await run(sandbox, script, timeout_s=120)

    result = asyncio.run(scenario())
    assert (len(result.stdout), len(result.stderr)) == (10 << 20, 10 << 20)
    assert (result.output_truncated, result.exit_code) == (True, 3)


@pytest.mark.parametrize(("size", "truncated"), [(999, False), (1000, False), (1001, True)])
def test_only_what_goes_beyond_the_bound_is_called_truncated(
    start: Start, containment: ContainmentChoice, workdir: Path, size: int, *, truncated: bool
) -> None:
    async def scenario() -> ExecResult:
        async with start(containment, workdir, output_limit_bytes=1000) as sandbox:
            return await run(sandbox, f"head -c {size} /dev/zero")

    result = asyncio.run(scenario())
    assert (result.output_truncated, len(result.stdout)) == (truncated, min(size, 1000))


def test_both_streams_are_read_at_once_and_kept_apart(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    script = "for i in {1..3000}; do printf '%064d' $i; printf '%064d' $i >&2; done"

    async def scenario() -> ExecResult:
        async with start(containment, workdir) as sandbox:
            return await run(sandbox, script)

    result = asyncio.run(scenario())
    expected = b"".join(b"%064d" % number for number in range(1, 3001))
    assert (result.stdout, result.stderr) == (expected, expected)


def test_bytes_come_through_whatever_they_are(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    content = "☕".encode() * 50_000 + b"\xff\x00\xe2\x98"

    async def scenario() -> bytes:
        async with start(containment, workdir) as sandbox:
            return (await run(sandbox, "cat", stdin=content)).stdout

    assert asyncio.run(scenario()) == content
