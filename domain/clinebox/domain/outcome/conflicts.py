"""Evidence that contradicts itself: the sandbox is hostile, and an agent can write to Cline's own streams."""

from __future__ import annotations

from clinebox.domain.outcome.case import Case
from clinebox.domain.outcome.conflict import Conflict
from clinebox.domain.outcome.conflicts_gateway import gateway_conflicts
from clinebox.domain.outcome.entries import cited_entry, file_entry


def conflicts(case: Case) -> tuple[Conflict, ...]:
    """Every contradiction around the run's result; none without a result."""
    if case.result is None:
        return ()
    found = (_second_result(case), _active_afterwards(case), _unended_call(case), _other_exit(case))
    return (*(conflict for conflict in found if conflict is not None), *gateway_conflicts(case))


def _second_result(case: Case) -> Conflict | None:
    stdout = case.stdout
    if stdout is None or stdout.second_result is None:
        return None
    sentence = f"{stdout.run_results} run_result records, where Cline writes one"
    return Conflict(sentence, cited_entry(stdout.source, stdout.second_result, "finishReason"))


def _active_afterwards(case: Case) -> Conflict | None:
    # FORMAT.md §2: the result is the last record or the next to last; a turn after it means that the run
    # had not ended when somebody wrote that it had.
    stdout = case.stdout
    if stdout is None or stdout.active_after_result is None:
        return None
    entry = cited_entry(stdout.source, stdout.active_after_result, "type")
    return Conflict("the run went on after its run_result", entry)


def _unended_call(case: Case) -> Conflict | None:
    """A turn completes when its calls have ended: an agent that writes a result itself does so within one.

    None of the 147 recorded runs that completed holds an open call (3.0.57 and 3.0.65).
    """
    stdout = case.stdout
    if stdout is None or case.result is None or case.result.value.finish_reason != "completed":
        return None
    if not stdout.tools.open_calls:
        return None
    unended = stdout.tools.open_calls[-1]
    sentence = f"the run_result says completed, and a call of {unended.value.tool_name} never ended"
    return Conflict(sentence, cited_entry(stdout.source, unended, "toolCallId"))


def _other_exit(case: Case) -> Conflict | None:
    """FORMAT.md §4: a completed run exits with 0, on every version and after every signal it survives."""
    receipt, evidence = case.receipt, case.evidence.receipt
    if receipt is None or evidence is None or case.result is None or case.own_stop is not None:
        return None
    if case.result.value.finish_reason != "completed" or receipt.return_code in {0, None}:
        return None
    sentence = f"the run_result says completed, the receipt says return code {receipt.return_code}"
    return Conflict(sentence, file_entry(evidence.source, "return_code", receipt.return_code))
