"""A controller of its own: starts a sandbox, writes what the test asked for, and waits to be killed.

Usage: controller_program.py CONTAINMENT WORKDIR SCRIPT [drop]. Prints one JSON object a line.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import ctypes
import encodings.idna
import encodings.utf_8_sig
import json
import os
import sys

from clinebox.adapters.sandboxes.local import LocalSandboxProvider
from clinebox.domain.ports import Command, SandboxSpec

UNUSED = (concurrent.futures.thread, encodings.idna, encodings.utf_8_sig)
"""Imported before the privileges go: the interpreter may lie where only root can read."""
NOBODY = 65_534
PR_SET_DUMPABLE = 4


def say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)  # noqa: T201 - its whole purpose


def drop_privileges() -> None:
    """Become nobody, and stay visible in /proc as a program started by nobody is (prctl(2))."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


async def main(containment: str, workdir: str, script: str) -> None:
    provider = LocalSandboxProvider(containment)  # type: ignore[arg-type]
    result = await provider.start(SandboxSpec(workdir=workdir), timeout_s=30)
    sandbox = result.unwrap()
    say(id=sandbox.description.sandbox_id, containment=sandbox.description.containment)
    done = (await sandbox.exec(Command(("bash", "-c", script)), timeout_s=60)).unwrap()
    say(exit_code=done.exit_code, stdout=done.stdout.decode(), stderr=done.stderr.decode())
    big = await sandbox.upload(f"{workdir}/big", bytes(2 << 20), timeout_s=60)
    say(upload=str(big))
    await asyncio.to_thread(sys.stdin.read)
    stopped = await sandbox.stop(timeout_s=30)
    say(stop=str(stopped), root=os.path.exists(f"/tmp/{sandbox.description.sandbox_id}"))  # noqa: ASYNC240, PTH110


if __name__ == "__main__":
    if "drop" in sys.argv[4:]:
        drop_privileges()
    asyncio.run(main(*sys.argv[1:4]))
