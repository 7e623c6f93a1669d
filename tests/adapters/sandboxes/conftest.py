"""What every sandbox test needs: a started sandbox in each containment, and a look at what lives of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

import pytest

from clinebox.adapters.sandboxes.local import ContainmentChoice, LocalSandboxProvider
from clinebox.adapters.sandboxes.local_sandbox import LocalSandbox
from clinebox.adapters.sandboxes.process_table import Process, find_tree
from clinebox.domain.ports import SandboxSpec

Start: TypeAlias = Callable[..., AbstractAsyncContextManager[LocalSandbox]]
Until: TypeAlias = Callable[[Callable[[], object], str], Coroutine[None, None, None]]
BOUND_S = 30.0
"""For what takes milliseconds: generous, since the machine may be loaded."""


def living(sandbox_id: str) -> list[Process]:
    """All processes that were started in a sandbox and live."""
    return find_tree(markers=(f"CLINEBOX_EXEC={sandbox_id}.".encode(),))


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, at most `BOUND_S`."""
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.01)


async def until(condition: Callable[[], object], what: str) -> None:
    """The same on the event loop."""
    await asyncio.to_thread(wait_until, condition, what)


@pytest.fixture(params=[pytest.param("bubblewrap", marks=pytest.mark.bubblewrap), "unshare", "plain"])
def containment(request: pytest.FixtureRequest) -> ContainmentChoice:
    choice: ContainmentChoice = request.param
    return choice


@pytest.fixture(params=[pytest.param("bubblewrap", marks=pytest.mark.bubblewrap), "unshare"])
def namespaces(request: pytest.FixtureRequest) -> ContainmentChoice:
    choice: ContainmentChoice = request.param
    return choice


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    path = tmp_path / "task"
    path.mkdir()
    return path


@contextlib.asynccontextmanager
async def started(
    containment: ContainmentChoice, workdir: Path, *, output_limit_bytes: int = 10 << 20, **spec: object
) -> AsyncIterator[LocalSandbox]:
    """A sandbox, of which nothing lives and nothing lies on the disk afterwards."""
    provider = LocalSandboxProvider(containment, output_limit_bytes=output_limit_bytes)
    result = await provider.start(SandboxSpec(workdir=str(workdir), **spec), timeout_s=BOUND_S)  # type: ignore[arg-type]
    sandbox = result.unwrap()
    assert isinstance(sandbox, LocalSandbox)
    try:
        yield sandbox
    finally:
        stopped = await sandbox.stop(timeout_s=BOUND_S)
        assert stopped.value_or("failed") is None, stopped
        assert living(sandbox.description.sandbox_id) == []
        assert not sandbox.root.path.exists()


@pytest.fixture
def start() -> Start:
    return started


@pytest.fixture(name="until")
def _until() -> Until:
    return until
