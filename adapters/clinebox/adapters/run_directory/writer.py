"""Writes a run directory: each file by rename, masked; one that fails never takes the others with it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from returns.result import Failure, Result, Success

from clinebox.adapters.run_directory import names
from clinebox.adapters.run_directory.facts import RunFacts, facts_json
from clinebox.adapters.run_directory.json_text import json_bytes
from clinebox.adapters.run_directory.log_cut import cut_bodies
from clinebox.adapters.run_directory.sink import FileSink, Mask
from clinebox.domain.json_value import JsonValue
from clinebox.domain.outcome.model import Outcome
from clinebox.domain.outcome.policy import Verdict
from clinebox.domain.outcome.render import outcome_to_json


@dataclass(frozen=True, slots=True)
class WriteFailure:
    """What could not be written, in a sentence for people."""

    name: str
    message: str


class RunDirectoryWriter:
    """One run's directory. Everything that is written passes `mask`; what failed stands in `failures`."""

    def __init__(
        self,
        path: Path,
        mask: Mask,
        new_record_mask: Callable[[], Mask] | None = None,
        claim: int | None = None,
    ) -> None:
        self.path = path
        self._mask = mask
        self._new_record_mask = new_record_mask
        self._claim = claim
        self._failures: list[WriteFailure] = []

    @classmethod
    def create(
        cls, path: Path, *, mask: Mask, new_record_mask: Callable[[], Mask] | None = None
    ) -> Result[RunDirectoryWriter, WriteFailure]:
        """Make the directory, with its parents.

        `new_record_mask` makes the mask of one stdout: a secret may stand in pieces of several records
        (`secrets.record_stream`). Without it, each record is masked by itself.

        It is claimed until `release`, so that of two runs that found it empty only one takes it.
        Failure(WriteFailure) when it is there and not empty, is no directory, or cannot be made or written.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            claim = _claimed(path)
            occupied = next(path.iterdir(), None)
        except BlockingIOError:
            return _refused(path, "another run has just taken it; give another --out")
        except FileExistsError:
            return _refused(path, "it is not a directory; give another --out")
        except OSError as error:
            return _refused(path, f"{error.strerror}; give another --out")
        if occupied is not None:
            os.close(claim)
            return _refused(path, f"it is not empty (it holds {occupied.name!r}); give another --out")
        return Success(cls(path, mask, new_record_mask, claim))

    def release(self) -> None:
        """Give up the claim: everything is written. It also ends with the process."""
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    @property
    def failures(self) -> tuple[WriteFailure, ...]:
        """What could not be written so far."""
        return tuple(self._failures)

    def open(self, name: str, *, also: Callable[[bytes], None] | None = None) -> FileSink:
        """A file to be written in chunks: `with writer.open(names.STDOUT) as sink: sink.write(chunk)`.

        `also` is told each line as it is written. Published when the block ends without an exception;
        `cline.log` loses its request bodies on the way.
        """
        return FileSink(self.path / name, self._transform(name), self._failed, also=also)

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a file from chunks."""
        with self.open(name) as sink:
            for chunk in chunks:
                sink.write(chunk)

    def write_json(self, name: str, value: JsonValue) -> None:
        """Write a JSON file, indented, UTF-8 and valid whatever the strings hold."""
        self.write(name, [json_bytes(value, indent=1), b"\n"])

    def _transform(self, name: str) -> Mask:
        mask = self._mask
        if name == names.STDOUT and self._new_record_mask is not None:
            return self._new_record_mask()
        if name == names.CLINE_LOG:
            return lambda line: mask(cut_bodies(line))
        return mask

    def _failed(self, name: str, error: OSError) -> None:
        self._failures.append(WriteFailure(name, f"{name} could not be written: {error.strerror or error}"))


def _claimed(path: Path) -> int:
    """A lock on the directory itself, so that nothing of it lies in there (flock(2)); OSError when held."""
    claim = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(claim)
        raise
    return claim


def outcome_file(
    outcome: Outcome, verdict: Verdict, facts: RunFacts, extra: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """What `outcome.json` holds: the fields of `classify --json`, what judging again needs, `extra`."""
    return {**outcome_to_json(outcome, verdict), **facts_json(facts), **extra}


def _refused(path: Path, why: str) -> Failure[WriteFailure]:
    return Failure(WriteFailure(path.name, f"the run directory {str(path)!r} cannot be used: {why}"))
