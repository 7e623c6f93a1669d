"""What a run left in the sandbox, copied out in one pass: raw bytes to the judges, masked bytes to disk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, Protocol

from returns.pipeline import is_successful

from clinebox.adapters.run_directory.writer import RunDirectoryWriter
from clinebox.domain.ports import Sandbox, SandboxTrouble

CHUNK_BYTES: Final = 1024 * 1024
CHUNK_TIMEOUT_S: Final = 30.0
FILE_LIMIT_BYTES: Final = 1024 * 1024 * 1024
"""Four times the supervisor's default output bound; a log that grew past it is cut, and said to be."""


class Reader(Protocol):
    """A judge of one stream: the domain's readers, or the transcript's builder."""

    def feed(self, chunk: bytes) -> None:
        """Take the next chunk."""
        ...


class Collector:
    """Copies files out of one sandbox; remembers what could not be copied whole."""

    def __init__(self, sandbox: Sandbox, writer: RunDirectoryWriter) -> None:
        self._sandbox = sandbox
        self._writer = writer
        self.truncated: set[str] = set()
        self.notes: list[str] = []

    async def copy(self, path: str, name: str, *readers: Reader, masked: Reader | None = None) -> bool:
        """Copy the sandbox's `path` to the run directory's `name`; False when there is no such file.

        `readers` get the raw bytes, `masked` what is written.
        """
        found = False
        with self._writer.open(name, also=None if masked is None else masked.feed) as sink:
            async for chunk in self._chunks(path, name):
                found = True
                for reader in readers:
                    reader.feed(chunk)
                sink.write(chunk)
        return found

    async def _chunks(self, path: str, name: str) -> AsyncIterator[bytes]:
        """The file in pieces; the first one comes even when it is empty, and none when there is no file."""
        offset = 0
        while True:
            read = await self._sandbox.download(
                path, offset_bytes=offset, limit_bytes=CHUNK_BYTES, timeout_s=CHUNK_TIMEOUT_S
            )
            if not is_successful(read):
                self._missed(name, offset, read.failure().trouble, read.failure().message)
                return
            chunk = read.unwrap()
            if chunk or offset == 0:
                yield chunk
            offset += len(chunk)
            if len(chunk) < CHUNK_BYTES:
                return
            if offset >= FILE_LIMIT_BYTES:
                self._missed(name, offset, SandboxTrouble.BAD_REQUEST, f"it is over {FILE_LIMIT_BYTES} bytes")
                return

    def _missed(self, name: str, offset: int, trouble: SandboxTrouble, message: str) -> None:
        if trouble is SandboxTrouble.NOT_FOUND and offset == 0:
            return
        self.truncated.add(name)
        self.notes.append(f"{name} was collected only up to byte {offset}: {message}")
