"""The whole, driven as a user drives it: the real command line, Cline and sandbox, a scripted model."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

OLD, NEW = "3.0.57", "3.0.65"
"""The two ends of what is pinned: rules changed in 3.0.61, .62 and .64."""


@dataclass(frozen=True)
class Finished:
    """One ended `clinebox run --json`."""

    exit_code: int
    object: dict[str, Any]
    stderr: str
    out: Path

    def file(self, name: str) -> str:
        return (self.out / name).read_text(encoding="utf-8", errors="replace")


class Started:
    """A `clinebox run --json` that is going on, so that a test can overlap waits or send signals."""

    def __init__(self, command: Sequence[str], out: Path, env: dict[str, str]) -> None:
        self.out = out
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env
        )

    def finish(self, timeout_s: float = 280.0) -> Finished:
        stdout, stderr = self.process.communicate(timeout=timeout_s)
        text = stdout.decode().strip()
        assert text, f"nothing on stdout; stderr: {stderr.decode(errors='replace')}"
        assert "\n" not in text, text
        return Finished(self.process.returncode, json.loads(text), stderr.decode(errors="replace"), self.out)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture(scope="session")
def processes_with() -> Callable[[str], list[str]]:
    """The processes on this host with this argument, whoever's they are; each test has words of its own."""

    def find(word: str) -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                arguments = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in arguments:
                found.append(path.parent.name)
        return found

    return find


@pytest.fixture
def long_s() -> str:
    """A number of seconds longer than any test, that no other process on this host sleeps for."""
    return f"86400.{secrets.randbelow(10**9):09d}"


Start = Callable[..., Started]


@pytest.fixture
def start(tmp_path: Path, cline_binary: Callable[[str], Path]) -> Iterator[Start]:
    """Start `clinebox run`: `start(task, *options, turns=[…], version=…, name=…)`.

    `turns` is the script of the model; without it the caller gives `--model-url` itself. `name` tells runs of
    one test apart. The work directory is `tmp_path/<name>/work`.
    """
    running: list[Started] = []

    def begin(
        task: str,
        *options: str,
        turns: list[dict[str, Any]] | None = None,
        version: str = NEW,
        name: str = "run",
        env: dict[str, str] | None = None,
    ) -> Started:
        cline_binary(version)  # in the cache before the run's own clock starts
        home = tmp_path / name
        work, out = home / "work", home / "out"
        work.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "clinebox.entrypoints.cli.main", "run", task, "--json"]
        command += ["--workdir", str(work), "--out", str(out), "--cline-version", version]
        if turns is not None:
            script = home / "script.json"
            script.write_text(json.dumps({"turns": turns}))
            command += ["--script", str(script)]
        started = Started([*command, *options], out, {**os.environ, **(env or {})})
        running.append(started)
        return started

    yield begin
    for started in running:
        started.end()
