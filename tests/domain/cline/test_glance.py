"""Lines that are read by a glance say the same as the parser; every other form goes to the parser."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.cline.glance import glance, record_name
from clinebox.domain.cline.stdout import StdoutFacts, StdoutReader
from clinebox.domain.cline.stream import parse_record

CORPUS = Path(__file__).parents[2] / "corpus"
STREAMS = [path.read_bytes().split(b"\n")[:-1] for path in sorted(CORPUS.glob("*/*/stdout.ndjson"))]
LINES = [line for lines in STREAMS for line in lines]
TS = "2026-11-30T16:54:25.091Z"
LAW = 'SPEC §16: "what is skipped is not validated"; what is not skipped gives the same facts either way.'


def read(lines: Iterable[bytes]) -> StdoutFacts:
    reader = StdoutReader()
    reader.feed(b"".join(line + b"\n" for line in lines))
    return reader.finish()


def parsed(lines: Iterable[bytes]) -> StdoutFacts:
    """The facts when every line goes through the parser."""
    reader = StdoutReader()
    for number, line in enumerate(lines, 1):
        reader._fold.parse(number, line)
    return reader.finish()


def same(facts: StdoutFacts, other: StdoutFacts) -> bool:
    """Equal but for what the splitter counts."""
    return facts == other._replace(size_bytes=facts.size_bytes, lines=facts.lines, records=facts.records)


def event(kind: str, **body: object) -> bytes:
    return record("agent_event", event={"type": kind, **body})


def record(kind: str, **body: object) -> bytes:
    return json.dumps({"ts": TS, "type": kind, **body}, separators=(",", ":"), ensure_ascii=False).encode()


def ended(*successes: bool, tool: str = "run_commands", **body: object) -> bytes:
    entries = [{"query": "q", "result": "r", "success": success} for success in successes]
    fields = {"contentType": "tool", "toolName": tool, "toolCallId": "c", "output": entries, "durationMs": 1}
    return event("content_end", **fields | body)


def test_every_recorded_line_that_is_glanced_at_is_the_parsers_record() -> None:
    known = [(line, found) for line in LINES if (found := glance(line)) is not None]
    assert len(known) > 0.85 * len(LINES)
    for line, found in known:
        assert record_name(found) == type(parse_record(1, line).event).__name__, line


def test_every_recorded_stream_gives_the_same_facts_when_all_of_it_is_parsed() -> None:
    for lines in STREAMS:
        assert same(read(lines), parsed(lines))


@given(st.lists(st.sampled_from(LINES), max_size=30))
def test_lines_of_any_runs_in_any_order_give_the_same_facts_either_way(lines: list[bytes]) -> None:
    assert same(read(lines), parsed(lines)), LAW


TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["spawn_agent", "run_commands", "editor", '"', "\\", '},{"query":', '","success":true}', "_compaction"]
)
CALL = st.fixed_dictionaries({"contentType": st.just("tool"), "toolName": TEXT, "toolCallId": TEXT})
COMMAND = st.fixed_dictionaries(
    {"query": TEXT | st.dictionaries(TEXT, TEXT, max_size=2), "result": TEXT, "success": st.booleans()}
)
COUNT = st.integers(-1, 10) | st.just(10**15)
EVENT = st.one_of(
    st.builds(lambda count: event("iteration_start", iteration=count), COUNT),
    st.builds(
        lambda i, o, c: event("usage", inputTokens=i, outputTokens=o, cacheReadTokens=c), COUNT, COUNT, COUNT
    ),
    st.builds(lambda i, o: event("usage", inputTokens=i, outputTokens=o, totalCost=0.5), COUNT, COUNT),
    st.builds(lambda call, text: event("content_start", **call, input={"x": text}), CALL, TEXT),
    st.builds(lambda call, text: event("content_end", **call, output=text, durationMs=1), CALL, TEXT),
    st.builds(
        lambda call, entries: event("content_end", **call, output=entries, durationMs=1),
        CALL,
        st.lists(COMMAND, max_size=3),
    ),
    st.builds(
        lambda name, agent, parent: record(
            "hook_event", hookEventName=name, agentId=agent, taskId="t", parentAgentId=parent
        ),
        st.sampled_from(["agent_start", "agent_error", "agent_end", "tool_call"]),
        TEXT,
        TEXT | st.none(),
    ),
    st.builds(
        lambda kind, phase: event("notice", metadata={"kind": kind, "phase": phase}),
        st.sampled_from(["auto_compaction", "max_tokens_compaction", "context_overflow_recovery"]),
        st.sampled_from(["started", "completed", "skipped"]),
    ),
    st.builds(
        lambda flag: event("error", error={"message": "m"}, recoverable=flag), st.booleans() | st.none()
    ),
    st.just(record("run_result", finishReason="completed")),
)


@given(st.lists(EVENT, max_size=12))
def test_generated_lines_give_the_same_facts_either_way(lines: list[bytes]) -> None:
    assert same(read(lines), parsed(lines)), LAW


NOT_GLANCED = {
    "another order": json.dumps({"type": "agent_event", "ts": TS, "event": {"type": "done"}}).encode(),
    "spaces": json.dumps(json.loads(event("done"))).encode(),
    "a shorter time": event("done").replace(b".091Z", b"Z"),
    "a time with a quote": event("done").replace(b"2026", b'20"6'),
    "a field behind": event("done")[:-1] + b',"more":1} ',
    "cut": event("done", text="x")[:-1],
    "another type": record("team_event", event={"type": "done"}),
    "another content": event("content_start", contentType="image"),
    "a turn without a number": event("iteration_start", iteration=None),
    "a turn of zeros": event("usage", inputTokens=0, outputTokens=0),
    "a negative count": event("usage", inputTokens=5, outputTokens=-1),
    "a count that is none": event("usage", inputTokens=1.5, outputTokens=1),
    "a count of many digits": event("usage", inputTokens=10**15, outputTokens=1),
    "a sub-agent's start": event(
        "content_start", contentType="tool", toolName="spawn_agent", toolCallId="c", i=1
    ),
    "a sub-agent's end": ended(tool="spawn_agent"),
    "a tool's name with an escape": ended(tool='a"b'),
    "a tool's name of a thousand characters": ended(tool="x" * 1_000),
    "commands that never ran": ended(output=None, error="no"),
    "commands without a result": ended(),
    "a command that is an object": ended(output=[{"query": {"command": "x"}, "success": True}]),
    "a sub-agent's hook": record(
        "hook_event", hookEventName="agent_start", agentId="a", taskId="t", parentAgentId="p"
    ),
    "a compaction": event("notice", metadata={"kind": "auto_compaction", "phase": "completed"}),
    "an error": event("error", error={"message": "m"}, recoverable=True),
    "a result": record("run_result", finishReason="completed"),
}


@pytest.mark.parametrize("name", NOT_GLANCED)
def test_what_only_looks_like_a_common_line_is_parsed(name: str) -> None:
    assert glance(NOT_GLANCED[name]) is None


@pytest.mark.parametrize("successes", [(True,), (False,), (True, False), (False, False, True)])
def test_each_command_of_a_call_is_counted(successes: tuple[bool, ...]) -> None:
    tools = read([ended(*successes)]).tools
    assert (tools.commands, tools.commands_failed) == (len(successes), successes.count(False))


def test_output_that_looks_like_further_commands_is_none() -> None:
    forged = 'x","success":false},{"query":"y","result":"z'
    tools = read([ended(output=[{"query": forged, "result": forged, "success": True}])]).tools
    assert (tools.commands, tools.commands_failed) == (1, 0)


def test_what_is_skipped_is_not_validated() -> None:
    line = event("content_end", contentType="text", text="@").replace(b"@", b"\x00 not JSON")
    assert (read([line]).records, parsed([line]).bad_lines) == (1, 1)


def test_a_half_last_line_is_parsed_whatever_its_head() -> None:
    reader = StdoutReader()
    reader.feed(event("content_end", contentType="text", text={"a": {"b": 1}}, more=1).split(b',"more"')[0])
    facts = reader.finish()
    assert (facts.records, facts.bad_lines) == (0, 1)
    assert facts.model_output is None
