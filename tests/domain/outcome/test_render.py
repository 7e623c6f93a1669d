"""What programs and people get to read of an outcome."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from clinebox.domain.json_value import JsonValue
from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import evidence_from_bytes
from clinebox.domain.outcome.model import Outcome, Reason
from clinebox.domain.outcome.policy import decide
from clinebox.domain.outcome.render import MEANINGS, explain, outcome_to_json

if TYPE_CHECKING:
    from conftest import Corpus, Run

FIELDS = [
    "status",
    "reason",
    "failure_kind",
    "status_code",
    "timed_out",
    "stopped_by",
    "text",
    "flags",
    "flag_details",
    "notes",
    "usage",
    "evidence",
    "cline_version",
    "gradable",
    "retryable",
]

TELLING = [
    "3.0.57/plain",
    "3.0.57/write_file",
    "3.0.57/does_nothing",
    "3.0.57/reasoning_only",
    "3.0.57/usage_two_turns",
    "3.0.57/plain_no_usage",
    "3.0.57/end_without_done_once",
    "3.0.65/end_without_done_once",
    "3.0.57/spawn_agent",
    "3.0.57/spawn_agent_empty",
    "3.0.57/context_window_small",
    "3.0.57/overflow_first_vllm",
    "3.0.65/overflow_later_openai",
    "3.0.57/overflow_later_once",
    "3.0.57/length_forever",
    "3.0.65/length_forever",
    "3.0.57/length_without_text",
    "3.0.57/mistakes_unknown_tool",
    "3.0.57/mistakes_then_ok",
    "3.0.57/empty_forever",
    "3.0.57/empty_once",
    "3.0.57/html_forever",
    "3.0.65/html_forever",
    "3.0.57/http_401_key",
    "3.0.65/http_429_forever",
    "3.0.57/http_500_text",
    "3.0.57/http_403_proxy",
    "3.0.57/refused",
    "3.0.65/reset_mid_stream_forever",
    "3.0.57/hang_before_headers",
    "3.0.57/hang_after_headers",
    "3.0.57/malformed_sse_forever",
    "3.0.57/sse_error_mid_stream_forever",
    "3.0.57/provider_unknown",
    "3.0.57/sigkill_in_tool",
    "3.0.57/sigint_in_model_call",
    "3.0.57/sigkill_at_start",
    "3.0.57/sigterm_then_answer",
    "3.0.57/bad_flag",
    "3.0.57/prompt_140k",
    "3.0.57/prompt_one_word",
    "3.0.57/unreadable_workdir",
    "3.0.57/unicode",
]


def to_json(outcome: Outcome) -> dict[str, JsonValue]:
    return outcome_to_json(outcome, decide(outcome))


@pytest.fixture
def json_snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(JSONSnapshotExtension)


def test_the_outcomes_of_telling_runs(snapshot: SnapshotAssertion, corpus: Corpus) -> None:
    shown = {}
    for name in TELLING:
        outcome = classify(corpus[name].evidence()).unwrap()
        shown[name] = {"explained": explain(outcome), **to_json(outcome)}
    assert shown == snapshot


def test_the_fields_are_those_of_classify_json(run: Run) -> None:
    body = to_json(run.says("x").ends().outcome())
    assert list(body) == FIELDS
    assert body["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": None},
        "total_tokens": 110,
    }


def test_what_a_negative_receipt_replaced_is_rendered_beside(run: Run) -> None:
    body = to_json(run.says("x").ends().with_receipt(cleanup_confirmed=False).outcome())
    replaced = body["superseded"]
    assert isinstance(replaced, dict)
    assert (replaced["status"], replaced["reason"]) == ("completed", "finished")
    assert "gradable" not in replaced


def test_a_long_text_is_kept_whole(run: Run) -> None:
    assert to_json(run.says("x").ends(text="y" * 5_000_000).outcome())["text"] == "y" * 5_000_000


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_give_an_outcome_that_can_be_written(stdout: bytes, log: bytes, stderr: bytes) -> None:
    outcome = classify(evidence_from_bytes(stdout=stdout, cline_log=log, stderr=stderr)).unwrap()
    text = json.dumps(to_json(outcome), ensure_ascii=False, allow_nan=False)
    assert json.loads(text.encode("utf-8"))["reason"] == outcome.reason


SURROGATE = rb'"\ud800 \udfff"'


def test_lone_surrogates_in_every_text_still_give_utf_8() -> None:
    result = b'{"type":"run_result","finishReason":%s,"text":%s}\n' % (SURROGATE, SURROGATE)
    error = b'{"type":"agent_event","event":{"type":"error","error":{"message":%s},"recoverable":false}}\n'
    start = b'"type":"content_start","contentType":"tool"'
    call = b'{"type":"agent_event","event":{' + start + b',"toolName":%s,"toolCallId":%s}}\n'
    stdout = call % (SURROGATE, SURROGATE) + error % SURROGATE + result
    log = b'{"level":50,"msg":"[ai-sdk] stream error","err":{"name":%s,"url":%s}}\n' % (SURROGATE, SURROGATE)
    stderr = b'{"type":"error","message":%s}' % SURROGATE
    outcome = classify(evidence_from_bytes(stdout=stdout, cline_log=log, stderr=stderr)).unwrap()
    json.dumps(to_json(outcome), ensure_ascii=False).encode("utf-8")
    explain(outcome).encode("utf-8")


def test_every_reason_has_its_words() -> None:
    assert set(MEANINGS) == set(Reason)


def test_one_line_says_what_why_and_where(run: Run) -> None:
    outcome = run.logs_status(429, "slow down").logs_end("slow down").fails("slow down", "unknown").outcome()
    assert explain(outcome) == (
        "failed/model_request (HTTP 429): the model server refused the request: slow down "
        "[cline.log:1 err.statusCode]"
    )


@given(st.text(max_size=600))
def test_foreign_text_never_moves_a_terminal_s_cursor(text: str) -> None:
    outcome = classify(evidence_from_bytes(stdout=b"")).unwrap()
    line = explain(replace(outcome, text=text))
    assert line.isprintable()
    assert len(line) <= 300
