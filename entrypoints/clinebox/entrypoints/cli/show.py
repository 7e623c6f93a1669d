"""How an outcome is shown to people: one panel that explains itself, or one row among many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from clinebox.domain.outcome.model import EvidenceEntry, Outcome, Reason, Status, Usage
from clinebox.domain.outcome.policy import Verdict
from clinebox.domain.outcome.render import MEANINGS
from clinebox.entrypoints.cli.explanations import FLAGS
from clinebox.entrypoints.cli.terminal_text import plain, shown

TEXT_LIMIT_CHARS: Final = 600
"""How much of the final answer is shown; `--json` and the run directory have all of it."""
EXCERPT_LIMIT_CHARS: Final = 180
PLAIN_WIDTH: Final = 100
STATUS_WIDTH: Final = 10
REASON_WIDTH: Final = 22

STYLES: Final = {Status.COMPLETED: "green", Status.INCOMPLETE: "yellow", Status.FAILED: "red"}


@dataclass(frozen=True, slots=True)
class Row:
    """What is kept of a run for the table of many."""

    path: str
    status: Status
    reason: Reason
    detail: str
    gradable: bool

    @staticmethod
    def of(path: str, outcome: Outcome, verdict: Verdict) -> Row:
        """The row of one run."""
        code = [f"HTTP {outcome.status_code}"] if outcome.status_code is not None else []
        return Row(path, outcome.status, outcome.reason, ", ".join([*code, *outcome.flags]), verdict.gradable)


def render_outcome(
    outcome: Outcome, verdict: Verdict, *, extra: Sequence[tuple[str, str]] = ()
) -> RenderableType:
    """The outcome with the lines that decided it; `extra` rows (run, reward, run directory) come first."""
    facts = _facts()
    for name, value in extra:
        facts.add_row(name, plain(value))
    facts.add_row("verdict", Text(verdict_line(verdict)))
    _add_cause(facts, outcome)
    facts.add_row("usage", Text(usage_line(outcome.usage)))
    _add_each(facts, "flags", [Text(f"{flag.value}: {FLAGS[flag]}") for flag in outcome.flags])
    _add_each(facts, "notes", [plain(note) for note in outcome.notes])
    _add_each(facts, "evidence", [_evidence(entry) for entry in outcome.evidence])
    style = STYLES[outcome.status]
    return Panel(
        Group(Text(_sentence(MEANINGS[outcome.reason]), style="bold"), Padding(facts, (1, 0, 0, 0))),
        title=Text(f"{outcome.status.value}: {outcome.reason.value}", style=f"bold {style}"),
        title_align="left",
        border_style=style,
    )


def plain_outcome(outcome: Outcome, verdict: Verdict, *, extra: Sequence[tuple[str, str]] = ()) -> str:
    """The same as plain text, 100 characters wide, for logs and snapshots."""
    console = Console(width=PLAIN_WIDTH, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as captured:
        console.print(render_outcome(outcome, verdict, extra=extra))
    return captured.get()


def verdict_line(verdict: Verdict) -> str:
    """What the policy says, in one line."""
    grade = "gradable" if verdict.gradable else "not gradable"
    retry = "worth another attempt" if verdict.retryable else "no other attempt"
    return f"{grade}, {retry}"


def usage_line(usage: Usage | None) -> str:
    """Token counts in one line; what is not known is said, never shown as 0.

    >>> usage_line(Usage(2200, 1000, 70, None))
    '2,200 tokens in (1,000 of them cached), 70 out (reasoning not known)'
    """
    if usage is None:
        return "not known"
    cached = "cached not known" if usage.cached_tokens is None else f"{usage.cached_tokens:,} of them cached"
    thought = (
        "reasoning not known"
        if usage.reasoning_tokens is None
        else f"{usage.reasoning_tokens:,} of them reasoning"
    )
    return f"{usage.input_tokens:,} tokens in ({cached}), {usage.output_tokens:,} out ({thought})"


def render_row(row: Row) -> Text:
    """One run among many; the path stands last and is never cut, so that it can be copied."""
    return Text.assemble(
        (row.status.value.ljust(STATUS_WIDTH + 1), STYLES[row.status]),
        row.reason.value.ljust(REASON_WIDTH + 1),
        plain(row.path),
        (f"  {shown(row.detail)}" if row.detail else "", "dim"),
    )


def render_head() -> Text:
    """The heading above the rows."""
    head = f"{'status'.ljust(STATUS_WIDTH + 1)}{'reason'.ljust(REASON_WIDTH + 1)}run"
    return Text(head, style="bold")


def render_totals(rows: Iterable[Row]) -> RenderableType:
    """How many runs ended how: the infra-failed rate first, then each status and reason."""
    listed = list(rows)
    counts = Counter((row.status, row.reason) for row in listed)
    gradable = sum(row.gradable for row in listed)
    total = counts.total()
    failed = sum(count for (status, _), count in counts.items() if status is Status.FAILED)
    rate = failed / total if total else 0.0
    style = "red" if failed else "green"
    head = Text(
        f"infra-failed {failed:,} of {total:,} runs ({rate:.1%}), never scored; gradable {gradable:,}",
        style=style,
    )
    table = Table("status", "reason", Column("runs", justify="right"), box=None, pad_edge=False)
    for status in Status:
        for reason in Reason:
            if counts[status, reason]:
                table.add_row(
                    Text(status.value, style=STYLES[status]),
                    Text(reason.value),
                    Text(f"{counts[status, reason]:,}"),
                )
    return Group(head, Text(""), table)


def _sentence(meaning: str) -> str:
    return f"{meaning[:1].upper()}{meaning[1:]}."


def _facts() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _add_cause(facts: Table, outcome: Outcome) -> None:
    if outcome.failure_kind is not None:
        code = "" if outcome.status_code is None else f" (HTTP {outcome.status_code})"
        facts.add_row("kind", plain(f"{outcome.failure_kind}{code}"))
    if outcome.stopped_by is not None:
        facts.add_row("stopped by", Text(outcome.stopped_by.value))
    if outcome.text.strip():
        facts.add_row("text", plain(outcome.text.strip(), limit=TEXT_LIMIT_CHARS, lines=True))
    if outcome.cline_version is not None:
        facts.add_row("cline", plain(outcome.cline_version, limit=EXCERPT_LIMIT_CHARS))


def _add_each(facts: Table, name: str, values: Sequence[RenderableType]) -> None:
    for index, value in enumerate(values):
        facts.add_row(name if index == 0 else "", value)


def _evidence(entry: EvidenceEntry) -> RenderableType:
    where = entry.source if entry.line is None else f"{entry.source}:{entry.line}"
    head = Text.assemble((shown(where), "cyan"), "  ", (shown(entry.field), "bold"))
    return Group(head, Padding(plain(entry.excerpt, limit=EXCERPT_LIMIT_CHARS), (0, 0, 0, 2)))
