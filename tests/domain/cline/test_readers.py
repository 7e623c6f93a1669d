"""Reading is folding: the facts of a file do not depend on how it was cut, and stay small."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.cline.cited import excerpt
from clinebox.domain.cline.events import IterationStart, ToolEnd, ToolStart
from clinebox.domain.cline.log import LogFacts, LogReader
from clinebox.domain.cline.nesting import DEPTH_LIMIT, AgentStack
from clinebox.domain.cline.stderr import StderrFacts, StderrReader
from clinebox.domain.cline.stdout import StdoutFacts, StdoutReader

CORPUS = Path(__file__).parents[2] / "corpus"
RUNS = sorted(path.parent for path in CORPUS.glob("*/*/meta.json"))


def stdout_facts(chunks: Iterator[bytes]) -> StdoutFacts:
    reader = StdoutReader()
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def log_facts(chunks: Iterator[bytes], offset_bytes: int = 0) -> LogFacts:
    reader = LogReader(offset_bytes=offset_bytes)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def stderr_facts(chunks: Iterator[bytes]) -> StderrFacts:
    reader = StderrReader()
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def in_bytes(data: bytes) -> Iterator[bytes]:
    return (data[i : i + 1] for i in range(len(data)))


def in_random_cuts(data: bytes, seed: int) -> Iterator[bytes]:
    dice = random.Random(seed)  # noqa: S311 - the same cuts in every run
    start = 0
    while start < len(data):
        size = dice.choice((1, 3, 50, 1_000, 65_536))
        yield data[start : start + size]
        start += size


READERS = {
    "stdout.ndjson": stdout_facts,
    "cline-log.jsonl": log_facts,
    "stderr.txt": stderr_facts,
}


@pytest.mark.parametrize("file", READERS)
def test_a_recorded_file_byte_by_byte_gives_the_same_facts(file: str) -> None:
    read = READERS[file]
    for run in RUNS:
        data = (run / file).read_bytes()
        if len(data) < 5_000:
            assert read(in_bytes(data)) == read(iter([data])), run


@pytest.mark.parametrize("file", READERS)
def test_a_recorded_file_in_random_cuts_gives_the_same_facts(file: str) -> None:
    read = READERS[file]
    for run in RUNS:
        data = (run / file).read_bytes()
        assert read(in_random_cuts(data, len(data))) == read(iter([data])), run


@given(st.binary(max_size=500), st.integers(0, 600))
def test_no_bytes_make_a_reader_raise(data: bytes, offset: int) -> None:
    for read in READERS.values():
        read(iter([data]))
    log_facts(iter([data]), offset)


@given(st.data())
def test_mutated_streams_never_make_a_reader_raise(data: st.DataObject) -> None:
    """Lines of real runs, duplicated, reordered, cut and mixed with garbage."""
    run = data.draw(st.sampled_from(RUNS))
    lines = (run / "stdout.ndjson").read_bytes().split(b"\n")
    garbage = st.sampled_from([b"", b"{", b"null", b'{"type":"run_result"}', b"\xff\x00", b"[" * 2_000])
    cut = st.sampled_from(lines).flatmap(lambda line: st.integers(0, len(line)).map(lambda end: line[:end]))
    mixed = data.draw(st.lists(st.sampled_from(lines) | garbage | cut, max_size=40))
    facts = stdout_facts(iter([b"\n".join(mixed)]))
    assert facts.records + facts.bad_lines == facts.lines


# --- what is kept


def test_the_facts_keep_no_stream_alive() -> None:
    text, lines = "", []
    for number in range(3_000):
        chunk = f"w{number} "
        text += chunk
        event = {"type": "content_start", "contentType": "text", "text": chunk, "accumulated": text}
        lines.append(
            json.dumps(
                {"ts": "2026-11-30T16:54:25.091Z", "type": "agent_event", "event": event},
                separators=(",", ":"),
            )
        )
    data = "\n".join(lines).encode()
    assert len(data) > 20_000_000
    reader = StdoutReader()
    tracemalloc.start()
    for start in range(0, len(data), 1 << 16):
        reader.feed(data[start : start + (1 << 16)])
    facts = reader.finish()
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert facts.lines == 3_000
    assert peak < 2_000_000


def test_a_thousand_agents_and_faults_in_the_log_are_bounded() -> None:
    end = {"level": 50, "msg": "Agent loop caught error", "status": "failed", "errorMessage": "x" * 3_000}
    fault = {"level": 50, "msg": "[ai-sdk] stream error", "err": {"name": "E", "url": "http://h/"}}
    lines = []
    for number in range(1_000):
        lines += [json.dumps(fault | {"n": number})] * 2
        lines.append(json.dumps(end | {"agentId": f"a{number}"}))
    facts = log_facts(iter(["\n".join(lines).encode()]))
    assert len(facts.agent_ends) <= 256
    assert facts.end_of("a999") is not None
    assert len(facts.faults) <= 50
    assert facts.faults_count == 1_000
    assert len(facts.urls) == 1


def test_quiet_log_lines_are_counted_and_not_read() -> None:
    quiet = b'{"level":30,"msg":"[ai-sdk] stream error","err":{"statusCode":500}}\n'
    facts = log_facts(iter([quiet * 3]))
    assert (facts.records, facts.pending) == (3, None)


def test_the_lines_before_the_offset_are_only_counted() -> None:
    lines = b'{"level":50,"msg":"Agent loop caught error","agentId":"a"}\n'
    facts = log_facts(iter([lines * 2]), offset_bytes=len(lines))
    assert [end.error.line for end in facts.agent_ends] == [2]
    assert facts.records == 1
    assert not facts.starts_beyond_end


def test_an_offset_past_the_end_is_told() -> None:
    assert log_facts(iter([b"{}\n"]), offset_bytes=4).starts_beyond_end


@pytest.mark.parametrize(
    ("stderr", "sentence"),
    [
        (b"\x1b[31merror:\x1b[0m error: unknown option '--x'\n", "unknown option '--x'"),
        (b'Warning: x\n{"ts":"t","type":"error","message":"no prompt"}\n', "no prompt"),
        (b'{"type":"error","message":"first"}\n{"type":"error","message":"second"}\n', "first"),
        (b'{"type":"error","message":"half', None),
        (b'{"type":"error"}\n', None),
        (b'{"type":"warning","message":"x","a":{"type":"error"}}\n', None),
        (b"Warning: something\n", None),
        (b"", None),
    ],
)
def test_the_error_line_of_stderr_is_cline_s_own(stderr: bytes, sentence: str | None) -> None:
    error = stderr_facts(iter([stderr])).error
    assert (error.value if error is not None else None) == sentence


@given(st.binary(max_size=2_000), st.binary(max_size=5))
def test_an_excerpt_is_bounded_and_stands_in_its_line(raw: bytes, at: bytes) -> None:
    text = excerpt(raw, at)
    assert len(text) <= 300
    assert text in raw[max(raw.rfind(at), 0) if at else 0 :].decode("utf-8", "replace")


# --- brackets


def spawn(call_id: str) -> ToolStart:
    return ToolStart("spawn_agent", call_id, {})


def returned(call_id: str) -> ToolEnd:
    return ToolEnd("spawn_agent", call_id, {}, None, None)


def test_a_call_belongs_to_its_caller_and_what_is_between_to_the_sub_agent() -> None:
    stack = AgentStack()
    events = [spawn("a"), IterationStart(1), spawn("b"), IterationStart(1), returned("b"), returned("a")]
    assert [stack.feed(event, line) for line, event in enumerate(events, 1)] == [0, 1, 1, 2, 1, 0]


def test_a_lost_end_inside_is_closed_with_the_outer_call() -> None:
    stack = AgentStack()
    for line, event in enumerate([spawn("a"), spawn("b"), returned("a")], 1):
        stack.feed(event, line)
    assert stack.depth == 0


def test_an_end_without_its_start_closes_nothing() -> None:
    stack = AgentStack()
    stack.feed(spawn("a"), 1)
    stack.feed(returned("b"), 2)
    assert stack.depth == 1
    assert [bracket.line for bracket in stack.open_brackets] == [1]


def test_repeated_ids_close_the_innermost() -> None:
    stack = AgentStack()
    for line, event in enumerate([spawn("a"), spawn("a"), returned("a")], 1):
        stack.feed(event, line)
    assert stack.depth == 1


def test_other_tools_are_no_brackets() -> None:
    stack = AgentStack()
    stack.feed(ToolStart("editor", "a", {}), 1)
    assert stack.depth == 0


def test_a_million_brackets_fill_no_memory() -> None:
    stack = AgentStack()
    for line in range(10_000):
        stack.feed(spawn("a"), line)
    assert stack.depth == 10_000
    assert len(stack.open_brackets) == DEPTH_LIMIT
    for line in range(10_000):
        stack.feed(returned("a"), line)
    assert stack.depth == 0
