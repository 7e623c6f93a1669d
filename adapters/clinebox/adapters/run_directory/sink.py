"""One file of a run directory while it is being written: line by line, masked, published by rename."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self, TypeAlias

from clinebox.domain.cline.stream import LINE_LIMIT_BYTES

OVERLONG_LINE: Final = b" " * (LINE_LIMIT_BYTES + 1)
Mask: TypeAlias = Callable[[bytes], bytes]
"""Takes secrets out of bytes. It sees whole lines, so a secret without a line end is never seen in halves."""


class FileSink:
    """Takes chunks of any size; the file appears whole, or not at all. Errors go to `failed`, never up.

    Without any chunk there is no file, and one empty chunk makes an empty one: "not there" and "empty" are
    different evidence. A line is held until it ends, up to the decoder's bound: an agent can write one of
    gigabytes. A longer one becomes blank and stays over the bound, so that what is written is judged alike.
    """

    def __init__(
        self,
        path: Path,
        transform: Mask,
        failed: Callable[[str, OSError], None],
        *,
        also: Callable[[bytes], None] | None = None,
    ) -> None:
        """`also` is told each line as it is written, with its end."""
        self._path = path
        self._part = path.with_name(f".{path.name}.part")
        self._transform = transform
        self._failed = failed
        self._also = also
        self._held: list[bytes] = []
        self._held_bytes = 0
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
        *ended, rest = chunk.split(b"\n")
        lines = [self._line(piece) for piece in ended]
        self._hold(rest)
        if lines:
            self._attempt(lambda: self._write_lines(lines))

    def _hold(self, piece: bytes) -> None:
        self._held_bytes += len(piece)
        if self._held_bytes > LINE_LIMIT_BYTES:
            self._held.clear()
        elif piece:
            self._held.append(piece)

    def _line(self, last_piece: bytes) -> bytes:
        """The line that ends with this piece, as it is to be written."""
        self._hold(last_piece)
        line, size = b"".join(self._held), self._held_bytes
        self._held, self._held_bytes = [], 0
        written = self._transform(line) if size <= LINE_LIMIT_BYTES else OVERLONG_LINE
        if self._also is not None:
            self._also(written + b"\n")
        return written

    def _open(self) -> None:
        self._file = self._part.open("wb")

    def _write_lines(self, lines: list[bytes]) -> None:
        if self._file is not None:
            self._file.writelines(line + b"\n" for line in lines)

    def _publish(self) -> None:
        if self._file is None:
            return
        self._file.write(self._line(b"") if self._held_bytes else b"")
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
