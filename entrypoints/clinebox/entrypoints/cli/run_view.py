"""An ended run for people: what happened when, the outcome with its evidence, the grade, the files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from clinebox.domain.bounded_json import Mask
from clinebox.domain.cline.timeline import TimelineEntry, TimelineMark, ToolSpan, TurnSpan, timeline
from clinebox.domain.cline.transcript_model import ItemStatus, Transcript
from clinebox.entrypoints.cli.show import render_outcome
from clinebox.entrypoints.cli.terminal_text import plain
from clinebox.entrypoints.run_once import FinishedRun

TIMELINE_ROWS: Final = 60
MARK_LIMIT_CHARS: Final = 120


def print_run(console: Console, run: FinishedRun, run_directory: Path, mask: Mask) -> None:
    """The timeline, then the panel; what comes from the run is masked before it is laid out in lines."""
    transcript = run.judgement.transcript
    if transcript is not None and timeline(transcript):
        console.print(render_timeline(transcript, mask))
        console.print()
    rows = [
        ("grade", _grade(run)),
        ("cleanup", _cleanup(run)),
        ("sandbox", _sandbox(run)),
        ("model", _model_calls(run)),
        ("took", f"{run.duration_s:.1f} s"),
        ("files", str(run_directory)),
        *(("note", note) for note in (*_told_otherwise(run), *run.notes)),
    ]
    extra = [(name, mask(value)) for name, value in rows]
    console.print(render_outcome(run.judgement.outcome, run.verdict, extra=extra))


def _model_calls(run: FinishedRun) -> str:
    calls = run.judgement.model_calls
    if calls is None:
        return "its calls were not watched"
    return f"{len(calls)} call{'' if len(calls) == 1 else 's'}, each seen by the gateway"


def _told_otherwise(run: FinishedRun) -> tuple[str, ...]:
    """What Cline would have expanded in the task, and was told in backticks instead."""
    changes = run.request.prompt.changes
    if not changes:
        return ()
    first = changes[0]
    more = f", and {len(changes) - 1} more (outcome.json has them)" if len(changes) > 1 else ""
    return (f"told to Cline as {first.replacement}, so that it expands nothing: {first.original}{more}",)


def render_timeline(transcript: Transcript, mask: Mask) -> Table:
    """When each turn and tool call began, and how long it took; the middle of a long one is left out."""
    table = Table(Column("at", justify="right"), Column("took", justify="right"), "what", box=None)
    entries = timeline(transcript)
    left_out = max(len(entries) - TIMELINE_ROWS, 0)
    head = TIMELINE_ROWS // 2 if left_out else len(entries)
    for entry in entries[:head]:
        table.add_row(*_row(entry, mask))
    if left_out:
        table.add_row("", "", Text(f"… {left_out} more in transcript.json …", style="dim"))
        for entry in entries[-(TIMELINE_ROWS - head) :]:
            table.add_row(*_row(entry, mask))
    return table


def _row(entry: TimelineEntry, mask: Mask) -> tuple[Text, Text, Text]:
    match entry:
        case TurnSpan():
            took = _difference(entry.start_ms, entry.answered_ms)
            return _at(entry.start_ms), _seconds(took), Text(f"turn {entry.iteration or '?'}: the model")
        case ToolSpan():
            return _at(entry.start_ms), _seconds(entry.duration_ms), _tool(entry, mask)
        case TimelineMark():
            words = plain(mask(f"{entry.kind}: {entry.message}"), limit=MARK_LIMIT_CHARS, style="yellow")
            return _at(entry.start_ms), Text(""), words


def _tool(entry: ToolSpan, mask: Mask) -> Text:
    words = plain(mask(f"  tool {entry.name}"))
    if entry.status is ItemStatus.INCOMPLETE:
        words.append(" (no end)", style="yellow")
    elif entry.failed:
        words.append(" (failed)", style="red")
    return words


def _at(offset_ms: int | None) -> Text:
    return Text("?" if offset_ms is None else f"{offset_ms / 1000:.2f} s", style="dim")


def _seconds(duration_ms: int | None) -> Text:
    return Text("" if duration_ms is None else f"{duration_ms / 1000:.2f} s")


def _difference(start_ms: int | None, end_ms: int | None) -> int | None:
    return None if start_ms is None or end_ms is None else end_ms - start_ms


def _grade(run: FinishedRun) -> str:
    if run.reward is not None:
        return f"{run.reward:g}"
    if run.verifier_error is not None:
        return f"none: {run.verifier_error}"
    if run.verdict.gradable:
        return "none: no --verify was given"
    return "none: a run that may not be graded has no reward, not even 0"


def _cleanup(run: FinishedRun) -> str:
    receipt = run.receipt
    if receipt is None and run.sandbox is None:
        return "nothing was started"
    if receipt is None:
        return "without a receipt: the sandbox was ended with all that was in it"
    if not receipt.cleanup_confirmed:
        return f"NOT confirmed: {receipt.error or 'no reason given'}"
    count = len(receipt.survivors)
    left = f", {count} background process{'es' if count > 1 else ''} ended at close" if count else ""
    return f"confirmed{left}"


def _sandbox(run: FinishedRun) -> str:
    if run.sandbox is None:
        return "none was started"
    return f"{run.sandbox.provider}/{run.sandbox.containment}: {run.sandbox.note}"
