"""How a run looks while it goes on: one moving line on a terminal, elsewhere a plain line per phase."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from clinebox.domain.bounded_json import Mask
from clinebox.entrypoints.cli.terminal_text import plain
from clinebox.entrypoints.observer import Progress

REFRESHES_PER_S: Final = 8
BAR_WIDTH: Final = 30
MIB: Final = 1024 * 1024


class LiveRun:
    """A `RunObserver` that draws; `with LiveRun(console, mask) as observer`."""

    def __init__(self, console: Console, mask: Mask) -> None:
        self._console = console
        self._mask = mask
        self._began = time.monotonic()
        self._phase = "starting"
        self._progress: Progress | None = None
        self._fetched: tuple[int, int | None] | None = None
        self._spinner = Spinner("dots")
        self._live = Live(
            get_renderable=self._line, console=console, refresh_per_second=REFRESHES_PER_S, transient=True
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def phase(self, text: str) -> None:
        """The next step; what was fetched belongs to the last one."""
        self._phase, self._fetched = text, None
        if not self._console.is_terminal:
            self._console.print(plain(f"[{self._elapsed_s():6.1f} s] {text}"), soft_wrap=True)

    def fetching(self, done_bytes: int, total_bytes: int | None) -> None:
        """How much of the runtime is here."""
        self._fetched = (done_bytes, total_bytes)

    def progress(self, progress: Progress) -> None:
        """How far the agent is."""
        self._progress = progress

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def _line(self) -> Table:
        grid = Table.grid(padding=(0, 1))
        cells: list[RenderableType] = [
            self._spinner,
            Text(f"{self._elapsed_s():.0f} s", style="bold"),
            plain(self._phase),
        ]
        if self._fetched is not None:
            cells += self._fetch_cells(*self._fetched)
        elif self._progress is not None:
            cells.append(self._progress_cell(self._progress))
        grid.add_row(*cells)
        return grid

    def _fetch_cells(self, done: int, total: int | None) -> list[RenderableType]:
        if total is None:  # npm tells nothing while it fetches: the elapsed time has to do
            return [Text(f"{done / MIB:.0f} MiB")] if done else []
        bar = ProgressBar(total=total, completed=done, width=BAR_WIDTH)
        return [bar, Text(f"{done / MIB:.0f} of {total / MIB:.0f} MiB")]

    def _progress_cell(self, progress: Progress) -> Text:
        last = f", last tool: {progress.last_tool}" if progress.last_tool else ""
        return plain(self._mask(f"· turns {progress.turns}, tool calls {progress.tool_calls}{last}"))
