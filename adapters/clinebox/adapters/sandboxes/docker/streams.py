"""An exec's streams: one hijacked connection, stdin out, stdout and stderr back as frames.

Read on the event loop, not by docker-py: a command that runs for an hour would hold a thread for that long,
and docker-py hands out the bare socket, so what arrives together with the answer's header is lost
(docker-py 7.2, `_get_raw_response_socket`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

CHUNK_BYTES: Final = 262_144
HEADER_LIMIT_BYTES: Final = 65_536
FRAME_HEADER_BYTES: Final = 8
STDOUT, STDERR = 1, 2
HIJACKED: Final = (200, 101)
"""101 from Docker, which was asked to upgrade; Podman answers 101 too, older ones 200."""


class RefusedError(Exception):
    """The engine answered an exec's start with an error; the text is its own."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A hijacked connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A plain connection to the engine; raises OSError."""
    parts = urlsplit(address)
    if parts.scheme == "unix":
        return await asyncio.open_unix_connection(parts.path, limit=CHUNK_BYTES)
    return await asyncio.open_connection(parts.hostname, parts.port, limit=CHUNK_BYTES)


async def hijack(address: str, path: str) -> Connection:
    """Start an exec and take its connection over. Raises OSError, or RefusedError in the engine's words."""
    reader, writer = await connect(address)
    try:
        body = json.dumps({"Detach": False, "Tty": False}).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        if int(answer.split(b" ", 2)[1]) not in HIJACKED:
            raise RefusedError(await _words(reader))  # noqa: TRY301 - the connection is closed below for both
    except asyncio.IncompleteReadError as error:
        writer.close()
        raise ConnectionResetError("the engine closed the connection without an answer") from error
    except BaseException:
        writer.close()
        raise
    return Connection(reader, writer)


async def _words(reader: asyncio.StreamReader) -> str:
    text = (await reader.read(HEADER_LIMIT_BYTES)).decode("utf-8", "replace")
    with contextlib.suppress(ValueError, TypeError):
        return str(json.loads(text[text.index("{") : text.rindex("}") + 1])["message"])
    return text


class BoundedOutput:
    """Keeps the first `limit_bytes` of a stream, and drops the rest."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._kept = bytearray()
        self.truncated = False

    @property
    def content(self) -> bytes:
        """What was kept so far."""
        return bytes(self._kept)

    def take(self, chunk: bytes) -> None:
        """More of it."""
        room = self._limit - len(self._kept)
        self._kept += chunk[:room]
        self.truncated = self.truncated or len(chunk) > room


class ExecStreams:
    """A running exec's streams. `ended` is done when the engine closed them; always `close` it."""

    def __init__(self, connection: Connection, *, stdin: bytes, limit_bytes: int) -> None:
        self.stdout, self.stderr = BoundedOutput(limit_bytes), BoundedOutput(limit_bytes)
        self._connection = connection
        self._feeding = asyncio.ensure_future(self._feed(stdin))
        self.ended = asyncio.ensure_future(self._read())

    async def _feed(self, stdin: bytes) -> None:
        """Write stdin as fast as it is taken, then close that direction."""
        writer = self._connection.writer
        with contextlib.suppress(OSError):  # the command does not read its input: its own affair
            for start in range(0, len(stdin), CHUNK_BYTES):
                writer.write(stdin[start : start + CHUNK_BYTES])
                await writer.drain()
            writer.write_eof()

    async def _read(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                header = await self._connection.reader.readexactly(FRAME_HEADER_BYTES)
                await self._frame(header[0], int.from_bytes(header[4:], "big"))

    async def _frame(self, kind: int, left: int) -> None:
        output = self.stderr if kind == STDERR else self.stdout
        while left:
            chunk = await self._connection.reader.read(min(left, CHUNK_BYTES))
            if not chunk:
                raise asyncio.IncompleteReadError(b"", left)
            output.take(chunk)
            left -= len(chunk)

    async def drain(self, *, within_s: float) -> None:
        """Read on to the end, at most `within_s`: a background process may hold them for ever."""
        await asyncio.wait({self.ended}, timeout=within_s)

    async def close(self) -> None:
        """Leave the connection; what still runs in the sandbox is not touched."""
        self._feeding.cancel()
        self.ended.cancel()
        await asyncio.wait({self._feeding, self.ended})
        self._connection.writer.close()
        with contextlib.suppress(OSError):
            await self._connection.writer.wait_closed()
