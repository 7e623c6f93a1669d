"""Usage is the exact sum of what the server sent, whatever part of it Cline's own count misses (SPEC §2)."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.cline

OLD = "3.0.57"
WORKED, OK, LEFT = "200 finished tool_calls", "200 finished stop", "- client_closed -"


def says(text: str, prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    return {"text": text, "usage": {"prompt_tokens": prompt, "completion_tokens": completion}, **more}


def runs(command: str, prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    call = {"name": "run_commands", "arguments": {"commands": [command]}}
    return says("Working.", prompt, completion, tool_calls=[call], **more)


def spawns(*names: str) -> dict[str, Any]:
    calls = [
        {"name": "spawn_agent", "arguments": {"systemPrompt": f"You are {name}.", "task": "Help me."}}
        for name in names
    ]
    return says("I will ask.", 1_001, 11, tool_calls=calls)


def of(name: str) -> dict[str, Any]:
    return {"match": {"system_contains": name}}


def lengthy(number: int) -> dict[str, Any]:
    """A turn of 45,000 tokens and more by Cline's own estimate: three fill its window of 128,000 (RUN.md)."""
    return {
        **runs(f"echo {number}", 1_000 + number, 43),
        "text": "All the words. " * 12_000,
        "chunk_size": 1_000_000,
    }


DETAILED = {"prompt_tokens": 101, "completion_tokens": 31, "cached_tokens": 64, "reasoning_tokens": 17}
SUB_AGENT = [
    spawns("HELPER-A"),
    runs("true", 2_003, 23, **of("HELPER-A")),
    says("helped", 4_007, 37, **of("HELPER-A")),
    says("All done.", 8_009, 41),
]
SUB_AGENT_ENDS = {
    "turns": SUB_AGENT,
    "calls": [WORKED, WORKED, OK, OK],
    "usage": (15_020, None, 112, None),
    "ends": "completed/finished",
}
SUMMARY = says("A summary.", 16_001, 59, match={"has_tools": False}, repeat=-1)
COMPACTED = [SUMMARY, *(lengthy(number) for number in range(3))]
COMPACTION_ENDS = {
    "turns": [*COMPACTED, says("All done.", 501, 61)],
    "calls": [WORKED, WORKED, OK, WORKED, OK, OK],
    "usage": (35_506, None, 308, None),
    "ends": "completed/finished",
}
PENDING = {
    "model_call_pending": {
        "phase": "waiting",
        "sentence": r"~call \d had been waiting \d+ s for its first byte",
    }
}

TABLE: dict[str, dict[str, Any]] = {
    "sub_agent": SUB_AGENT_ENDS,
    "sub_agent_that_fails": {
        "turns": [
            spawns("HELPER-A"),
            runs("true", 2_003, 23, **of("HELPER-A")),
            {"status": 400, "body": {"error": {"message": "no"}}, **of("HELPER-A")},
            says("All done.", 8_009, 41),
        ],
        "calls": [WORKED, WORKED, "400 finished -", OK],
        "usage": (11_013, None, 75, None),
        "ends": "completed/finished",
        "flags": ["recovered_faults", "subagent_failed"],
    },
    "two_sub_agents": {
        "turns": [
            spawns("HELPER-A", "HELPER-B"),
            says("one", 2_003, 23, **of("HELPER-A")),
            says("two", 4_007, 37, **of("HELPER-B")),
            says("All done.", 8_009, 41),
        ],
        "calls": [WORKED, OK, OK, OK],
        "usage": (15_020, None, 112, None),
        "ends": "completed/finished",
    },
    "sub_agent_at_a_deadline": {
        "timeout_s": 30.0,
        "turns": [*SUB_AGENT[:2], {"fault": "hang_before_headers", **of("HELPER-A")}],
        "calls": [WORKED, WORKED, LEFT],
        "usage": (3_004, None, 34, None),
        "ends": "incomplete/deadline",
        "flags": ["model_call_pending", "tool_effect_unknown", "usage_partial"],
        "details": PENDING,
    },
    "compaction": COMPACTION_ENDS,
    "compaction_at_a_deadline": {
        "timeout_s": 40.0,
        "turns": [*COMPACTED, {"fault": "hang_before_headers"}],
        "calls": [WORKED, WORKED, OK, WORKED, OK, LEFT],
        "usage": (35_005, None, 247, None),
        "ends": "incomplete/deadline",
        "flags": ["model_call_pending", "usage_partial"],
        "details": PENDING,
    },
    "retries": {
        "turns": [{"status": 503}, says("", 3_001, 0), says("All done.", 5_003, 7)],
        "calls": ["503 finished -", OK, OK],
        "usage": (8_004, None, 7, None),
        "ends": "completed/finished",
        "flags": ["no_tool_called", "recovered_faults"],
    },
    "details": {
        "turns": [{"text": "All done.", "reasoning": "Let me think.", "usage": DETAILED}],
        "calls": [OK],
        "usage": (101, 64, 31, 17),
        "ends": "completed/finished",
        "flags": ["no_tool_called"],
    },
    "none": {
        "turns": [{"text": "All done.", "usage": None}],
        "calls": [OK],
        "usage": None,
        "ends": "completed/finished",
        "flags": ["no_tool_called", "usage_unknown"],
    },
    "none_in_one_turn": {
        "turns": [runs("true", 2_003, 23), {"text": "All done.", "usage": None}],
        "calls": [WORKED, OK],
        "usage": (2_003, None, 23, None),
        "ends": "completed/finished",
        "flags": ["usage_partial"],
    },
    "in_every_chunk": {
        "turns": [runs("true", 2_003, 23, usage_every_chunk=True), says("All done.", 8_009, 41)],
        "calls": [WORKED, OK],
        "usage": (10_012, None, 64, None),
        "ends": "completed/finished",
    },
}

FULL: dict[str, dict[str, Any]] = {
    "sub_agent": {**SUB_AGENT_ENDS, "version": OLD},
    "compaction": {**COMPACTION_ENDS, "version": OLD},
}


def test_usage_is_the_sum_of_what_the_server_sent(play: Any) -> None:
    play(TABLE)


@pytest.mark.full
def test_usage_is_the_sum_of_what_the_server_sent_on_the_old_version_too(play: Any) -> None:
    play(FULL)
