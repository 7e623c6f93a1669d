"""Statuses that a model server refuses a request with, once and for good (SPEC §2; FORMAT.md §5, §7)."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.cline

OLD = "3.0.57"
DONE: dict[str, Any] = {"text": "All done."}
OK = "200 finished stop"
FINAL = (400, 401, 403, 404)
"""Statuses that Cline takes for the last word."""
MORE_FINAL = (413, 422)
RETRIED = (408, 409, 429, 500, 502, 503, 504)
MORE_RETRIED = (529,)


def refusal(status: int, **more: Any) -> dict[str, Any]:
    return {"status": status, "body": {"error": {"message": f"said the model: {status}"}}, **more}


def once(status: int) -> dict[str, Any]:
    return {
        "turns": [refusal(status), DONE],
        "calls": [f"{status} finished -", OK],
        "kinds": ["status", "-"],
        "ends": "completed/finished",
        "flags": ["no_tool_called", "recovered_faults"],
        "details": {"recovered_faults": {"count": 1}},
    }


def for_good(status: int, tries: int, **more: Any) -> dict[str, Any]:
    return {
        "turns": [refusal(status, repeat=-1, **more)],
        "calls": [f"{status} finished -"] * tries,
        "kinds": ["status"] * tries,
        "ends": "failed/model_request",
        "status_code": status,
        "flags": ["usage_unknown"],
    }


def test_a_status_that_cline_does_not_retry_ends_the_run_with_it(play: Any) -> None:
    play({f"{status}": for_good(status, 1) for status in FINAL})


def test_a_status_that_a_retry_got_over_is_a_flag(play: Any) -> None:
    play({f"{status}-once": once(status) for status in RETRIED})


def test_a_status_for_good_is_the_failure_s_status_after_every_retry(play: Any) -> None:
    # `Retry-After` shortens the waits, which are 62 s in all without it (FORMAT.md §5, §7).
    play({f"{status}": for_good(status, 6, headers={"Retry-After": "1"}) for status in RETRIED})


def test_a_wait_that_the_server_asks_for_reaches_cline(play: Any) -> None:
    asked = refusal(429, headers={"Retry-After": "7"})
    too_long = refusal(503, headers={"Retry-After": "3600"})
    last = refusal(429, headers={"Retry-After": "1"})
    play(
        {
            "asked": {**once(429), "turns": [asked, DONE], "waits_s": 6.9},
            "too long": {**once(503), "turns": [too_long, DONE], "waits_s": 1.9},
            "the last status decides": {
                **for_good(503, 6),
                "turns": [{**last, "repeat": 5}, refusal(503)],
                "calls": [*["429 finished -"] * 5, "503 finished -"],
            },
        }
    )


@pytest.mark.full
@pytest.mark.timeout(600)
def test_every_status_for_good_with_cline_s_own_waits(play: Any) -> None:
    retried = {f"{status}": for_good(status, 6) for status in RETRIED + MORE_RETRIED}
    play(retried | {f"{status}": for_good(status, 1) for status in MORE_FINAL})


@pytest.mark.full
@pytest.mark.timeout(600)
def test_every_status_on_the_old_version(play: Any) -> None:
    final = {f"{status}": {**for_good(status, 1), "version": OLD} for status in FINAL + MORE_FINAL}
    retried = {f"{status}": {**for_good(status, 3), "version": OLD} for status in RETRIED + MORE_RETRIED}
    recovered = {f"{status}-once": {**once(status), "version": OLD} for status in RETRIED}
    play(final | retried | recovered)
