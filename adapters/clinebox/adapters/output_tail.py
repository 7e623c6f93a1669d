"""Keeps the masked tail of this process's own output, while the operator sees it unchanged (SPEC §6).

Two ways in. `TailedTextStream` stands before a text stream such as `sys.stdout` and sees what Python writes
to it. `DescriptorTail` sits on the file descriptors, so that it also sees what child processes and C code
write (a component server that inherits descriptor 1 writes past Python's streams).
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TextIO

from clinebox.domain.secrets.forms import to_bytes
from clinebox.domain.secrets.masker import Masker
from clinebox.domain.secrets.tail import OutputTail

_READ_BYTES: Final = 65536
_STANDARD_DESCRIPTORS: Final = (1, 2)


class SharedTail:
    """An `OutputTail` that several threads may feed and read."""

    def __init__(self, masker: Masker) -> None:
        self._tail = OutputTail(masker)
        self._lock = threading.Lock()

    def feed(self, data: bytes, *, source: str) -> None:
        """Take the next bytes of a source."""
        with self._lock:
            self._tail.feed(data, source=source)

    def lines(self) -> tuple[str, ...]:
        """The last 80 lines, masked, oldest first."""
        with self._lock:
            return self._tail.lines()


class TailedTextStream:
    """Writes to `stream` unchanged and keeps what was written in `tail`; all else is the stream's own.

    `isatty`, `fileno`, `flush`, `encoding`, `errors`, `buffer`, … answer as before. What is written to
    `buffer` or to the descriptor goes past it: `DescriptorTail` sees that too.
    """

    def __init__(self, stream: TextIO, tail: SharedTail, *, source: str) -> None:
        self._stream = stream
        self._tail = tail
        self._source = source

    def write(self, text: str) -> int:
        """Keep and write `text`; it is in the tail also when the stream raises."""
        self._tail.feed(to_bytes(text), source=self._source)
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """The stream's own."""
        self._stream.flush()

    def isatty(self) -> bool:
        """The stream's own."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The stream's own."""
        return self._stream.fileno()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def __enter__(self) -> Self:
        self._stream.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.__exit__(kind, error, trace)


@dataclass(frozen=True, slots=True)
class _Diverted:
    """A descriptor, a duplicate of where it led, and whether children inherit it."""

    descriptor: int
    original: int
    inheritable: bool


class DescriptorTail:
    """Keeps what this process *and its children* write to descriptors, and passes it on byte for byte.

    While it is open, each descriptor is a pipe (so no terminal any more) that one thread copies to where the
    descriptor led before. `close` puts the descriptors back and waits until everything written before is
    passed on. A child that lives on keeps its pipe: the thread serves it until the child or this process
    ends.
    """

    def __init__(self, tail: SharedTail, *, descriptors: Sequence[int] = _STANDARD_DESCRIPTORS) -> None:
        self._pump = _Pump(tail)
        self._diverted: list[_Diverted] = []
        _flush_standard_streams()
        try:
            for descriptor in descriptors:
                self._divert(descriptor)
        except OSError:
            self._pump.start()
            self.close()
            raise
        self._pump.start()

    def _divert(self, descriptor: int) -> None:
        """Lead a descriptor into a new pipe, and remember where it led."""
        with contextlib.ExitStack() as undo:
            original = os.dup(descriptor)
            undo.callback(os.close, original)
            passed_on_to = os.dup(original)
            undo.callback(os.close, passed_on_to)
            reader, writer = os.pipe()
            undo.pop_all()
        inheritable = os.get_inheritable(descriptor)
        self._pump.serve(reader, passed_on_to=passed_on_to, source=str(descriptor))
        os.dup2(writer, descriptor, inheritable=inheritable)
        os.close(writer)
        self._diverted.append(_Diverted(descriptor, original, inheritable=inheritable))

    def close(self, *, drain_timeout_s: float | None = 10.0) -> bool:
        """Put the descriptors back; True when all that was written before was passed on in time.

        False means that where they lead takes nothing (a paused terminal); the thread goes on trying.
        Closing twice does nothing more.
        """
        if self._diverted:
            _flush_standard_streams()
        while self._diverted:
            diverted = self._diverted.pop()
            os.dup2(diverted.original, diverted.descriptor, inheritable=diverted.inheritable)
            os.close(diverted.original)
        return self._pump.drain(timeout_s=drain_timeout_s)

    @property
    def broken(self) -> tuple[OSError, ...]:
        """Errors of where output is passed on to (a closed terminal); the tail is kept all the same."""
        return tuple(self._pump.broken)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Pump:
    """One thread that copies pipes to descriptors and to the tail."""

    def __init__(self, tail: SharedTail) -> None:
        self._tail = tail
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = os.pipe()
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._routes: dict[int, tuple[int, str]] = {}
        self._waking = threading.Lock()
        self._drained = threading.Event()
        self._thread = threading.Thread(target=self._run, name="output-tail", daemon=True)
        self.broken: list[OSError] = []

    def serve(self, reader: int, *, passed_on_to: int, source: str) -> None:
        os.set_blocking(reader, False)
        self._routes[reader] = (passed_on_to, source)
        self._selector.register(reader, selectors.EVENT_READ)

    def start(self) -> None:
        self._thread.start()

    def drain(self, *, timeout_s: float | None) -> bool:
        """Wait until all that stands in the pipes now is passed on."""
        with self._waking:
            if not self._drained.is_set():
                os.write(self._wake_writer, b"!")
        drained = self._drained.wait(timeout_s)
        if drained and not self._routes:  # nobody else writes: the thread is ending
            self._thread.join()
        return drained

    def _run(self) -> None:
        while not self._drained.is_set():
            for key, _ in self._selector.select():
                if key.fd != self._wake_reader:
                    self._copy(key.fd)
                else:
                    self._copy_all()
                    self._finish_draining()
        while self._routes:  # children live on
            for key, _ in self._selector.select():
                self._copy(key.fd)
        self._selector.close()

    def _finish_draining(self) -> None:
        with self._waking:
            self._selector.unregister(self._wake_reader)
            os.close(self._wake_reader)
            os.close(self._wake_writer)
            self._drained.set()

    def _copy_all(self) -> None:
        for reader in tuple(self._routes):
            while self._copy(reader):
                pass

    def _copy(self, reader: int) -> bool:
        """Pass on what one pipe holds, at most 64 KiB; False when it is empty or was closed."""
        if reader not in self._routes:
            return False
        passed_on_to, source = self._routes[reader]
        try:
            data = os.read(reader, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._forget(reader)
            return False
        self._tail.feed(data, source=source)
        self._pass_on(passed_on_to, data)
        return True

    def _pass_on(self, descriptor: int, data: bytes) -> None:
        """Write all of it; a place that is gone is noted and the pipe still emptied: no writer may block."""
        try:
            _write_all(descriptor, data)
        except OSError as error:
            if not any(known.errno == error.errno for known in self.broken):
                self.broken.append(error)

    def _forget(self, reader: int) -> None:
        passed_on_to, _ = self._routes.pop(reader)
        self._selector.unregister(reader)
        os.close(reader)
        os.close(passed_on_to)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # somebody made the terminal non-blocking
            select.select([], [descriptor], [])


def _flush_standard_streams() -> None:
    """What Python still holds belongs to where the descriptors lead now."""
    for stream in (sys.stdout, sys.stderr):
        # Closed, none (a daemon), or its reader is gone: the stream itself says so to whoever writes to it.
        with contextlib.suppress(ValueError, AttributeError, OSError):
            stream.flush()
