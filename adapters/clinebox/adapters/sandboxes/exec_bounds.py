"""What every sandbox's commands are bounded by, and how their end is read."""

from __future__ import annotations

from signal import SIGKILL
from typing import Final

OUTPUT_LIMIT_BYTES: Final = 10 << 20
"""Default bound of each of stdout and stderr."""
DRAIN_S: Final = 0.3
"""How long the streams are read on after the command itself ended (BUGS 33, 34)."""
IDLE_POLL_S: Final = 0.01
KILLED: Final = 128 + SIGKILL
"""The exit code of a command that was killed: by memory, by hand, or with its sandbox."""
