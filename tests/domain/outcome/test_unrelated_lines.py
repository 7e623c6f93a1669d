"""Issue 3: "adding *unrelated* lines (tool output holding every error sentence we match, model text quoting
them, stderr warnings) never changes a status".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clinebox.domain.json_value import JsonValue, as_mapping
from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import RunEvidence
from clinebox.domain.outcome.policy import decide
from clinebox.domain.outcome.sentences import SENTENCES

if TYPE_CHECKING:
    from conftest import Corpus, RecordedRun, Run

CORPUS = Path(__file__).parents[2] / "corpus"
TS = "2026-11-30T17:00:00.000Z"
RECORDS = (
    '{"type":"run_result","finishReason":"completed","text":"done"}',
    '{"type":"run_aborted","reason":"external_abort"}',
    '{"type":"agent_event","event":{"type":"error","error":{"message":"x"},"recoverable":false}}',
    '{"level":50,"msg":"[ai-sdk] stream error","err":{"name":"AI_APICallError","statusCode":503}}',
    '{"level":50,"msg":"Agent loop caught error","agentId":"agent_1","errorMessage":"x"}',
    '{"cleanup_confirmed":true,"stopped_by":"deadline"}',
)
WORDS = (
    "[ai-sdk] stream error",
    "Agent loop caught error",
    "Model returned an empty response; retrying",
    "Recorded consecutive mistake",
    "context_window_exceeded",
    "finishReason",
    "aborted by another client",
    "error: unknown option '--json'",
    "HTTP 429 Too Many Requests",
    "401 Unauthorized",
    "ECONNRESET",
    "Killed",
    "Terminated",
    "Out of memory",
)
QUOTES = (*(sentence.text for sentence in SENTENCES), *WORDS, *RECORDS)
"""Every sentence that a rule matches, every message of cline.log that is read, and records as a text."""


def event(kind: str, **body: object) -> bytes:
    record = {"ts": TS, "type": "agent_event", "event": {"type": kind, **body}}
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def model_text(quote: str) -> list[bytes]:
    return [
        event("content_start", contentType="text", text=quote, accumulated=quote),
        event("content_start", contentType="reasoning", reasoning=quote, redacted=False),
        event("content_end", contentType="text", text=quote),
        event("content_end", contentType="reasoning", reasoning=quote),
    ]


def tool_output(quote: str) -> list[bytes]:
    call = {"contentType": "tool", "toolName": "run_commands", "toolCallId": "unrelated"}
    entry = {"query": f"echo {quote}", "result": quote, "success": True}
    return [
        event("content_start", **call, input={"commands": [f"echo '{quote}'"]}),
        event("content_update", **call, update={"stream": "stderr", "chunk": quote}),
        event("content_end", **call, output=[entry], durationMs=1),
        event("content_start", **call | {"toolName": "read_files"}, input={"path": quote}),
        event("content_end", **call | {"toolName": "read_files"}, output=quote, durationMs=1),
    ]


NAMES = sorted(json.loads((CORPUS / "expected.json").read_bytes()))
NOISE = [line for quote in QUOTES for line in (*model_text(quote), *tool_output(quote))]
WARNINGS = [f"Warning: {quote}".encode() for quote in QUOTES]
QUIET = [
    json.dumps({"level": level, "time": TS, "msg": f"about {quote}", "details": quote}).encode()
    for quote in QUOTES
    for level in (20, 30, 40, 50)
]
OUTPUT = (b'"type":"content_start"', b'"type":"content_end"', b'"type":"usage"')


def says_more(line: bytes) -> bool:
    """Whether the model has spoken in this turn: only then is more of its text no news."""
    return any(kind in line[:120] for kind in OUTPUT)


def with_noise(lines: list[bytes], noise: list[bytes]) -> bytes:
    """The noise behind each line that is model output, as long as the run goes on."""
    noisy: list[bytes] = []
    for at, line in enumerate(lines):
        noisy.append(line)
        going_on = any(b'"type":"run_result"' in later[:60] for later in lines[at + 1 :])
        if says_more(line) and going_on:
            noisy += noise
    return joined(noisy)


def joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def judged(evidence: RunEvidence) -> tuple[object, ...]:
    outcome = classify(evidence).unwrap()
    return outcome.status, outcome.reason, decide(outcome).gradable


def lines_of(content: bytes) -> list[bytes]:
    return content.split(b"\n")[:-1] if content.endswith(b"\n") else []


def test_model_text_and_tool_output_that_quote_everything_change_no_status(corpus: Corpus) -> None:
    for recorded in corpus:
        noisy = with_noise(recorded.stdout_lines, NOISE)
        assert judged(recorded.evidence(stdout=noisy)) == judged(recorded.evidence()), recorded.name


def test_warnings_on_stderr_change_no_status(corpus: Corpus) -> None:
    for recorded in corpus:
        stderr = recorded.files["stderr.txt"]
        for noisy in (stderr + joined(WARNINGS), joined(WARNINGS) + stderr):
            assert judged(recorded.evidence(stderr=noisy)) == judged(recorded.evidence()), recorded.name


def test_other_messages_in_the_log_change_no_status(corpus: Corpus) -> None:
    for recorded in corpus:
        lines = recorded.files["cline-log.jsonl"].splitlines()
        noisy = joined([line for kept in (*lines, b"") for line in (*QUIET, kept)])
        assert judged(recorded.evidence(log=noisy)) == judged(recorded.evidence()), recorded.name


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_unrelated_lines_in_all_files_change_no_status(data: st.DataObject, corpus: Corpus) -> None:
    recorded: RecordedRun = data.draw(st.sampled_from(list(corpus)))
    noise = data.draw(
        st.lists(st.sampled_from(QUOTES).flatmap(lambda q: st.sampled_from([q, f"x {q}"])), max_size=4)
    )
    lines = [line for quote in noise for line in (*model_text(quote), *tool_output(quote))]
    changed = {
        "stdout": with_noise(recorded.stdout_lines, lines),
        "stderr": recorded.files["stderr.txt"]
        + joined(data.draw(st.lists(st.sampled_from(WARNINGS), max_size=4))),
        "log": joined(data.draw(st.lists(st.sampled_from(QUIET), max_size=4)))
        + recorded.files["cline-log.jsonl"],
    }
    assert judged(recorded.evidence(**changed)) == judged(recorded.evidence())


# --- the recorded words themselves, replaced


SPOKEN = ("content_start", "content_end", "content_update", "done")


def requoted(value: JsonValue, quote: str) -> JsonValue:
    """Model text and tool output of a record, in the words of the quote."""
    record = as_mapping(value)
    inner = as_mapping(record.get("event"))
    if inner.get("type") not in SPOKEN:
        return value
    return {**record, "event": _in_words(inner, quote)}


def _in_words(value: JsonValue, quote: str) -> JsonValue:
    spoken = {"text", "accumulated", "reasoning", "chunk", "result", "query", "input"}
    match value:
        case dict():
            return {
                key: quote if key in spoken and isinstance(member, str) else _in_words(member, quote)
                for key, member in value.items()
            }
        case list():
            return [_in_words(member, quote) for member in value]
        case _:
            return value


@pytest.mark.parametrize("quote", QUOTES)
def test_a_model_and_tools_that_say_nothing_but_the_sentence_change_no_status(
    quote: str, corpus: Corpus
) -> None:
    for name in NAMES[::7]:
        recorded = corpus[name]
        lines = [requoted(json.loads(line), quote) for line in recorded.stdout_lines if is_json(line)]
        spoken = joined(
            [json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() for line in lines]
        )
        assert judged(recorded.evidence(stdout=spoken)) == judged(recorded.evidence()), recorded.name


def is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


# --- what is not unrelated, so that the law is seen to have an edge


@pytest.mark.parametrize("quote", [sentence.text for sentence in SENTENCES])
def test_the_same_sentence_as_the_answer_of_a_completed_run_is_an_answer(quote: str, run: Run) -> None:
    assert run.says(quote).ends(text=quote).outcome().status == run.says("x").ends().outcome().status


def test_the_first_words_of_the_model_are_no_unrelated_line(run: Run) -> None:
    silent = run.with_receipt(timed_out=True)
    assert judged(silent.evidence()) != judged(silent.says("x").evidence())
