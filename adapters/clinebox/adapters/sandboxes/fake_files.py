"""The files of a fake sandbox: regular ones alone, by absolute path."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.checks import refused
from clinebox.domain.ports import SandboxFailure, SandboxTrouble


class FakeFile(NamedTuple):
    """A file's bytes and permissions."""

    content: bytes
    mode: int = 0o600


@dataclass(slots=True)
class FakeFiles:
    """Written and read as a real sandbox's files are, with the same refusals."""

    by_path: dict[str, FakeFile] = field(default_factory=dict)
    """A test may look at it and plant into it; the paths are absolute and normal."""

    def write(self, path: str, content: bytes, mode: int = 0o600) -> Result[None, SandboxFailure]:
        """Put a whole file in place; Failure(BAD_REQUEST) for what is no path of a file."""
        return self._normal(path).bind(lambda name: self._put(name, FakeFile(content, mode)))

    def read(
        self, path: str, offset_bytes: int = 0, limit_bytes: int | None = None
    ) -> Result[bytes, SandboxFailure]:
        """A part of a file; Failure(NOT_FOUND), Failure(BAD_REQUEST)."""
        if offset_bytes < 0 or (limit_bytes is not None and limit_bytes < 0):
            return refused(f"Offset and limit must not be negative: {offset_bytes}, {limit_bytes}.")
        return self._normal(path).bind(self._found).map(lambda each: _part(each, offset_bytes, limit_bytes))

    def _normal(self, path: str) -> Result[str, SandboxFailure]:
        if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
            return refused(f"A path in the sandbox must be absolute and without '..', not {path!r}.")
        name = str(PurePosixPath("/", path.lstrip("/")))
        through = next((str(each) for each in PurePosixPath(name).parents if str(each) in self.by_path), None)
        if through is not None:
            return refused(f"{through} is no directory.")
        if name == "/" or any(each.startswith(f"{name}/") for each in self.by_path):
            return refused(f"{path} is a directory, not a regular file.")
        return Success(name)

    def _put(self, name: str, file: FakeFile) -> Result[None, SandboxFailure]:
        self.by_path[name] = file
        return Success(None)

    def _found(self, name: str) -> Result[FakeFile, SandboxFailure]:
        found = self.by_path.get(name)
        if found is None:
            message = f"There is no {name} in the sandbox."
            return Failure(SandboxFailure(SandboxTrouble.NOT_FOUND, message))
        return Success(found)


def _part(file: FakeFile, offset_bytes: int, limit_bytes: int | None) -> bytes:
    end = None if limit_bytes is None else offset_bytes + limit_bytes
    return file.content[offset_bytes:end]
