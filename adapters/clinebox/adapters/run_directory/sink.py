"""One file of a run directory while it is being written: line by line, masked, published by rename."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, TypeAlias

Mask: TypeAlias = Callable[[bytes], bytes]
"""Takes secrets out of bytes. It sees whole lines, so a secret without a line end is never seen in halves."""


class FileSink:
    """Takes chunks of any size; the file appears whole, or not at all. Errors go to `failed`, never up.

    Without any chunk there is no file, and one empty chunk makes an empty one: "not there" and "empty" are
    different evidence. A line is held until it ends: memory is the longest line, which the supervisor's
    output bound limits.
    """

    def __init__(self, path: Path, transform: Mask, failed: Callable[[str, OSError], None]) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.part")
        self._transform = transform
        self._failed = failed
        self._pending: list[bytes] = []
        self._began = False
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._attempt(self._publish)
        self._discard()

    def write(self, chunk: bytes) -> None:
        """Take the next chunk; after a failure the rest is ignored."""
        if not self._began:
            self._began = True
            self._attempt(self._open)
        head, end, rest = chunk.rpartition(b"\n")
        if not end:
            self._pending.append(chunk)
            return
        whole = b"".join((*self._pending, head))
        self._pending = [rest] if rest else []
        self._attempt(lambda: self._write_lines(whole))

    def _open(self) -> None:
        self._file = self._part.open("wb")

    def _write_lines(self, lines: bytes) -> None:
        if self._file is not None:
            self._file.writelines(self._transform(line) + b"\n" for line in lines.split(b"\n"))

    def _publish(self) -> None:
        if self._file is None:
            return
        self._file.write(self._transform(b"".join(self._pending)) if self._pending else b"")
        self._file.close()
        self._part.replace(self._path)
        self._file = None

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            self._failed(self._path.name, error)
            self._discard()

    def _discard(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        # Unlinked first: on a full disk, close flushes what it holds and fails once more.
        with contextlib.suppress(OSError):
            self._part.unlink()
        with contextlib.suppress(OSError):
            file.close()
