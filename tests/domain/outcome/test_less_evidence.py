"""SPEC §2: "Less evidence is never better: removing, emptying or cutting the tail of stdout (a second
run_result excepted), cline.log or stderr never turns a run that is not gradable into one that is."
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clinebox.domain.outcome.classify import classify
from clinebox.domain.outcome.evidence import RunEvidence, read_log, read_receipt, read_stderr, read_stdout
from clinebox.domain.outcome.model import Outcome, Status
from clinebox.domain.outcome.policy import decide

if TYPE_CHECKING:
    from conftest import Corpus, RecordedRun, Run

FILES = ("stdout", "log", "stderr")
RANKS = {Status.FAILED: 0, Status.INCOMPLETE: 1, Status.COMPLETED: 2}


def judge(evidence: RunEvidence) -> Outcome:
    return classify(evidence).unwrap()


def is_gradable(outcome: Outcome) -> bool:
    return decide(outcome).gradable


def is_better(less: Outcome, whole: Outcome) -> bool:
    """A failed run that became gradable, or one that was not completed and now is."""
    became_gradable = is_gradable(less) and not is_gradable(whole)
    became_completed = less.status is Status.COMPLETED and whole.status is not Status.COMPLETED
    return became_gradable or became_completed


def bytes_of(recorded: RecordedRun) -> dict[str, bytes]:
    return {
        "stdout": recorded.files["stdout.ndjson"],
        "log": recorded.files["cline-log.jsonl"],
        "stderr": recorded.files["stderr.txt"],
    }


def truncations(data: bytes, extra: int, seed: int) -> Iterator[bytes]:
    """Cut after every line, and at some offsets that a seed chooses."""
    position = -1
    while (position := data.find(b"\n", position + 1)) >= 0:
        yield data[: position + 1]
    dice = random.Random(seed)  # noqa: S311 - the same cuts in every run
    for _ in range(extra if data else 0):
        yield data[: dice.randrange(len(data))]


def test_a_missing_or_empty_file_never_makes_a_run_better(corpus: Corpus) -> None:
    for recorded in corpus:
        whole = judge(recorded.evidence())
        for fate in itertools.product((b"kept", b"", None), repeat=3):
            changed = {name: value for name, value in zip(FILES, fate, strict=True) if value != b"kept"}
            assert not is_better(judge(recorded.evidence(**changed)), whole), (recorded.name, changed)


def test_stdout_cut_after_any_line_never_makes_a_run_better(corpus: Corpus) -> None:
    for recorded in corpus:
        evidence = recorded.evidence()
        whole = judge(evidence)
        for cut in truncations(recorded.files["stdout.ndjson"], extra=4, seed=1):
            less = judge(replace(evidence, stdout=read_stdout(cut)))
            assert not is_better(less, whole), (recorded.name, len(cut))


def test_cline_log_cut_anywhere_never_makes_a_run_better(corpus: Corpus) -> None:
    for recorded in corpus:
        evidence = recorded.evidence()
        whole = judge(evidence)
        for cut in truncations(recorded.files["cline-log.jsonl"], extra=6, seed=2):
            less = judge(replace(evidence, log=read_log(cut)))
            assert not is_better(less, whole), (recorded.name, len(cut))


def test_stderr_cut_anywhere_changes_nothing_but_a_sentence(corpus: Corpus) -> None:
    for recorded in corpus:
        evidence = recorded.evidence()
        whole = judge(evidence)
        for cut in truncations(recorded.files["stderr.txt"], extra=1, seed=3):
            less = judge(replace(evidence, stderr=read_stderr(cut)))
            assert (less.status, less.reason) == (whole.status, whole.reason), recorded.name


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_cut_of_all_three_files_at_once_never_makes_a_run_better(
    data: st.DataObject, corpus: Corpus
) -> None:
    """The law, with every file kept, missing, or cut at any byte."""
    recorded = data.draw(st.sampled_from(list(corpus)))
    whole = judge(recorded.evidence())
    changed = {name: data.draw(cut(content)) for name, content in bytes_of(recorded).items()}
    assert not is_better(judge(recorded.evidence(**changed)), whole)


def cut(content: bytes) -> st.SearchStrategy[bytes | None]:
    return st.none() | st.integers(0, len(content)).map(lambda end: content[:end])


READERS: dict[str, Callable[[bytes], object]] = {
    "stdout": read_stdout,
    "log": read_log,
    "stderr": read_stderr,
}


@pytest.mark.full
def test_every_cut_of_every_small_file_never_makes_a_run_better(recorded_name: str, corpus: Corpus) -> None:
    recorded = corpus[recorded_name]
    evidence = recorded.evidence()
    whole = judge(evidence)
    for name, content in bytes_of(recorded).items():
        for end in range(len(content)) if len(content) < 5_000 else ():
            less = judge(replace(evidence, **{name: READERS[name](content[:end])}))
            assert not is_better(less, whole), (name, end)


ENDINGS: dict[str, Callable[[Run], Run]] = {
    "overflow": lambda run: run.fails("too long", "context_window_exceeded"),
    "cap": lambda run: run.fails("Model reached the maximum output token limit before completing the turn"),
    "cap words by the server": lambda run: run.logs_status(500, CAP).logs_end(CAP).fails(CAP, "unknown"),
    "empty": lambda run: run.logs_retry(1, "stop").logs_retry(2, "stop").logs_end(EMPTY).fails(EMPTY),
    "empty words by the server": lambda run: (
        run.logs_status(500, EMPTY).logs_end(EMPTY).fails(EMPTY, "unknown")
    ),
    "cut short": lambda run: run.logs_end(EMPTY).fails(EMPTY),
    "refused": lambda run: run.logs_status(401, "no").logs_end("no").fails("no", "auth"),
    "stale fault": lambda run: (
        run.logs_status(400, "too long").turn(2).logs_end(CLOSED).fails(CLOSED, "unknown")
    ),
    "mistakes": lambda run: (
        run.error("1 tool call(s) failed: x", recoverable=True).ends("aborted").aborted("external_abort")
    ),
    "killed": lambda run: run.calls(),
}
CAP = "Model reached the maximum output token limit before completing the turn"
EMPTY = "Model returned empty response"
CLOSED = "The socket connection was closed unexpectedly. For more information, …"


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_law_holds_for_runs_whose_cause_is_in_the_log(ending: str, run: Run) -> None:
    built = ENDINGS[ending](run.says("Hello"))
    whole = built.outcome()
    lines = len(built.stdout)
    logged = len(built.log or ())
    for stdout_lines, log_lines in itertools.product(range(lines + 1), [None, *range(logged + 1)]):
        log = None if log_lines is None else b"".join(line + b"\n" for line in (built.log or ())[:log_lines])
        evidence = RunEvidence(
            stdout=read_stdout(b"".join(line + b"\n" for line in built.stdout[:stdout_lines])),
            log=None if log is None else read_log(log),
            cline_version=built.version,
        )
        assert not is_better(judge(evidence), whole)


def test_stderr_alone_never_makes_a_run_gradable(corpus: Corpus) -> None:
    for recorded in corpus:
        evidence = RunEvidence(stderr=read_stderr(recorded.files["stderr.txt"]))
        assert not is_gradable(judge(evidence))


# --- what is outside of the law, so that docs/outcomes.md says it truly


def test_a_lost_local_abort_cannot_be_seen(run: Run) -> None:
    """SPEC §2: a run_result without a local_abort beside it means that the run had ended by itself."""
    ended = run.says("x").ends().with_receipt(stopped_by="operator", return_code=None)
    assert is_better(ended.outcome(), ended.aborted("local_abort").outcome())


def test_a_lost_result_of_a_failed_run_looks_like_a_run_that_was_still_going(run: Run) -> None:
    cut = run.says("x").turn(2).error("boom", "unknown").with_receipt(timed_out=True)
    assert is_better(cut.outcome(), cut.ends("error", "boom").outcome())


@pytest.mark.parametrize("stopped_by", ["deadline", "caller"])
def test_with_a_receipt_of_our_stop_the_law_holds_for_every_run_that_had_not_failed(
    stopped_by: str, corpus: Corpus
) -> None:
    receipt = read_receipt(b'{"cleanup_confirmed":true,"stopped_by":"%s"}' % stopped_by.encode())
    for recorded in corpus:
        evidence = replace(recorded.evidence(), receipt=receipt)
        whole = judge(evidence)
        if whole.status is not Status.FAILED or whole.stopped_by is not None:
            for cut in truncations(recorded.files["stdout.ndjson"], extra=0, seed=4):
                less = judge(replace(evidence, stdout=read_stdout(cut)))
                assert is_gradable(whole) or not is_gradable(less), recorded.name
