"""No `run_result` and nobody of ours ended it: killed, or never started (SPEC §2, SURPRISES.md F2)."""

from __future__ import annotations

from typing import Final

from clinebox.domain.cline.stdout import StdoutFacts
from clinebox.domain.outcome.case import Case, Finding
from clinebox.domain.outcome.entries import cited_entry, exit_entries, file_entry
from clinebox.domain.outcome.evidence import ExitEvidence
from clinebox.domain.outcome.model import EvidenceEntry, Reason

OUTCOME_NAME: Final = "outcome.json"
"""Where a run directory keeps the step that failed."""
SIGNAL_BASE: Final = 128
"""128+N is what a shell reports of a process ended by the signal N."""
CANNOT_RUN: Final = frozenset({126, 127})
"""bash(1), EXIT STATUS: found but not executable, and not found."""


def failed_step(case: Case) -> Finding | None:
    """A step before the run failed: nothing of Cline's is there to be judged (SPEC §2, last rows)."""
    step = case.evidence.failed_step
    if step is None:
        return None
    entry = file_entry(OUTCOME_NAME, "failed_step", step.message)
    return Finding(step.reason, (entry,), step.message, failure_kind=step.failure_kind)


def killed(case: Case) -> Finding | None:
    """Records, but no result: the process was ended from outside, or by what it ran (SURPRISES.md C6)."""
    stdout = case.stdout
    last = None if stdout is None else stdout.last or stdout.last_bad
    if stdout is None or stdout.run_result is not None or last is None:
        return None
    entries = (cited_entry(stdout.source, last, "type"), *_exit(case))
    return Finding(Reason.NO_RUN_RESULT, entries, _killed_sentence(case, stdout))


def _killed_sentence(case: Case, stdout: StdoutFacts) -> str:
    text = f"Cline {_how(process_end(case))} without a result, and not by clinebox."
    if stdout.tools.open_calls:
        tool = stdout.tools.open_calls[-1].value.tool_name
        text += f" Its last record is an open call of {tool}: the task itself may have killed it."
    return text


def _how(end: ExitEvidence | None) -> str:
    signal = signal_of(end)
    if signal is not None:
        return f"was ended by {signal}"
    if end is None or end.exit_code is None:
        return "ended"
    # FORMAT.md §4: 0 is also what a SIGINT leaves.
    return f"ended with exit code {end.exit_code}"


def killed_while_starting(case: Case) -> Finding | None:
    """A signal before the first record (`sigkill_at_start`: SIGTERM too, in Cline's first 0.3 s)."""
    signal = signal_of(process_end(case))
    if signal is None:
        return None
    when = "while it was starting" if case.stdout is not None else "and its output was not read"
    return Finding(Reason.NO_RUN_RESULT, _exit(case), f"Cline was ended by {signal} {when}.")


def ran_without_stdout(case: Case) -> Finding | None:
    """An agent ran, by cline.log, but stdout says nothing of it: lost output, not a failed start."""
    log = case.log
    if log is None or not log.agent_ends:
        return None
    entry = cited_entry(log.source, log.agent_ends[-1].error, "errorMessage")
    text = "An agent ran, by Cline's own log, but its output holds no record."
    return Finding(Reason.NO_RUN_RESULT, (entry, *_exit(case)), text)


def never_started(case: Case) -> Finding | None:
    """Cline refused: a bad option, no prompt, an unwritable data directory, a `/team` without a task."""
    end = process_end(case)
    sentence = _stderr_sentence(case)
    if end is None and sentence is None:
        return None
    if case.stdout is None and (end is None or end.exec_error is None):
        return None
    if sentence is not None and (end is None or end.exec_error is None):
        entry, text = sentence
        return Finding(Reason.HARNESS_SETUP, (entry, *_exit(case)), text)
    return Finding(Reason.HARNESS_SETUP, _exit(case), _our_sentence(end)) if end is not None else None


def _stderr_sentence(case: Case) -> tuple[EvidenceEntry, str] | None:
    stderr = case.evidence.stderr
    if stderr is None:
        return None
    if stderr.error is not None:
        return cited_entry(stderr.source, stderr.error, "message"), stderr.error.value
    if stderr.first_text is not None:
        return cited_entry(stderr.source, stderr.first_text, "text"), stderr.first_text.value
    return None


def _our_sentence(end: ExitEvidence) -> str:
    if end.exec_error is not None:
        return f"Cline could not be started: {end.exec_error}."
    if end.exit_code in CANNOT_RUN:
        return f"Cline could not be run (exit code {end.exit_code}): not executable, or not found."
    if end.exit_code == 0:
        # FORMAT.md §4: a prompt of `/team` alone does this, on 3.0.57.
        return "Cline ended with exit code 0 without a word: it found no task in the prompt (`/team` alone?)."
    return f"Cline ended with exit code {end.exit_code} before it started a run, and wrote no reason."


def nothing_at_all(case: Case) -> Finding | None:
    """No source says anything that a rule could use."""
    read = [
        name
        for name, part in (
            ("stdout", case.stdout),
            ("cline.log", case.log),
            ("stderr", case.evidence.stderr),
        )
        if part is not None
    ]
    where = " or ".join(read) if read else "any source"
    return Finding(Reason.UNKNOWN, _exit(case), f"Nothing in {where} tells how the run ended.")


def process_end(case: Case) -> ExitEvidence | None:
    """How the process ended: by the file that says so, else by the receipt's return code."""
    if case.evidence.exit is not None:
        return case.evidence.exit
    receipt = case.evidence.receipt
    if receipt is None or case.receipt is None or case.receipt.return_code is None:
        return None
    return ExitEvidence(receipt.source, exit_code=case.receipt.return_code)


def signal_of(end: ExitEvidence | None) -> str | None:
    """The signal that ended the process, if one did."""
    if end is None:
        return None
    if end.signal is not None:
        return end.signal
    if end.exit_code is not None and end.exit_code < 0:
        return f"signal {-end.exit_code}"
    if end.exit_code is not None and end.exit_code > SIGNAL_BASE:
        return f"signal {end.exit_code - SIGNAL_BASE}"
    return None


def _exit(case: Case) -> tuple[EvidenceEntry, ...]:
    return exit_entries(process_end(case))
