"""A progress bar that appears only on a terminal, and only when the work takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PATIENCE_S: Final = 1.0


class SlowProgress:
    """`with SlowProgress("reading runs", total) as bar: bar.advance()`; drawn on stderr, gone at the end."""

    def __init__(
        self,
        title: str,
        total: int,
        *,
        visible: bool = True,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        console = console or Console(file=sys.stderr, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        shown = visible and console.is_terminal
        self._progress = Progress(*columns, console=console, transient=True, disable=not shown)
        self._task = self._progress.add_task(title, total=total)
        self._clock = clock
        self._began_s = clock()
        self._started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started:
            self._progress.stop()

    def advance(self) -> None:
        """One more is done."""
        self._progress.advance(self._task)
        if not self._started and self._clock() - self._began_s > PATIENCE_S:
            self._progress.start()
            self._started = True
