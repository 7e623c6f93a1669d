"""Writes a run directory: each file by rename, masked; one that fails never takes the others with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from returns.result import Failure, Result, Success

from clinebox.adapters.run_directory import names
from clinebox.adapters.run_directory.log_cut import cut_bodies
from clinebox.adapters.run_directory.sink import FileSink, Mask
from clinebox.domain.json_value import JsonValue

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class WriteFailure:
    """What could not be written, in a sentence for people."""

    name: str
    message: str


class RunDirectoryWriter:
    """One run's directory. Everything that is written passes `mask`; what failed stands in `failures`."""

    def __init__(self, path: Path, mask: Mask) -> None:
        self.path = path
        self._mask = mask
        self._failures: list[WriteFailure] = []

    @classmethod
    def create(cls, path: Path, *, mask: Mask) -> Result[RunDirectoryWriter, WriteFailure]:
        """Make the directory, with its parents.

        Failure(WriteFailure) when it is there and not empty, is no directory, or cannot be made or written.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            occupied = next(path.iterdir(), None)
        except FileExistsError:
            return _refused(path, "it is not a directory; give another --out")
        except OSError as error:
            return _refused(path, f"{error.strerror}; give another --out")
        if occupied is not None:
            return _refused(path, f"it is not empty (it holds {occupied.name!r}); give another --out")
        return Success(cls(path, mask))

    @property
    def failures(self) -> tuple[WriteFailure, ...]:
        """What could not be written so far."""
        return tuple(self._failures)

    def open(self, name: str) -> FileSink:
        """A file to be written in chunks: `with writer.open(names.STDOUT) as sink: sink.write(chunk)`.

        Published when the block ends without an exception; `cline.log` loses its request bodies on the way.
        """
        return FileSink(self.path / name, self._transform(name), self._failed)

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a file from chunks."""
        with self.open(name) as sink:
            for chunk in chunks:
                sink.write(chunk)

    def write_json(self, name: str, value: JsonValue) -> None:
        """Write a JSON file, indented, UTF-8 and valid whatever the strings hold."""
        self.write(name, [json_bytes(value)])

    def _transform(self, name: str) -> Mask:
        mask = self._mask
        if name == names.CLINE_LOG:
            return lambda line: mask(cut_bodies(line))
        return mask

    def _failed(self, name: str, error: OSError) -> None:
        self._failures.append(WriteFailure(name, f"{name} could not be written: {error.strerror or error}"))


def json_bytes(value: JsonValue) -> bytes:
    r"""Indented UTF-8 JSON; a lone surrogate, which UTF-8 cannot carry, is written as its `\udXXX` escape."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    escaped = _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    return escaped.encode("utf-8") + b"\n"


def _refused(path: Path, why: str) -> Failure[WriteFailure]:
    return Failure(WriteFailure(path.name, f"the run directory {str(path)!r} cannot be used: {why}"))
