"""The supervisor's shell scripts, as they are uploaded."""

from __future__ import annotations

from importlib import resources

_PACKAGE = "clinebox.adapters.supervisor"


def supervisor_script() -> bytes:
    """process_supervisor.sh as it is uploaded: the process table's functions, then the story."""
    return b"#!/bin/bash\n" + _read("process_table.sh") + b"\n" + _read("process_supervisor.sh")


def runner_script() -> bytes:
    """harness_runner.sh."""
    return _read("harness_runner.sh")


def reaper_script() -> bytes:
    """What ends a run whose supervisor is dead; fed to `bash -s`, so that no agent can touch it."""
    return b"#!/bin/bash\n" + _read("process_table.sh") + b"\n" + _read("outside_reaper.sh")


def _read(name: str) -> bytes:
    return resources.files(_PACKAGE).joinpath(name).read_bytes()
