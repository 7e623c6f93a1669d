"""Starts and stops a sandbox with `auto`; prints the containment and the note."""

from __future__ import annotations

import asyncio
import sys

from clinebox.adapters.sandboxes.local import LocalSandboxProvider
from clinebox.domain.ports import SandboxSpec


async def main() -> None:
    sandbox = (await LocalSandboxProvider().start(SandboxSpec(workdir=sys.argv[1]), timeout_s=30)).unwrap()
    print(sandbox.description.containment)  # noqa: T201 - its whole purpose
    print(sandbox.description.note)  # noqa: T201
    await sandbox.stop(timeout_s=30)


if __name__ == "__main__":
    asyncio.run(main())
