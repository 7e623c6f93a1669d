"""Sub-agents and teammates: how many there were, and which failed of what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from clinebox.domain.cline.cited import Cited, cite
from clinebox.domain.cline.events import AgentError, Hook, Record, TeamRecord, ToolEnd, ToolStart
from clinebox.domain.cline.nesting import SPAWN_TOOL
from clinebox.domain.json_value import as_mapping, as_text

FAILURES_LIMIT: Final = 20
MESSAGE_LIMIT_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class SubagentFailure:
    """One failed sub-agent: Cline's own message, and its id where a hook told it."""

    agent_id: str | None
    message: str
    error_class: str | None


class SubagentFacts(NamedTuple):
    """Sub-agents and teammates that were started, and the first failures among them."""

    started: int = 0
    failures: tuple[Cited[SubagentFailure], ...] = ()
    failures_count: int = 0


class SubagentFold:
    """Collects sub-agents' failures: their own terminal error, or what their call's end says."""

    __slots__ = ("_agent_id", "_count", "_failures", "_started", "_told")

    def __init__(self) -> None:
        self._agent_id: str | None = None
        self._started = self._count = 0
        self._failures: list[Cited[SubagentFailure]] = []
        self._told = False

    def hook(self, hook: Hook) -> None:
        """A hook names the agent that failed just before its `error` event is written."""
        if hook.name in {"agent_start", "agent_error"} and hook.parent_agent_id is not None:
            self._agent_id = hook.agent_id

    def start(self, call: ToolStart) -> None:
        """A tool call; only `spawn_agent` starts a sub-agent."""
        self._started += call.tool_name == SPAWN_TOOL

    def error(self, record: Record, error: AgentError) -> None:
        """An error inside the brackets; only a terminal one is a failure."""
        if error.recoverable is not False:
            return
        self._told = True
        failure = SubagentFailure(self._agent_id, _short(error.message), error.error_class)
        self._add(failure, record)

    def end(self, record: Record, call: ToolEnd) -> None:
        """The end of a call; `finishReason: error` tells a failure whose own error line is lost."""
        if call.tool_name != SPAWN_TOOL:
            return
        output = as_mapping(call.output)
        failed = call.error is not None or output.get("finishReason") == "error"
        if failed and not self._told:
            self._add(SubagentFailure(None, _short(call.error or as_text(output.get("text"))), None), record)
        self._told = False

    def team(self, record: Record, event: TeamRecord) -> None:
        """A teammate's event; `run_failed` is its terminal error (source, 3.0.56)."""
        self._started += event.kind == "teammate_spawned"
        inner = event.inner
        if isinstance(inner, AgentError) and inner.recoverable is False:
            self._add(SubagentFailure(event.agent_id, _short(inner.message), inner.error_class), record)
        elif event.kind == "run_failed":
            self._add(SubagentFailure(event.agent_id, _short(event.message), None), record)

    def _add(self, failure: SubagentFailure, record: Record) -> None:
        self._count += 1
        if len(self._failures) < FAILURES_LIMIT:
            self._failures.append(cite(failure, record.line, record.ts, record.raw, b'"message":'))

    def facts(self) -> SubagentFacts:
        """What was seen so far."""
        return SubagentFacts(self._started, tuple(self._failures), self._count)


def _short(message: str | None) -> str:
    return (message or "")[:MESSAGE_LIMIT_CHARS]
