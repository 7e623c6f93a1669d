"""What asks a command to stop: Ctrl-C, SIGTERM, a terminal that hangs up."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def interrupts(ask: Callable[[], None]) -> Iterator[None]:
    """Call `ask` in the running loop at each of them. Under `nohup` a hang-up stays ignored."""
    loop = asyncio.get_running_loop()
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heard = (signal.SIGINT, signal.SIGTERM) if nohup else (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in heard:
        loop.add_signal_handler(number, ask)
    try:
        yield
    finally:
        for number in heard:
            loop.remove_signal_handler(number)
