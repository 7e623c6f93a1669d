"""The outcome of a run: what happened, with the lines that prove it (SPEC §2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from clinebox.domain.json_value import JsonValue


class Status(StrEnum):
    """What a caller may do with the run: grade it (completed, incomplete) or not (failed)."""

    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


class Reason(StrEnum):
    """Why the run ended as it did; closed, one row of SPEC §2's table each."""

    FINISHED = "finished"
    CONTEXT_OVERFLOW = "context_overflow"
    OUTPUT_CAP = "output_cap"
    CONTENT_FILTER = "content_filter"
    CUT_SHORT = "cut_short"
    MISTAKE_LIMIT = "mistake_limit"
    LOOP_DETECTED = "loop_detected"
    DEADLINE = "deadline"
    STOPPED = "stopped"
    EMPTY_RESPONSE = "empty_response"
    MODEL_REQUEST = "model_request"
    MODEL_TRANSPORT = "model_transport"
    DEADLINE_BEFORE_OUTPUT = "deadline_before_output"
    NO_RUN_RESULT = "no_run_result"
    HARNESS_SETUP = "harness_setup"
    OUTPUT_LIMIT = "output_limit"
    RUNTIME_INSTALL = "runtime_install"
    SANDBOX = "sandbox"
    GATEWAY_UNREACHABLE = "gateway_unreachable"
    UNCONFIRMED_CLEANUP = "unconfirmed_cleanup"
    UNKNOWN = "unknown"


class StoppedBy(StrEnum):
    """Who of ours ended the run; absent when it ended by itself."""

    DEADLINE = "deadline"
    CALLER = "caller"
    OPERATOR = "operator"
    OUTPUT_LIMIT = "output_limit"


class Flag(StrEnum):
    """A fact beside the outcome; changes no status."""

    BLANK_ANSWER = "blank_answer"
    NO_TOOL_CALLED = "no_tool_called"
    SUBAGENT_FAILED = "subagent_failed"
    STREAM_MAYBE_TRUNCATED = "stream_maybe_truncated"
    USAGE_UNKNOWN = "usage_unknown"
    USAGE_PARTIAL = "usage_partial"
    SIGNAL_RECEIVED = "signal_received"
    TOOL_EFFECT_UNKNOWN = "tool_effect_unknown"
    BACKGROUND_PROCESSES_LEFT = "background_processes_left"
    MODEL_CALL_PENDING = "model_call_pending"
    KILLED_IN_TOOL = "killed_in_tool"
    FAULTY_TURN = "faulty_turn"
    CONFLICTING_EVIDENCE = "conflicting_evidence"
    RECOVERED_FAULTS = "recovered_faults"
    OUTPUT_TRUNCATED = "output_truncated"
    LINE_TRUNCATED = "line_truncated"
    LINGERED = "lingered"
    SANDBOX_TOOLS_FAILED = "sandbox_tools_failed"


@dataclass(frozen=True, slots=True)
class EvidenceEntry:
    """One line that decided: `source` is the file read, `line` 1-based or None, `excerpt` bounded."""

    source: str
    line: int | None
    field: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the run (WIRE.md); cached tokens are inside `input_tokens`; unknown is None, never 0."""

    input_tokens: int
    cached_tokens: int | None
    output_tokens: int
    reasoning_tokens: int | None

    @property
    def total_tokens(self) -> int:
        """Input and output together; cached and reasoning tokens are inside them."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened in one run. A failed outcome has no reward: there is no field to hold one."""

    status: Status
    reason: Reason
    failure_kind: str | None
    status_code: int | None
    timed_out: bool
    stopped_by: StoppedBy | None
    text: str
    flags: tuple[Flag, ...]
    flag_details: Mapping[Flag, JsonValue]
    notes: tuple[str, ...]
    usage: Usage | None
    evidence: tuple[EvidenceEntry, ...]
    cline_version: str | None
    superseded: Outcome | None = None
    """What would have been said without the negative receipt that precedes all (SPEC §2)."""
