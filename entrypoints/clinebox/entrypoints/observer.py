"""What a run tells while it goes on; a CLI draws it, a server may log it, a test may collect it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from clinebox.domain.cline.events import IterationStart, Record, ToolStart


@dataclass(frozen=True, slots=True)
class Progress:
    """What the stream has shown so far; sub-agents' turns and tools are counted too."""

    turns: int = 0
    tool_calls: int = 0
    last_tool: str | None = None

    def after(self, record: Record) -> Progress:
        """The progress once this record was read."""
        match record.event:
            case IterationStart():
                return Progress(self.turns + 1, self.tool_calls, self.last_tool)
            case ToolStart(tool_name=name):
                return Progress(self.turns, self.tool_calls + 1, name)
            case _:
                return self


class RunObserver(Protocol):
    """Called from the event loop; must neither block nor raise."""

    def phase(self, text: str) -> None:
        """A new step began: "starting the sandbox"."""
        ...

    def fetching(self, done_bytes: int, total_bytes: int | None) -> None:
        """The runtime is being fetched; called from a worker thread."""
        ...

    def progress(self, progress: Progress) -> None:
        """The agent went on."""
        ...


class SilentObserver:
    """For callers who do not watch."""

    def phase(self, text: str) -> None:
        """Say nothing."""

    def fetching(self, done_bytes: int, total_bytes: int | None) -> None:
        """Say nothing."""

    def progress(self, progress: Progress) -> None:
        """Say nothing."""
