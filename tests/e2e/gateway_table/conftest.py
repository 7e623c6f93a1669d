"""Plays a table: each row is a script, run by the real Cline through the real gateway, and how it must end.

A row is a mapping. `turns` is the script; `version`, `timeout_s`, `task` are the run's. What is expected:

- `calls`: each recorded attempt as `"STATUS END FINISH_REASON"`, `-` for none; or `last` for the last one.
- `kinds`: what `fault_of` makes of each attempt, `-` for a whole answer.
- `ends`: `status/reason`; the failure's kind follows from the reason (SPEC §2).
- `status_code`, `flags`: as in the outcome; default none.
- `details`: some of `flag_details`.
- `waits_s`: how long Cline waits between the first two attempts, at least.

- `usage`: prompt, cached, completion and reasoning tokens; by default what the server's own log says it sent.

A text that begins with `~` is a regular expression.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from clinebox.adapters.gateway.session import GatewaySession
from clinebox.adapters.scripted_model import Ending, Script, ScriptedModelServer, Turn
from clinebox.adapters.scripted_model.records import RecordedRequest
from clinebox.adapters.scripted_model.script import OWN_ANSWERS
from clinebox.domain.cline.pins import NEWEST
from clinebox.domain.cline.prompt import prepare_prompt
from clinebox.domain.model_calls.faults import fault_of
from clinebox.domain.secrets.masker import Masker
from clinebox.entrypoints.bootstrap import local_ports, run_directory
from clinebox.entrypoints.gateway_host import serving_gateway
from clinebox.entrypoints.observer import SilentObserver
from clinebox.entrypoints.run_once import AgentRun, FinishedRun, Ports
from clinebox.entrypoints.run_report import run_to_json
from clinebox.entrypoints.run_request import ModelEndpoint, RunRequest

Row: TypeAlias = Mapping[str, Any]

STARTING: Final = 2
"""Clines that may start at once: 1.5 s of a core each."""
WORKING: Final = 10
"""Clines that may wait at once: 300 MiB each."""
START_BOUND_S: Final = 120.0
RUN_BOUND_S: Final = 240.0
KINDS: Final = {
    "model_request": "model_request_error",
    "model_transport": "model_transport_error",
    "empty_response": "agent_invalid_output",
    "deadline_before_output": "unknown",
    "unknown": "unknown",
}


@dataclass(frozen=True)
class Played:
    """A row that has run."""

    run: FinishedRun
    session: GatewaySession
    turns: tuple[Turn, ...]
    requests: tuple[RecordedRequest, ...]
    out: Path


class Lanes:
    """Bounds what goes on at once: few start, many wait."""

    def __init__(self) -> None:
        self._starting = asyncio.Semaphore(STARTING)
        self._working = asyncio.Semaphore(WORKING)

    @asynccontextmanager
    async def turn(self, session: GatewaySession, timeout_s: float) -> AsyncIterator[None]:
        """The place of one run; the next may start once this one has asked its model, or is over."""
        async with self._working:
            await self._starting.acquire()
            asked = asyncio.create_task(_first_call(session, timeout_s))
            asked.add_done_callback(lambda _: self._starting.release())
            try:
                yield
            finally:
                asked.cancel()
                await asyncio.wait([asked])


async def _first_call(session: GatewaySession, timeout_s: float) -> None:
    async with asyncio.timeout(timeout_s):
        while not session.records():  # noqa: ASYNC110 - records tell no event
            await asyncio.sleep(0.05)


async def _play(row: Row, home: Path, ports: Ports, lanes: Lanes) -> Played:
    (home / "work").mkdir(parents=True)
    script = Script.model_validate({"turns": row["turns"]})
    writer = run_directory(home / "out", Masker()).unwrap()
    async with ScriptedModelServer(script) as server:
        request = RunRequest(
            prepare_prompt(row.get("task", "Please do it.")).unwrap(),
            home / "work",
            ModelEndpoint(server.base_url, "m"),
            row.get("version", NEWEST),
            timeout_s=row.get("timeout_s", RUN_BOUND_S),
        )
        async with serving_gateway(request.model) as host:
            access = host.open()
            async with lanes.turn(access.session, START_BOUND_S):
                run = await AgentRun(request, ports, writer, SilentObserver(), access).execute()
    return Played(run, access.session, script.turns, tuple(server.requests), home / "out")


# what came of it


def _told(value: object) -> str:
    return "-" if value is None else str(value)


def _recorded(played: Played) -> list[str]:
    lines = (played.out / "model_calls.jsonl").read_text().splitlines()
    calls = [json.loads(line) for line in lines]
    assert [call["phase"] for call in calls] == ["ended"] * len(calls)
    return [" ".join(_told(call[name]) for name in ("http_status", "end", "finish_reason")) for call in calls]


def _kinds(played: Played) -> list[str]:
    faults = [fault_of(call) for call in played.session.records()]
    return ["-" if fault is None else fault.kind.value for fault in faults]


Tokens: TypeAlias = tuple[int, int | None, int, int | None]
"""Prompt, cached, completion, reasoning: a detail that no call tells is None."""


def _sent_tokens(played: Played) -> Tokens | None:
    """What the server sent, by its own log; None for no counts at all."""
    turns = [played.turns[request.turn - 1] for request in played.requests if _sent_usage(played, request)]
    counts = [turn.usage for turn in turns if turn.usage is not None]
    if not counts:
        return None
    return (
        sum(count.prompt_tokens for count in counts),
        _known_sum(count.cached_tokens for count in counts),
        sum(count.completion_tokens for count in counts),
        _known_sum(count.reasoning_tokens for count in counts),
    )


def _known_sum(parts: Iterable[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _sent_usage(played: Played, request: RecordedRequest) -> bool:
    if request.turn is None:
        return False
    turn = played.turns[request.turn - 1]
    if turn.answers_with_body or turn.fault in OWN_ANSWERS:
        return turn.fault is not None and turn.fault.value == "json"
    return request.ending is Ending.ANSWERED or (turn.fault is not None and turn.fault.strikes_at_end)


def _counted_tokens(outcome: Mapping[str, Any]) -> Tokens | None:
    usage = outcome["usage"]
    if usage is None:
        return None
    cached = usage["input_tokens_details"]["cached_tokens"]
    reasoning = usage["output_tokens_details"]["reasoning_tokens"]
    return (usage["input_tokens"], cached, usage["output_tokens"], reasoning)


def _waited_s(played: Played) -> float:
    first, second = played.session.records()[:2]
    return second.times.received_at_s - (first.times.ended_at_s or 0.0)


def _differences(row: Row, played: Played) -> list[str]:
    outcome: dict[str, Any] = run_to_json(played.run, played.out)
    calls = _recorded(played)
    status, reason = row["ends"].split("/")
    expected = {
        "ends": row["ends"],
        "failure_kind": KINDS[reason] if status == "failed" else None,
        "status_code": row.get("status_code"),
        "flags": sorted(row.get("flags", ())),
        "calls": row.get("calls", calls),
        "last": row.get("last", calls[-1] if calls else None),
        "kinds": row.get("kinds", _kinds(played)),
        "usage": row.get("usage", _sent_tokens(played)),
    }
    seen = {
        "ends": f"{outcome['status']}/{outcome['reason']}",
        "failure_kind": outcome["failure_kind"],
        "status_code": outcome["status_code"],
        "flags": outcome["flags"],
        "calls": calls,
        "last": calls[-1] if calls else None,
        "kinds": _kinds(played),
        "usage": _counted_tokens(outcome),
    }
    if "waits_s" in row:
        expected["waits"] = True
        seen["waits"] = _waited_s(played) >= row["waits_s"]
    details = outcome["flag_details"]
    for flag, fields in row.get("details", {}).items():
        expected |= {f"{flag}.{name}": value for name, value in fields.items()}
        seen |= {f"{flag}.{name}": details.get(flag, {}).get(name) for name in fields}
    return [
        f"{name} is {seen[name]!r}, expected {value!r}"
        for name, value in expected.items()
        if not _fits(value, seen[name])
    ]


def _fits(expected: object, seen: object) -> bool:
    if isinstance(expected, list) and isinstance(seen, list):
        return len(expected) == len(seen) and all(map(_fits, expected, seen))
    if isinstance(expected, str) and expected.startswith("~"):
        return re.fullmatch(expected[1:], str(seen)) is not None
    return expected == seen


async def _play_table(table: Mapping[str, Row], home: Path) -> list[str]:
    ports, lanes = local_ports(), Lanes()
    played = await asyncio.gather(*(_play(row, home / name, ports, lanes) for name, row in table.items()))
    rows = zip(table.items(), played, strict=True)
    return [f"{name}: {line}" for (name, row), each in rows for line in _differences(row, each)]


Play: TypeAlias = Callable[[Mapping[str, Row]], None]


@pytest.fixture
def play(tmp_path: Path, cline_binary: Callable[[str], Path]) -> Play:
    """Runs all rows at once, and fails with a line for each thing that is not as the table has it."""

    def run(table: Mapping[str, Row]) -> None:
        for version in {row.get("version", NEWEST) for row in table.values()}:
            cline_binary(version)
        found = asyncio.run(_play_table(table, tmp_path))
        assert not found, "\n".join(found)

    return run
