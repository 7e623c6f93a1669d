"""The outcome for programs (`classify --json`) and, in one line, for people."""

from __future__ import annotations

from typing import Final

from clinebox.domain.json_value import JsonValue
from clinebox.domain.one_line import cut, one_line
from clinebox.domain.outcome.model import EvidenceEntry, Outcome, Reason, Status, Usage
from clinebox.domain.outcome.policy import Verdict

LINE_LIMIT_CHARS: Final = 300

MEANINGS: Final[dict[Reason, str]] = {
    Reason.FINISHED: "Cline finished its task",
    Reason.CONTEXT_OVERFLOW: "the conversation no longer fits the model's context window",
    Reason.OUTPUT_CAP: "the model's answer hit its output limit",
    Reason.CONTENT_FILTER: "the model's answer was filtered",
    Reason.CUT_SHORT: "the model's answer was capped or filtered before any text",
    Reason.MISTAKE_LIMIT: "the model made too many invalid tool calls in a row",
    Reason.LOOP_DETECTED: "the model repeated one call until Cline stopped it",
    Reason.DEADLINE: "the deadline ended the run",
    Reason.STOPPED: "the run was stopped on request",
    Reason.EMPTY_RESPONSE: "the model answered with nothing, each time",
    Reason.MODEL_REQUEST: "the model server refused the request",
    Reason.MODEL_TRANSPORT: "the connection to the model server failed",
    Reason.DEADLINE_BEFORE_OUTPUT: "the deadline came before any model output",
    Reason.NO_RUN_RESULT: "Cline's process ended without a result",
    Reason.HARNESS_SETUP: "Cline did not start the run",
    Reason.OUTPUT_LIMIT: "the run wrote more than its bound",
    Reason.RUNTIME_INSTALL: "Cline could not be installed",
    Reason.SANDBOX: "the sandbox failed",
    Reason.GATEWAY_UNREACHABLE: "the sandbox cannot reach the gateway",
    Reason.UNCONFIRMED_CLEANUP: "nobody confirmed that the run's processes are gone",
    Reason.UNKNOWN: "no rule explains how the run ended",
}

_OWN_SENTENCES: Final = frozenset(
    {
        Reason.NO_RUN_RESULT,
        Reason.DEADLINE_BEFORE_OUTPUT,
        Reason.OUTPUT_LIMIT,
        Reason.UNCONFIRMED_CLEANUP,
    }
)
"""Reasons whose text is a whole sentence of ours."""


def outcome_to_json(outcome: Outcome, verdict: Verdict) -> dict[str, JsonValue]:
    """The fields of `classify --json`, texts whole; `superseded` only where a negative receipt precedes."""
    body = _facts_to_json(outcome)
    body |= {"gradable": verdict.gradable, "retryable": verdict.retryable}
    if outcome.superseded is not None:
        body["superseded"] = _facts_to_json(outcome.superseded)
    return body


def _facts_to_json(outcome: Outcome) -> dict[str, JsonValue]:
    return {
        "status": str(outcome.status),
        "reason": str(outcome.reason),
        "failure_kind": outcome.failure_kind,
        "status_code": outcome.status_code,
        "timed_out": outcome.timed_out,
        "stopped_by": None if outcome.stopped_by is None else str(outcome.stopped_by),
        "text": outcome.text,
        "flags": [str(flag) for flag in outcome.flags],
        "flag_details": {str(flag): details for flag, details in outcome.flag_details.items()},
        "notes": list(outcome.notes),
        "usage": usage_to_json(outcome.usage),
        "evidence": [entry_to_json(entry) for entry in outcome.evidence],
        "cline_version": outcome.cline_version,
    }


def usage_to_json(usage: Usage | None) -> JsonValue:
    """WIRE.md's usage object; null where nothing was counted, and null for each part that is unknown."""
    if usage is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def entry_to_json(entry: EvidenceEntry) -> JsonValue:
    """One evidence entry; `line` is null for a value that stands in no line of its own."""
    return {"source": entry.source, "line": entry.line, "field": entry.field, "excerpt": entry.excerpt}


def explain(outcome: Outcome) -> str:
    """One line for people: what happened, why, and where that is written; no control characters."""
    status = f" (HTTP {outcome.status_code})" if outcome.status_code is not None else ""
    means = MEANINGS[outcome.reason]
    if outcome.text and outcome.status is not Status.COMPLETED:
        means = outcome.text if outcome.reason in _OWN_SENTENCES else f"{means}: {outcome.text}"
    where = f" {one_line(_place(outcome.evidence[0]))}" if outcome.evidence else ""
    line = one_line(f"{outcome.status}/{outcome.reason}{status}: {means}")
    return cut(line, LINE_LIMIT_CHARS - len(where)) + where


def _place(entry: EvidenceEntry) -> str:
    line = "" if entry.line is None else f":{entry.line}"
    return f"[{entry.source}{line} {entry.field}]"
