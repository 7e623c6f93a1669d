"""The supervisor's shell scripts, as they are uploaded."""

from __future__ import annotations

from importlib import resources

_PACKAGE = "clinebox.adapters.supervisor"


def supervisor_script() -> bytes:
    """process_supervisor.sh as it is uploaded: functions first, then the story."""
    return _joined("process_table.sh", "cleanup_phases.sh", "process_supervisor.sh")


def runner_script() -> bytes:
    """harness_runner.sh."""
    return _read("harness_runner.sh")


def reaper_script() -> bytes:
    """What ends a run whose supervisor is dead; fed to `bash -s`, so that no agent can touch it."""
    return _joined("process_table.sh", "outside_reaper.sh")


def _joined(*parts: str) -> bytes:
    """One file, so that a session directory holds two scripts and neither sources anything."""
    return b"\n".join((b"#!/bin/bash", *(_read(part) for part in parts)))


def _read(name: str) -> bytes:
    return resources.files(_PACKAGE).joinpath(name).read_bytes()
