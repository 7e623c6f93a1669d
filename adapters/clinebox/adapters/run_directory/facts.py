"""The facts of a run that no stream holds: from our own `outcome.json`, or from `meta.json` of others."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from clinebox.domain.json_value import JsonValue, as_int, as_list, as_mapping, as_text
from clinebox.domain.outcome.evidence import ExitEvidence, ExpectedSource, RequestedStop
from clinebox.domain.outcome.failed_step import REASONS as STEP_REASONS
from clinebox.domain.outcome.failed_step import FailedStep
from clinebox.domain.outcome.model import StoppedBy


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a judgement needs beside the streams. `exit` tells "never started" from "killed early" alone.

    `receipt_nonce` is the session's nonce: the receipt must carry it whenever the run is judged again.
    """

    exit: ExitEvidence | None = None
    cline_version: str | None = None
    requested_stop: RequestedStop | None = None
    expected_sources: frozenset[ExpectedSource] = field(default_factory=frozenset)
    truncated_sources: frozenset[str] = field(default_factory=frozenset)
    expected_base_url: str | None = None
    receipt_nonce: str | None = None
    failed_step: FailedStep | None = None
    """A step before or after the run that failed: no stream can tell it."""


def facts_json(facts: RunFacts) -> dict[str, JsonValue]:
    """The members that `outcome.json` carries beside the outcome, so that it can be judged again."""
    ended = facts.exit
    stop = facts.requested_stop
    return {
        "exit_code": None if ended is None else ended.exit_code,
        "signal": None if ended is None else ended.signal,
        "exec_error": None if ended is None else ended.exec_error,
        "cline_version": facts.cline_version,
        "requested_stop": None if stop is None else {"by": stop.by.value, "at_s": stop.at_s},
        "expected_sources": [*sorted(source.value for source in facts.expected_sources)],
        "truncated_sources": [*sorted(facts.truncated_sources)],
        "base_url": facts.expected_base_url,
        "receipt_nonce": facts.receipt_nonce,
        "failed_step": None if facts.failed_step is None else _step_json(facts.failed_step),
    }


def read_own_facts(value: JsonValue, source: str) -> RunFacts:
    """The facts in an `outcome.json`; a member of another type is not there."""
    members = as_mapping(value)
    return RunFacts(
        exit=_exit(members, source),
        cline_version=as_text(members.get("cline_version")) or as_text(members.get("version")),
        requested_stop=_requested_stop(members.get("requested_stop")),
        expected_sources=frozenset(
            source for source in ExpectedSource if source.value in as_list(members.get("expected_sources"))
        ),
        truncated_sources=frozenset(
            name for name in as_list(members.get("truncated_sources")) if isinstance(name, str)
        ),
        expected_base_url=as_text(members.get("base_url")),
        receipt_nonce=as_text(members.get("receipt_nonce")),
        failed_step=_failed_step(members.get("failed_step")),
    )


def read_meta_facts(value: JsonValue, source: str) -> RunFacts:
    """The facts in a `meta.json`: version, exit code, signal, and why the program was never started."""
    members = as_mapping(value)
    return RunFacts(exit=_exit(members, source), cline_version=as_text(members.get("version")))


def _exit(members: dict[str, JsonValue], source: str) -> ExitEvidence | None:
    ended = ExitEvidence(
        source,
        exit_code=as_int(members.get("exit_code")),
        signal=as_text(members.get("signal")),
        exec_error=as_text(members.get("exec_error")),
    )
    return None if ended == ExitEvidence(source) else ended


def _step_json(step: FailedStep) -> JsonValue:
    return {"reason": step.reason.value, "failure_kind": step.failure_kind, "message": step.message}


def _failed_step(value: JsonValue) -> FailedStep | None:
    """A step with one of the reasons that a step can have; else it is none."""
    members = as_mapping(value)
    reason = next((reason for reason in STEP_REASONS if reason.value == members.get("reason")), None)
    kind, message = as_text(members.get("failure_kind")), as_text(members.get("message"))
    return None if reason is None or kind is None or message is None else FailedStep(reason, kind, message)


def _requested_stop(value: JsonValue) -> RequestedStop | None:
    members = as_mapping(value)
    by = next((member for member in StoppedBy if member.value == members.get("by")), None)
    return None if by is None else RequestedStop(by, _seconds(members.get("at_s")))


def _seconds(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) else None
