"""The one composition root: which adapter stands behind which port."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

from returns.result import Result

from clinebox.adapters.run_directory.writer import RunDirectoryWriter, WriteFailure
from clinebox.adapters.runtime.cache import CachedRuntime, RuntimeCache
from clinebox.adapters.runtime.failure import RuntimeFailure
from clinebox.adapters.runtime.host import default_cache_root
from clinebox.adapters.sandboxes.local import ContainmentChoice, LocalSandboxProvider
from clinebox.domain.outcome.failed_step import FailedStep, step_of
from clinebox.domain.outcome.model import Reason
from clinebox.domain.ports import SandboxProvider
from clinebox.domain.secrets.masker import Masker
from clinebox.domain.secrets.record_stream import RecordStreamMasker
from clinebox.entrypoints.run_once import FetchRuntime, Ports


def run_directory(path: Path, masker: Masker) -> Result[RunDirectoryWriter, WriteFailure]:
    """A run directory in which no secret of `masker` is written, also not in pieces of several records."""
    return RunDirectoryWriter.create(
        path, mask=masker.mask, new_record_mask=lambda: RecordStreamMasker(masker).line
    )


def local_ports(containment: ContainmentChoice = "auto", tarball: Path | None = None) -> Ports:
    """Sandboxes on this host, and this user's runtime cache. Keep it: the provider remembers its probes."""
    return ports_with(LocalSandboxProvider(containment), tarball)


def ports_with(provider: SandboxProvider, tarball: Path | None = None) -> Ports:
    """Sandboxes of any provider, and this user's runtime cache."""
    return Ports(provider, runtime_fetcher(RuntimeCache(default_cache_root(os.environ), os.environ), tarball))


def runtime_fetcher(cache: RuntimeCache, tarball: Path | None) -> FetchRuntime:
    """The cache behind the port: in a thread, and given up when the waiting is cancelled."""

    async def fetch(version: str, progress: Callable[[int, int | None], None]) -> Result[str, FailedStep]:
        given_up = threading.Event()
        work = asyncio.create_task(
            asyncio.to_thread(
                cache.ensure, version, tarball=tarball, progress=progress, stopped=given_up.is_set
            )
        )
        try:
            ensured = await asyncio.shield(work)
        except asyncio.CancelledError:
            given_up.set()
            await asyncio.wait({work})
            raise
        return ensured.map(_path).alt(_install_step)

    return fetch


def _path(runtime: CachedRuntime) -> str:
    return str(runtime.path)


def _install_step(failure: RuntimeFailure) -> FailedStep:
    return step_of(Reason.RUNTIME_INSTALL, str(failure))
