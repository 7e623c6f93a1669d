"""A `clinebox gateway` in a process of its own, before a model server that takes nothing but the real key."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from clinebox.adapters.scripted_model import (
    RunningScriptedModel,
    Script,
    running_scripted_model,
)

KEY = "sk-the-real-key-0123456789"
OPERATOR = "operator-token-0123456789"
LASTING = "lasting-token-0123456789"
SECRETS = {"MODEL_KEY": KEY, "OPERATOR_TOKEN": OPERATOR, "LASTING_TOKEN": LASTING}
PATIENCE_S = 60.0
MAIN = ("-m", "clinebox.entrypoints.cli.main")
ASK = {"stream": True, "stream_options": {"include_usage": True}, "messages": []}


@pytest.fixture
def model() -> Iterator[Callable[..., RunningScriptedModel]]:
    """A model server that takes nothing but the real key."""
    with contextlib.ExitStack() as stack:
        yield lambda *turns: stack.enter_context(running_scripted_model(Script(turns=turns), require_key=KEY))


class Asked:
    """A call in a thread of its own; `came` is what it gave or raised."""

    def __init__(self, ask: Callable[[], str]) -> None:
        self._came: list[str | httpx.HTTPError] = []
        self._ask = ask
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._came.append(self._ask())
        except httpx.HTTPError as error:
            self._came.append(error)

    @property
    def came(self) -> str | httpx.HTTPError:
        self._thread.join(PATIENCE_S)
        return self._came[0]


@dataclass
class Gate:
    """A running `clinebox gateway`."""

    process: subprocess.Popen[bytes]
    url: str
    stdout: list[dict[str, Any]]
    stderr: Path
    http: httpx.Client = field(default_factory=lambda: httpx.Client(trust_env=False, timeout=PATIENCE_S))

    @property
    def operator(self) -> dict[str, str]:
        return {"authorization": f"Bearer {OPERATOR}"}

    def open(self, **order: Any) -> dict[str, Any]:
        answer = self.http.post(f"{self.url}/sessions", json=order, headers=self.operator)
        assert answer.status_code == 201, answer.text
        opened: dict[str, Any] = answer.json()
        return opened

    def end(self, session_id: str) -> bytes:
        answer = self.http.delete(f"{self.url}/sessions/{session_id}", headers=self.operator)
        assert answer.status_code == 200, answer.text
        return answer.content

    def ask(self, base_url: str) -> str:
        answer = self.http.post(f"{base_url}/chat/completions", json=ASK)
        assert answer.status_code == 200, answer.text
        return answer.text

    def ask_in_background(self, base_url: str) -> Asked:
        return Asked(lambda: self.ask(base_url))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def until_draining(self) -> None:
        gives_up = time.monotonic() + PATIENCE_S
        while self.http.get(f"{self.url}/health").status_code != 503:
            assert time.monotonic() < gives_up, "it does not drain"
            threading.Event().wait(0.02)

    def exit(self) -> int:
        stdout, _ = self.process.communicate(timeout=PATIENCE_S)
        self.stdout += [json.loads(line) for line in stdout.splitlines()]
        return self.process.returncode


OpenGate = Callable[..., Gate]


@pytest.fixture
def open_gate(tmp_path: Path) -> Iterator[OpenGate]:
    """Start `clinebox gateway --json` on a free port; both tokens are set unless options say which."""
    running: list[Gate] = []

    def begin(
        upstream: str, *options: str, tokens: tuple[str, ...] | None = None, main: tuple[str, ...] = MAIN
    ) -> Gate:
        stderr = tmp_path / f"stderr-{len(running)}.txt"
        chosen = ("--operator-token-env", "OPERATOR_TOKEN", "--session-token-env", "LASTING_TOKEN")
        command = [sys.executable, *main, "gateway", "--json"]
        command += ["--upstream", upstream, "--model", "some-model", "--api-key-env", "MODEL_KEY"]
        command += ["--listen", "127.0.0.1:0", *(chosen if tokens is None else tokens), *options]
        with stderr.open("wb") as errors:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, **SECRETS}
            )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, stderr.read_text()
        listening = json.loads(line)
        gate = Gate(process, listening.get("url", ""), [listening], stderr)
        running.append(gate)
        return gate

    yield begin
    for gate in running:
        gate.http.close()
        if gate.process.poll() is None:
            gate.process.kill()
        gate.process.communicate()
