"""HTTP/1.1 for one server: requests read within bounds, responses written with chosen framing (RFC 9112)."""

from __future__ import annotations

import http
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from clinebox.adapters.scripted_model.connection import ClientGoneError, Connection

HEAD_LIMIT_BYTES: Final = 64 * 1024
CHUNK_LINE_LIMIT_BYTES: Final = 4 * 1024
HEX_DIGITS: Final = frozenset(b"0123456789abcdefABCDEF")
MAX_SIZE_DIGITS: Final = 15


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request, whole. Header names are in lower case."""

    method: str
    target: str
    version: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        """The first value, or an empty text."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow on the connection (RFC 9112 section 9.3)."""
        options = {option.strip().lower() for option in self.header("connection").split(",")}
        return "close" not in options if self.version == "HTTP/1.1" else False


class BadRequestError(Exception):
    """What came is no request that is read here; carries the status to answer with."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


async def read_request(connection: Connection, *, body_limit_bytes: int) -> HttpRequest | None:
    """The next request; None when the client closed between two.

    Raises BadRequestError, or ClientGoneError when the client closes in the middle of one.
    """
    try:
        first = await connection.receive()
    except ClientGoneError:
        return None
    reader = _Reader(connection, first)
    head = await reader.until(b"\r\n\r\n", HEAD_LIMIT_BYTES, status=431)
    method, target, version, headers = _parsed_head(head)
    bodiless = HttpRequest(method, target, version, headers, b"")
    length, chunked = _body_size(bodiless, body_limit_bytes)
    if (length or chunked) and bodiless.header("expect").lower() == "100-continue" and not reader.has_more:
        await connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await (reader.chunked(body_limit_bytes) if chunked else reader.exactly(length))
    reader.give_rest_back()
    return HttpRequest(method, target, version, headers, body)


def _parsed_head(head: bytes) -> tuple[str, str, str, tuple[tuple[str, str], ...]]:
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0"):  # noqa: PLR2004 - RFC 9112 section 3
        raise BadRequestError(400, "the request line is not `METHOD TARGET HTTP/1.1`")
    headers = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequestError(400, "a header line is not `Name: value`")
        headers.append((name.lower(), value.strip()))
    return parts[0], parts[1], parts[2], tuple(headers)


def _body_size(request: HttpRequest, limit_bytes: int) -> tuple[int, bool]:
    """The length, and whether the body comes in chunks instead."""
    coding, length = request.header("transfer-encoding").lower(), request.header("content-length")
    if coding and length:
        raise BadRequestError(400, "a request has Content-Length or Transfer-Encoding, not both")
    if coding:
        if coding != "chunked":
            raise BadRequestError(501, "the only transfer coding known here is chunked")
        return 0, True
    if length and not (length.isascii() and length.isdecimal()):
        raise BadRequestError(400, "Content-Length is no number")
    if len(length) > MAX_SIZE_DIGITS or int(length or 0) > limit_bytes:
        raise BadRequestError(413, f"the body is larger than {limit_bytes} bytes")
    return int(length or 0), False


class _Reader:
    """Bytes of a connection by delimiter and by count."""

    def __init__(self, connection: Connection, first: bytes) -> None:
        self._connection = connection
        self._data = bytearray(first)

    @property
    def has_more(self) -> bool:
        return bool(self._data)

    async def until(self, mark: bytes, limit_bytes: int, *, status: int) -> bytes:
        searched = 0
        while (at := self._data.find(mark, searched)) < 0 and len(self._data) <= limit_bytes:
            searched = max(0, len(self._data) - len(mark))
            self._data += await self._connection.receive()
        if at < 0 or at > limit_bytes:
            raise BadRequestError(status, f"more than {limit_bytes} bytes without their end")
        found = bytes(self._data[:at])
        del self._data[: at + len(mark)]
        return found

    async def exactly(self, count: int) -> bytes:
        while len(self._data) < count:
            self._data += await self._connection.receive()
        taken = bytes(self._data[:count])
        del self._data[:count]
        return taken

    async def chunked(self, limit_bytes: int) -> bytes:
        body = bytearray()
        while size := await self._chunk_size():
            if len(body) + size > limit_bytes:
                raise BadRequestError(413, f"the body is larger than {limit_bytes} bytes")
            body += await self.exactly(size)
            if await self.exactly(2) != b"\r\n":
                raise BadRequestError(400, "a chunk does not end where its size says")
        while await self.until(b"\r\n", CHUNK_LINE_LIMIT_BYTES, status=431):
            pass  # trailers are read over
        return bytes(body)

    async def _chunk_size(self) -> int:
        line = (await self.until(b"\r\n", CHUNK_LINE_LIMIT_BYTES, status=400)).partition(b";")[0].strip()
        if not line or len(line) > MAX_SIZE_DIGITS or not HEX_DIGITS.issuperset(line):
            raise BadRequestError(400, "a chunk's size is no hexadecimal number")
        return int(line, 16)

    def give_rest_back(self) -> None:
        self._connection.give_back(bytes(self._data))


@dataclass(frozen=True, slots=True)
class ResponseFraming:
    """How the client learns where the body ends (RFC 9112 section 6.3)."""

    length: int | None
    """None: not known beforehand."""
    chunked: bool
    keeps_alive: bool


def response_head(status: int, headers: Mapping[str, str], framing: ResponseFraming) -> bytes:
    """Status line and headers; the reason phrase is the registered one."""
    lines = [f"HTTP/1.1 {status} {_reason(status)}", *(f"{name}: {value}" for name, value in headers.items())]
    if framing.chunked:
        lines.append("transfer-encoding: chunked")
    elif framing.length is not None:
        lines.append(f"content-length: {framing.length}")
    lines.append(f"connection: {'keep-alive' if framing.keeps_alive else 'close'}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def framed(data: bytes, framing: ResponseFraming) -> bytes:
    """Body bytes as they go over the wire; an empty piece would end a chunked body, so it is nothing."""
    if not framing.chunked or not data:
        return data
    return b"%x\r\n%s\r\n" % (len(data), data)


def _reason(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "Scripted"
