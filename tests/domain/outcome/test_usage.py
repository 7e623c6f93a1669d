"""Usage: unknown is None and a gap, never 0 (SPEC §2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.model import Flag, Usage

if TYPE_CHECKING:
    from conftest import Corpus, Run


def test_it_is_the_run_result_s(corpus: Corpus) -> None:
    outcome = classify(corpus["3.0.57/usage_two_turns"].evidence()).unwrap()
    assert outcome.usage == Usage(
        input_tokens=2_200, cached_tokens=1_000, output_tokens=70, reasoning_tokens=None
    )
    assert outcome.usage.total_tokens == 2_270


@pytest.mark.parametrize(
    "name", ["3.0.57/plain_no_usage", "3.0.65/plain_no_usage", "3.0.57/http_500_forever"]
)
def test_zeros_are_unknown(name: str, corpus: Corpus) -> None:
    outcome = classify(corpus[name].evidence()).unwrap()
    assert outcome.usage is None
    assert Flag.USAGE_UNKNOWN in outcome.flags


def test_a_run_that_never_began_has_nothing_unknown(corpus: Corpus) -> None:
    outcome = classify(corpus["3.0.57/bad_flag"].evidence()).unwrap()
    assert outcome.usage is None
    assert Flag.USAGE_UNKNOWN not in outcome.flags


def test_of_a_killed_run_it_is_the_sum_of_every_agent_s_turns(run: Run) -> None:
    """A sub-agent has totals of its own, so the last `total…` would be wrong (SURPRISES.md C3)."""
    inside = run.says("go", tokens_in=100).calls("spawn_agent").start("agent_2", parent="agent_1")
    outcome = inside.says("sub", tokens_in=30).outcome()
    assert outcome.usage == Usage(130, cached_tokens=0, output_tokens=13, reasoning_tokens=None)
    assert Flag.USAGE_PARTIAL in outcome.flags


def test_a_sub_agent_s_tokens_are_missing_from_the_result_and_that_is_told(corpus: Corpus) -> None:
    outcome = classify(corpus["3.0.57/spawn_agent"].evidence()).unwrap()
    assert outcome.flag_details[Flag.USAGE_PARTIAL] == {"missing": ["sub-agents"]}


def test_a_compaction_s_tokens_are_missing_too(corpus: Corpus) -> None:
    outcome = classify(corpus["3.0.57/context_window_small"].evidence()).unwrap()
    assert outcome.flag_details[Flag.USAGE_PARTIAL] == {"missing": ["compaction calls"]}


def test_a_turn_that_broke_is_missing_too(run: Run) -> None:
    broken = run.says("x").turn(2).event("content_start", contentType="text", text="h", accumulated="h")
    details = broken.fails("The operation timed out.", "unknown").outcome().flag_details
    assert details[Flag.USAGE_PARTIAL] == {"missing": ["the turn that broke"]}


def test_an_ordinary_run_is_complete(corpus: Corpus) -> None:
    outcome = classify(corpus["3.0.65/write_file"].evidence()).unwrap()
    assert outcome.usage is not None
    assert not {Flag.USAGE_PARTIAL, Flag.USAGE_UNKNOWN} & set(outcome.flags)


@pytest.mark.parametrize("count", [-1, 1.5, "100", None, True, [100]])
def test_a_count_that_is_none_is_unknown(count: object, run: Run) -> None:
    usage = {"inputTokens": count, "outputTokens": count}
    result = {"type": "run_result", "finishReason": "completed", "usage": usage, "text": "x"}
    assert run.says("x").line(result).outcome().usage is None
