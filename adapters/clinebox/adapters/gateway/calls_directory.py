"""The records of a standing gateway on disk: one file a session, each call as soon as it ends."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from clinebox.domain.model_calls.codec import call_to_json, model_call_lines
from clinebox.domain.model_calls.record import ModelCall

SUFFIX: Final = ".jsonl"
_APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class CallsDirectory:
    """A directory with `<session id>.jsonl` files.

    `append` writes a call's line with one write before the client can know the answer's end, so that a
    gateway that is killed has lost no call that had ended. (The kernel has it then; a host that loses its
    power may lose the last seconds.) Such lines say `"of": null`: nobody takes them for the whole.
    `finish` puts the whole record in their place by rename. A session without calls has no file before.
    """

    def __init__(self, path: Path, on_first_failure: Callable[[str], None] | None = None) -> None:
        self.path = path
        self._on_first_failure = on_first_failure
        self.failures = 0
        """Writes that failed: a full disk, say. The record in memory has those calls."""
        self._half: set[str] = set()

    @classmethod
    def create(cls, path: Path, on_first_failure: Callable[[str], None] | None = None) -> CallsDirectory:
        """The directory, made (0700) with its parents if need be. OSError when it cannot be written."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        trial = path / f".trial-{os.getpid()}"
        os.close(os.open(trial, _APPEND, 0o600))
        trial.unlink()
        return cls(path, on_first_failure)

    def append(self, session_id: str, call: ModelCall) -> None:
        """Keep a call that ended. Never raises: what could not be written is counted."""
        line = json.dumps(call_to_json(call, None), separators=(",", ":")).encode("ascii") + b"\n"
        if session_id in self._half:
            line = b"\n" + line
        try:
            self._write(session_id, line)
        except OSError as error:
            self._failed(error)

    def finish(self, session_id: str, calls: Sequence[ModelCall]) -> None:
        """Put the whole record of an ended session in the file's place. Never raises, as `append`."""
        path = self.path / (session_id + SUFFIX)
        part = path.with_suffix(".part")
        try:
            part.write_bytes(b"".join(model_call_lines(calls)))
            part.chmod(0o600)
            part.replace(path)
            self._half.discard(session_id)
        except OSError as error:
            self._failed(error)
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)

    def _write(self, session_id: str, line: bytes) -> None:
        file = os.open(self.path / (session_id + SUFFIX), _APPEND, 0o600)
        try:
            written = os.write(file, line)
            self._half.discard(session_id)
            if written < len(line):
                self._half.add(session_id)
                os.write(file, line[written:])  # says why, as a full disk does at the second try
                self._half.discard(session_id)
        finally:
            os.close(file)

    def _failed(self, error: OSError) -> None:
        self.failures += 1
        if self.failures == 1 and self._on_first_failure is not None:
            reason = error.strerror or str(error)
            self._on_first_failure(f"a record could not be written to {str(self.path)!r}: {reason}")
