"""Facts beside the outcome, each with its details; they change no status (SPEC §2, flags)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from clinebox.domain.cline.log_lines import Retry
from clinebox.domain.cline.nesting import SPAWN_TOOL
from clinebox.domain.cline.stdout import StdoutFacts
from clinebox.domain.json_value import JsonValue
from clinebox.domain.outcome.case import Case, Finding
from clinebox.domain.outcome.conflicts import conflicts
from clinebox.domain.outcome.flags_gateway import (
    SHOWN_LIMIT,
    Details,
    call_behind,
    faulty_turns,
    pending_details,
    recovered_calls,
)
from clinebox.domain.outcome.model import Flag, Reason, StoppedBy
from clinebox.domain.outcome.usage import reading_of

FlagRule: TypeAlias = Callable[[Case, Finding, StdoutFacts], Details | None]


def flags_of(case: Case, finding: Finding) -> dict[Flag, JsonValue]:
    """Every flag that the evidence supports, with its details."""
    stdout = case.stdout or StdoutFacts(source="")
    found = {flag: rule(case, finding, stdout) for flag, rule in FLAG_RULES.items()}
    return {flag: details for flag, details in found.items() if details is not None}


def _blank_answer(_case: Case, finding: Finding, stdout: StdoutFacts) -> Details | None:
    if finding.reason is not Reason.FINISHED or stdout.run_result is None:
        return None
    text = stdout.run_result.value.text or ""
    return None if text.strip() else {"line": stdout.run_result.line}


def _no_tool_called(_case: Case, finding: Finding, stdout: StdoutFacts) -> Details | None:
    return {} if finding.reason is Reason.FINISHED and not stdout.tools.calls else None


def _subagent_failed(case: Case, _finding: Finding, stdout: StdoutFacts) -> Details | None:
    facts = stdout.subagents
    if not facts.failures:
        return None
    failures: list[JsonValue] = [
        {
            "line": failure.line,
            "message": failure.value.message,
            "error_class": failure.value.error_class,
            **_logged_cause(case, failure.value.agent_id),
            **call_behind(case, failure),
        }
        for failure in facts.failures
    ]
    return {"count": facts.failures_count, "failures": failures}


def _logged_cause(case: Case, agent_id: str | None) -> Details:
    """What cline.log says of the same agent: the status that stdout never has."""
    log = case.log
    end = log.end_of(agent_id) if log is not None else None
    if end is None or log is None:
        return {}
    fault = end.stream_error
    if fault is None:
        return {"log": {"source": log.source, "line": end.error.line}}
    cause = fault.value
    told: Details = {"source": log.source, "line": fault.line, "name": cause.name, "status": cause.status}
    return {"log": told}


def _stream_maybe_truncated(case: Case, _finding: Finding, stdout: StdoutFacts) -> Details | None:
    fell = stdout.usage.lead_fell_to_zero
    # Up to 3.0.60 a stream that just ends is an answer, and zero usage its only trace (SURPRISES.md B).
    told = case.version.version is not None and case.version.rules.missing_finish_reason_is_error
    if fell is None or told or case.gateway is not None:
        return None
    return {"line": fell.line}


def _usage_unknown(case: Case, _finding: Finding, stdout: StdoutFacts) -> Details | None:
    # A run that made no model call has used nothing, and there is nothing to be unknown.
    called = case.gateway.completions if case.gateway is not None else stdout.lead_turns
    return {} if called and reading_of(case).usage is None else None


def _usage_partial(case: Case, _finding: Finding, _stdout: StdoutFacts) -> Details | None:
    reading = reading_of(case)
    if reading.usage is None or not reading.missing:
        return None
    return {"missing": list(reading.missing)}


def _signal_received(case: Case, _finding: Finding, _stdout: StdoutFacts) -> Details | None:
    aborted = case.aborted
    return {"line": aborted.line} if aborted is not None and case.was_aborted("local_abort") else None


def _tool_effect_unknown(_case: Case, _finding: Finding, stdout: StdoutFacts) -> Details | None:
    calls: list[JsonValue] = [
        {"line": call.line, "tool_name": call.value.tool_name, "tool_call_id": call.value.tool_call_id}
        for call in stdout.tools.open_calls[:SHOWN_LIMIT]
    ]
    return {"calls": calls} if calls else None


def _killed_in_tool(_case: Case, finding: Finding, stdout: StdoutFacts) -> Details | None:
    if finding.reason is not Reason.NO_RUN_RESULT or not stdout.tools.open_calls:
        return None
    call = stdout.tools.open_calls[-1]
    # In an open `spawn_agent` it is the sub-agent that runs: its model call, or a call of its own.
    if call.value.tool_name == SPAWN_TOOL:
        return None
    return {"line": call.line, "tool_name": call.value.tool_name}


def _background_processes_left(case: Case, _finding: Finding, _stdout: StdoutFacts) -> Details | None:
    survivors = case.receipt.survivors if case.receipt is not None else ()
    if not survivors:
        return None
    shown: list[JsonValue] = [
        {"pid": survivor.pid, "command": survivor.command} for survivor in survivors[:SHOWN_LIMIT]
    ]
    return {"count": len(survivors), "processes": shown}


def _model_call_pending(case: Case, finding: Finding, stdout: StdoutFacts) -> Details | None:
    if finding.stopped_by is not StoppedBy.DEADLINE:
        return None
    if case.gateway is not None:
        return pending_details(case.gateway)
    # Without the gateway only this is known: the turn began, and its call had not ended.
    if stdout.lead_turn is None or stdout.turn_counted or stdout.tools.open_calls:
        return None
    phase = "no_output_yet" if stdout.turn_output is None else "streaming"
    return {"phase": phase, "since": stdout.lead_turn.ts, "line": stdout.lead_turn.line, "wait_s": None}


def _faulty_turn(case: Case, _finding: Finding, _stdout: StdoutFacts) -> Details | None:
    return faulty_turns(case.gateway) if case.gateway is not None else None


def _conflicting_evidence(case: Case, _finding: Finding, _stdout: StdoutFacts) -> Details | None:
    found: list[JsonValue] = [conflict.sentence for conflict in conflicts(case)]
    return {"conflicts": found} if found else None


def _recovered_faults(case: Case, _finding: Finding, stdout: StdoutFacts) -> Details | None:
    if case.gateway is not None:
        return recovered_calls(case.gateway)
    # Only a run that went on to its own end has recovered from anything.
    log, result = case.log, stdout.run_result
    if log is None or result is None or result.value.finish_reason not in {"completed", "aborted"}:
        return None
    faults: list[JsonValue] = [
        {
            "line": fault.line,
            "kind": "empty_response" if isinstance(fault.value, Retry) else "stream_error",
            "detail": fault.value.finish_reason if isinstance(fault.value, Retry) else fault.value.name,
            "status": None if isinstance(fault.value, Retry) else fault.value.status,
        }
        for fault in log.faults[:SHOWN_LIMIT]
    ]
    return {"source": log.source, "count": log.faults_count, "faults": faults} if faults else None


def _output_truncated(case: Case, finding: Finding, _stdout: StdoutFacts) -> Details | None:
    sources: list[JsonValue] = [*sorted(case.evidence.truncated_sources)]
    if not sources and finding.reason is not Reason.OUTPUT_LIMIT:
        return None
    return {"sources": sources}


def _line_truncated(case: Case, _finding: Finding, stdout: StdoutFacts) -> Details | None:
    log = case.log
    counted = {stdout.source: stdout.oversized_lines}
    if log is not None:
        counted[log.source] = log.oversized_lines
    calls = case.evidence.model_calls
    if calls is not None:
        counted[calls.source] = calls.oversized_lines
    lines: Details = {source: count for source, count in counted.items() if count}
    return {"lines": lines} if lines else None


def _lingered(case: Case, _finding: Finding, _stdout: StdoutFacts) -> Details | None:
    stop = case.own_stop
    return {"ended_by": str(stop)} if stop is not None and case.lingered else None


def _sandbox_tools_failed(_case: Case, _finding: Finding, stdout: StdoutFacts) -> Details | None:
    tools = stdout.tools
    if not tools.commands or tools.commands_failed < tools.commands:
        return None
    return {"commands": tools.commands}


FLAG_RULES: Final[dict[Flag, FlagRule]] = {
    Flag.BLANK_ANSWER: _blank_answer,
    Flag.NO_TOOL_CALLED: _no_tool_called,
    Flag.SUBAGENT_FAILED: _subagent_failed,
    Flag.STREAM_MAYBE_TRUNCATED: _stream_maybe_truncated,
    Flag.USAGE_UNKNOWN: _usage_unknown,
    Flag.USAGE_PARTIAL: _usage_partial,
    Flag.SIGNAL_RECEIVED: _signal_received,
    Flag.TOOL_EFFECT_UNKNOWN: _tool_effect_unknown,
    Flag.BACKGROUND_PROCESSES_LEFT: _background_processes_left,
    Flag.MODEL_CALL_PENDING: _model_call_pending,
    Flag.KILLED_IN_TOOL: _killed_in_tool,
    Flag.FAULTY_TURN: _faulty_turn,
    Flag.CONFLICTING_EVIDENCE: _conflicting_evidence,
    Flag.RECOVERED_FAULTS: _recovered_faults,
    Flag.OUTPUT_TRUNCATED: _output_truncated,
    Flag.LINE_TRUNCATED: _line_truncated,
    Flag.LINGERED: _lingered,
    Flag.SANDBOX_TOOLS_FAILED: _sandbox_tools_failed,
}
