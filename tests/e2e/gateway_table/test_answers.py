"""Answers that end in an unusual way, and deadlines at which a call waits (SPEC §2; FORMAT.md §5, §7)."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.cline

OLD = "3.0.57"
DONE: dict[str, Any] = {"text": "All done."}
HALF: dict[str, Any] = {"text": "Half an ans"}
EMPTY: dict[str, Any] = {"text": ""}
WORK: dict[str, Any] = {
    "text": "Working.",
    "tool_calls": [{"name": "run_commands", "arguments": {"commands": ["true"]}}],
}
OK, WORKED, LEFT = "200 finished stop", "200 finished tool_calls", "- client_closed -"
FINISHED = {"ends": "completed/finished", "flags": ["no_tool_called"]}
RECOVERED = {"ends": "completed/finished", "flags": ["no_tool_called", "recovered_faults"]}
FAILED = {"ends": "failed/model_transport"}


def ends_with(reason: str | None, turn: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**turn, "finish_reason": reason, **more}


def one(reason: str | None, turn: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One call that ends with this reason, and a good answer for a Cline that asks again."""
    call = f"200 finished {reason or '-'}"
    return {"turns": [ends_with(reason, turn), DONE], "calls": [call], **more}


CUT_SHORT = {"turns": [WORK, {**HALF, "finish_reason": None, "done": False, "usage": None}]}
ANSWERS: dict[str, dict[str, Any]] = {
    "no_done": {"turns": [{**DONE, "done": False}], "calls": [OK], "kinds": ["-"], **FINISHED},
    "closed_framing": {"turns": [{**DONE, "framing": "close"}], "calls": [OK], "kinds": ["-"], **FINISHED},
    "comments": {
        "turns": [{**DONE, "comments": {"count": 50}, "crlf": True, "data_space": False, "write_bytes": 7}],
        "calls": [OK],
        **FINISHED,
    },
    "abort_with_text": one("abort", HALF, **FAILED, kinds=["engine_abort"]),
    "error_with_text": one("error", HALF, **FAILED, kinds=["engine_abort"]),
    "abort_with_text_old": one("abort", HALF, **FAILED, kinds=["engine_abort"], version=OLD),
    "error_with_text_old": one("error", HALF, **FAILED, kinds=["engine_abort"], version=OLD),
    # a turn that the engine aborted behind its tool call: the call runs, and a later turn makes it good
    "abort_with_a_tool_call": {
        "turns": [ends_with("abort", WORK), DONE],
        "calls": ["200 finished abort", OK],
        "kinds": ["engine_abort", "-"],
        "ends": "completed/finished",
        "flags": ["faulty_turn"],
        "details": {"faulty_turn": {"count": 1}},
    },
    "abort_without_text": {
        "turns": [ends_with("abort", EMPTY), DONE],
        "calls": ["200 finished abort", OK],
        "kinds": ["engine_abort", "-"],
        **RECOVERED,
    },
    "error_without_text_for_good": {
        "turns": [ends_with("error", EMPTY, repeat=-1)],
        "calls": ["200 finished error"] * 3,
        "kinds": ["engine_abort"] * 3,
        **FAILED,
    },
    "weird": one("because", HALF, **FINISHED),
    "no_finish_reason_with_text": {
        **CUT_SHORT,
        "calls": [WORKED, "200 finished -"],
        "kinds": ["-", "no_finish_reason"],
        "flags": ["usage_partial"],
        **FAILED,
    },
    "no_finish_reason_with_text_old": {
        **CUT_SHORT,
        "version": OLD,
        "calls": [WORKED, "200 finished -"],
        "kinds": ["-", "no_finish_reason"],
        "flags": ["usage_partial"],
        **FAILED,
    },
    # the end of the connection is the end of the answer: only the finish reason tells that it was cut
    "cut_after_some_text_old": {
        "turns": [WORK, {**HALF, "chunk_size": 2, "framing": "close", "fault": "close_mid_stream"}],
        "version": OLD,
        "calls": [WORKED, "200 finished -"],
        "kinds": ["-", "no_finish_reason"],
        "flags": ["usage_partial"],
        **FAILED,
    },
    "no_finish_reason_without_text_old": {
        "turns": [ends_with(None, EMPTY), DONE],
        "version": OLD,
        "calls": ["200 finished -", OK],
        "kinds": ["no_finish_reason", "-"],
        **RECOVERED,
    },
    "content_filter_with_text": one("content_filter", HALF, ends="incomplete/content_filter"),
    "content_filter_without_text": one("content_filter", EMPTY, ends="incomplete/content_filter"),
    "length_with_text_old": one("length", HALF, ends="incomplete/output_cap", version=OLD),
    "length_without_text_old": one("length", EMPTY, ends="incomplete/output_cap", version=OLD),
    # 3.0.64 and later nudge the model on (FORMAT.md §7)
    "length_once": {
        "turns": [ends_with("length", HALF), DONE],
        "calls": ["200 finished length", OK],
        **FINISHED,
    },
    "length_for_good": {
        "turns": [ends_with("length", HALF, repeat=-1)],
        "calls": ["200 finished length"] * 4,
        "ends": "incomplete/output_cap",
    },
    "length_with_a_tool_call": {
        "turns": [ends_with("length", WORK), DONE],
        "calls": ["200 finished length", OK],
        "ends": "completed/finished",
    },
    "empty_once": {"turns": [EMPTY, DONE], "calls": [OK, OK], **RECOVERED},
    "empty_for_good": {
        "turns": [{**EMPTY, "repeat": -1}],
        "calls": [OK] * 3,
        "kinds": ["-"] * 3,
        "ends": "failed/empty_response",
    },
}


def waiting(phase: str, sentence: str) -> dict[str, Any]:
    return {"model_call_pending": {"phase": phase, "sentence": f"~{sentence}"}}


FIRST_BYTE = r"had been waiting \d+ s for its first byte"
HUNG_BEFORE = {"fault": "hang_before_headers"}
DEADLINES: dict[str, dict[str, Any]] = {
    "before_headers": {
        "turns": [HUNG_BEFORE],
        "calls": [LEFT],
        "kinds": ["abandoned"],
        "ends": "failed/model_transport",
        "flags": ["model_call_pending", "usage_unknown"],
        "details": waiting("waiting", f"call 1 {FIRST_BYTE}"),
    },
    "after_headers": {
        "turns": [{**DONE, "fault": "hang_after_headers"}],
        "calls": ["200 client_closed -"],
        "kinds": ["abandoned"],
        "ends": "failed/model_transport",
        "flags": ["model_call_pending", "usage_unknown"],
        "details": waiting("waiting", f"call 1 {FIRST_BYTE}"),
    },
    "mid_stream": {
        "turns": [{**HALF, "chunk_size": 2, "fault": "hang_mid_stream"}],
        "calls": ["200 client_closed -"],
        "kinds": ["abandoned"],
        "ends": "incomplete/deadline",
        "flags": ["model_call_pending", "usage_unknown"],
        "details": waiting("idle", r"call 1 had been silent \d+ s in the middle of its answer"),
    },
    "fourth_call": {
        "turns": [WORK, WORK, WORK, HUNG_BEFORE],
        "calls": [WORKED, WORKED, WORKED, LEFT],
        "kinds": ["-", "-", "-", "abandoned"],
        "ends": "incomplete/deadline",
        "flags": ["model_call_pending", "usage_partial"],
        "details": waiting("waiting", f"call 4 {FIRST_BYTE}"),
    },
    # no call is open: Cline waits between its tries
    "between_tries": {
        "turns": [{"status": 503, "headers": {"Retry-After": "50"}, "repeat": -1}],
        "calls": ["503 finished -"],
        "kinds": ["status"],
        "ends": "failed/model_transport",
        "flags": ["usage_unknown"],
    },
    "in_a_tool": {
        "turns": [
            {
                "text": "Waiting.",
                "tool_calls": [{"name": "run_commands", "arguments": {"commands": ["sleep 300"]}}],
            }
        ],
        "timeout_s": 28.0,  # before the tool's own limit of 30 s
        "calls": [WORKED],
        "kinds": ["-"],
        "ends": "incomplete/deadline",
        "flags": ["tool_effect_unknown"],
    },
}
DEADLINE_S = 40.0


def test_each_end_of_an_answer(play: Any) -> None:
    play(ANSWERS)


def test_a_deadline_says_which_wait_it_ended(play: Any) -> None:
    play({name: {"timeout_s": DEADLINE_S, **row} for name, row in DEADLINES.items()})


def silent(name: str, call: str, **more: Any) -> dict[str, Any]:
    return {
        "turns": [{**HALF, "chunk_size": 2, "fault": name}],
        "timeout_s": 420.0,
        "calls": [call],
        "kinds": ["timeout"],
        "ends": "failed/model_transport",
        "flags": ["usage_unknown"],
        **more,
    }


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", [OLD, "3.0.65"])
def test_300_s_of_silence_is_the_transport_s_fault(play: Any, version: str) -> None:
    rows = {
        "before_headers": silent("hang_before_headers", "- timeout -"),
        "after_headers": silent("hang_after_headers", "200 timeout -"),
        "mid_stream": silent("hang_mid_stream", "200 timeout -"),
    }
    play({name: {**row, "version": version} for name, row in rows.items()})
