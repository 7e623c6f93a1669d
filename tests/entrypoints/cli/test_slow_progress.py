from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console

from clinebox.entrypoints.cli.slow_progress import SlowProgress


def drawn(times: Iterator[float], *, terminal: bool = True, visible: bool = True) -> str:
    """What is drawn while two things are done, at these moments."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=80, color_system=None)
    with SlowProgress(
        "reading", 2, visible=visible, console=console, clock=lambda: next(times)
    ) as bar:  # fmt: skip
        bar.advance()
        bar.advance()
    return screen.getvalue()


def test_work_of_more_than_a_second_has_a_bar() -> None:
    assert "reading" in drawn(iter([0.0, 1.5]))


def test_quick_work_draws_nothing() -> None:
    assert drawn(iter([0.0, 0.1, 0.2])) == ""


def test_nothing_is_drawn_where_there_is_no_terminal_or_nobody_wants_it() -> None:
    assert drawn(iter([0.0, 9.0, 9.0]), terminal=False) == ""
    assert drawn(iter([0.0, 9.0, 9.0]), visible=False) == ""
