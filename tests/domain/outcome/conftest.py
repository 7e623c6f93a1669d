"""The recorded runs, and small synthetic ones built line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from clinebox.domain.json_value import JsonValue, as_int, as_mapping, as_text
from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import (
    ExitEvidence,
    RunEvidence,
    evidence_from_bytes,
    read_log,
    read_stderr,
    read_stdout,
)
from clinebox.domain.outcome.model import Outcome

CORPUS = Path(__file__).parents[2] / "corpus"
EXPECTED: dict[str, dict[str, JsonValue]] = json.loads((CORPUS / "expected.json").read_text())
LOG_FILE = "cline-log.jsonl"


@dataclass(frozen=True)
class RecordedRun:
    """One recorded run: its bytes by file name, and what its meta.json says."""

    name: str
    files: Mapping[str, bytes]
    meta: Mapping[str, JsonValue]

    def evidence(self, *, with_exit: bool = True, **changed: bytes | None) -> RunEvidence:
        """The evidence, with some files' bytes changed (`stdout`, `log`, `stderr`), or gone (None)."""
        stdout = changed.get("stdout", self.files["stdout.ndjson"])
        log = changed.get("log", self.files[LOG_FILE])
        stderr = changed.get("stderr", self.files["stderr.txt"])
        return RunEvidence(
            stdout=None if stdout is None else read_stdout(stdout),
            log=None if log is None else read_log(log, LOG_FILE),
            stderr=None if stderr is None else read_stderr(stderr),
            exit=self.exit if with_exit else None,
            cline_version=as_text(self.meta["version"]),
        )

    @property
    def exit(self) -> ExitEvidence:
        return ExitEvidence(
            "meta.json",
            exit_code=as_int(self.meta["exit_code"]),
            signal=as_text(self.meta["signal"]),
            exec_error=as_text(self.meta.get("exec_error")),
        )

    @property
    def stdout_lines(self) -> list[bytes]:
        return self.files["stdout.ndjson"].split(b"\n")[:-1]


def load(name: str) -> RecordedRun:
    folder = CORPUS / name
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return RecordedRun(name, files, as_mapping(json.loads(files["meta.json"])))


class Corpus:
    """Every recorded run by name, read once a process."""

    def __init__(self) -> None:
        self._runs = {name: load(name) for name in EXPECTED}

    def __getitem__(self, name: str) -> RecordedRun:
        return self._runs[name]

    def __iter__(self) -> Iterator[RecordedRun]:
        return iter(self._runs.values())

    def expected(self, name: str) -> dict[str, JsonValue]:
        return EXPECTED[name]


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    return Corpus()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "recorded_name" in metafunc.fixturenames:
        metafunc.parametrize("recorded_name", sorted(EXPECTED))


AGENT = "agent_1"
TS = "2026-11-30T17:00:00.{:03d}Z"


@dataclass(frozen=True)
class Run:
    """A run written line by line, as Cline 3.0.57 to 3.0.65 writes it; every method adds lines."""

    stdout: tuple[bytes, ...] = ()
    log: tuple[bytes, ...] | None = None
    version: str | None = "3.0.65"
    receipt: bytes | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    def line(self, record: Mapping[str, object]) -> Run:
        ts = TS.format(len(self.stdout) % 1000)
        text = json.dumps({"ts": ts, **record}, separators=(",", ":"), ensure_ascii=False)
        return replace(self, stdout=(*self.stdout, text.encode()))

    def raw(self, line: bytes) -> Run:
        return replace(self, stdout=(*self.stdout, line))

    def event(self, kind: str, **body: object) -> Run:
        return self.line({"type": "agent_event", "event": {"type": kind, **body}})

    def start(self, agent: str = AGENT, parent: str | None = None) -> Run:
        hook = {"hookEventName": "agent_start", "agentId": agent, "taskId": "c", "parentAgentId": parent}
        return self.line({"type": "hook_event", **hook}).turn()

    def turn(self, iteration: int = 1) -> Run:
        return self.event("iteration_start", iteration=iteration)

    def usage(self, tokens_in: int = 100, tokens_out: int = 10) -> Run:
        return self.event("usage", inputTokens=tokens_in, outputTokens=tokens_out, totalCost=0)

    def says(self, text: str, tokens_in: int = 100) -> Run:
        chunk = self.event("content_start", contentType="text", text=text, accumulated=text)
        return chunk.usage(tokens_in, tokens_in // 10).event("content_end", contentType="text", text=text)

    def calls(self, tool: str = "run_commands", call_id: str = "call_0", **arguments: object) -> Run:
        return self.event(
            "content_start", contentType="tool", toolName=tool, toolCallId=call_id, input=arguments
        )

    def returns(self, tool: str = "run_commands", call_id: str = "call_0", output: object = ()) -> Run:
        return self.event(
            "content_end", contentType="tool", toolName=tool, toolCallId=call_id, output=output, durationMs=1
        )

    def error(self, message: str, error_class: str | None = None, *, recoverable: bool = False) -> Run:
        classed = {} if error_class is None else {"errorClass": error_class}
        error = {"name": "Error", "message": message, "stack": f"Error: {message}"}
        return self.event("error", error=error, **classed, recoverable=recoverable, iteration=1)

    def ends(self, finish_reason: str = "completed", text: str = "done", tokens_in: int = 100) -> Run:
        usage = {"inputTokens": tokens_in, "outputTokens": tokens_in // 10, "cacheReadTokens": 0}
        model = {"id": "m", "provider": "openai-compatible"}
        return self.line(
            {
                "type": "run_result",
                "finishReason": finish_reason,
                "iterations": 1,
                "usage": usage,
                "aggregateUsage": usage,
                "durationMs": 5,
                "text": text,
                "model": model,
            }
        )

    def fails(self, message: str, error_class: str | None = None) -> Run:
        return self.error(message, error_class).ends("error", message)

    def aborted(self, reason: str) -> Run:
        return self.line({"type": "run_aborted", "reason": reason, "message": "aborted"})

    def logs(self, msg: str, level: int = 50, **body: object) -> Run:
        time = TS.format(len(self.stdout) % 1000)
        record = {"level": level, "time": time, "name": "cline.cli", **body, "msg": msg}
        return replace(self, log=(*(self.log or ()), json.dumps(record).encode()))

    def logs_end(self, message: str, agent: str = AGENT) -> Run:
        return self.logs("Agent loop caught error", agentId=agent, status="failed", errorMessage=message)

    def logs_status(self, status: int, message: str, url: str = "http://host/v1/chat/completions") -> Run:
        error = {"name": "AI_APICallError", "message": message, "url": url, "statusCode": status}
        return self.logs("[ai-sdk] stream error", err=error)

    def logs_retry(self, attempt: int, finish_reason: str) -> Run:
        return self.logs(
            "Model returned an empty response; retrying",
            level=40,
            attempt=attempt,
            maxAttempts=3,
            finishReason=finish_reason,
        )

    def with_receipt(self, **members: object) -> Run:
        base = {"cleanup_confirmed": True, "return_code": 0, "timed_out": False, "error": None}
        return replace(self, receipt=json.dumps({**base, **members}).encode())

    def evidence(self) -> RunEvidence:
        evidence = evidence_from_bytes(
            stdout=b"".join(line + b"\n" for line in self.stdout),
            cline_log=None if self.log is None else b"".join(line + b"\n" for line in self.log),
            receipt=self.receipt,
            cline_version=self.version,
        )
        return replace(evidence, **self.extra)

    def but(self, **extra: object) -> Run:
        """The same run with other parts of the evidence (`requested_stop=…`, `expected_base_url=…`)."""
        return replace(self, extra={**self.extra, **extra})

    def outcome(self) -> Outcome:
        return classify(self.evidence()).unwrap()


@pytest.fixture
def run() -> Run:
    """A run that has begun: the lead's hook and its first turn."""
    return Run().start()


@pytest.fixture
def empty_run() -> Run:
    """A run of which stdout has not one record."""
    return Run()
