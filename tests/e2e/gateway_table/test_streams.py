"""Answers that break, lie or never come: each fault of the scripted model, once and for good."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.cline

OLD, NEW = "3.0.57", "3.0.65"
DONE: dict[str, Any] = {"text": "All done."}
FOX: dict[str, Any] = {"text": "The quick brown fox jumps over the lazy dog."}
WORK: dict[str, Any] = {
    "text": "Working.",
    "tool_calls": [{"name": "run_commands", "arguments": {"commands": ["true"]}}],
}
OK = "200 finished stop"
WORKED = "200 finished tool_calls"
RECOVERED = {"ends": "completed/finished", "flags": ["no_tool_called", "recovered_faults"]}
WHOLE = {"ends": "completed/finished", "flags": ["no_tool_called"]}
TRANSPORT = {"ends": "failed/model_transport"}


def fault(name: str, **more: Any) -> dict[str, Any]:
    return {**FOX, "fault": name, **more}


# one fault, then a good answer: what a retry of Cline's gets over, and what it does not

ONCE: dict[str, dict[str, Any]] = {
    "refuse": {
        "turns": [{"fault": "refuse", "for_s": 10.0}, DONE],
        "last": OK,
        **RECOVERED,
    },
    "reset_before_headers": {
        "turns": [fault("reset_before_headers"), DONE],
        "calls": ["- upstream_closed -", OK],
        "kinds": ["cut", "-"],
        **RECOVERED,
    },
    "close_before_headers": {
        "turns": [fault("close_before_headers"), DONE],
        "calls": ["- upstream_closed -", OK],
        "kinds": ["cut", "-"],
        **RECOVERED,
    },
    "reset_after_headers": {
        "turns": [fault("reset_after_headers"), DONE],
        "calls": ["200 upstream_closed -", OK],
        "kinds": ["cut", "-"],
        **RECOVERED,
    },
    "close_after_headers": {
        "turns": [fault("close_after_headers"), DONE],
        "calls": ["200 upstream_closed -", OK],
        "kinds": ["cut", "-"],
        **RECOVERED,
    },
    "redirect": {
        "turns": [{"fault": "redirect"}, DONE],
        "calls": ["307 refused -", OK],
        "kinds": ["redirect", "-"],
        **RECOVERED,
    },
    "reset_mid_stream": {
        "turns": [WORK, fault("reset_mid_stream"), DONE],
        "calls": [WORKED, "200 upstream_closed -"],
        "kinds": ["-", "cut"],
        **TRANSPORT,
    },
    "close_mid_stream": {
        "turns": [fault("close_mid_stream"), DONE],
        "calls": ["200 upstream_closed -"],
        "kinds": ["cut"],
        **TRANSPORT,
    },
    "reset_at_end": {"turns": [fault("reset_at_end")], "calls": ["200 upstream_closed stop"], **WHOLE},
    "close_at_end": {"turns": [fault("close_at_end")], "calls": ["200 upstream_closed stop"], **WHOLE},
    "hang_before_headers": {"turns": [fault("hang_before_headers", for_s=1.0)], "calls": [OK], **WHOLE},
    "hang_after_headers": {"turns": [fault("hang_after_headers", for_s=1.0)], "calls": [OK], **WHOLE},
    "hang_mid_stream": {"turns": [fault("hang_mid_stream", for_s=1.0)], "calls": [OK], **WHOLE},
    "hang_at_end": {"turns": [fault("hang_at_end", for_s=1.0)], "calls": [OK], **WHOLE},
    "html": {
        "turns": [{"fault": "html"}, DONE],
        "calls": ["200 finished -"],
        "kinds": ["not_a_stream"],
        **TRANSPORT,
    },
    "html_old": {
        "turns": [{"fault": "html"}, DONE],
        "version": OLD,
        "calls": ["200 finished -", OK],
        "kinds": ["not_a_stream", "-"],
        **RECOVERED,
    },
    "json": {
        "turns": [fault("json"), DONE],
        "calls": ["200 finished stop"],
        "kinds": ["not_a_stream"],
        **TRANSPORT,
    },
    "empty_body": {
        "turns": [{"fault": "empty_body"}, DONE],
        "calls": ["200 finished -"],
        "kinds": ["not_a_stream"],
        **TRANSPORT,
    },
    "malformed_sse": {
        "turns": [fault("malformed_sse"), DONE],
        **TRANSPORT,
    },
    "malformed_sse_mid_stream": {
        "turns": [fault("malformed_sse_mid_stream"), DONE],
        **TRANSPORT,
    },
    "sse_error": {
        "turns": [{"fault": "sse_error", "body": {"error": {"message": "out of memory", "code": 507}}}, DONE],
        "calls": ["200 finished -"],
        "kinds": ["error_object"],
        "ends": "failed/model_request",
        "status_code": 507,
    },
    "sse_error_mid_stream": {
        "turns": [fault("sse_error_mid_stream", body={"error": {"message": "out of memory"}}), DONE],
        "calls": ["200 finished -"],
        "kinds": ["error_object"],
        "ends": "failed/model_request",
    },
}


def test_a_fault_once(play: Any) -> None:
    play(ONCE)
