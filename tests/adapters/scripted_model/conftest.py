"""Clients of the scripted model: httpx for what HTTP clients see, a raw socket for what TCP does."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from clinebox.adapters.scripted_model import RunningScriptedModel

REQUEST: dict[str, Any] = {
    "model": "some-model",
    "stream": True,
    "stream_options": {"include_usage": True},
    "messages": [{"role": "user", "content": "hello"}],
}
PATIENCE_S = 60.0


@dataclass
class Answer:
    """What a client made of one response."""

    status: int
    headers: httpx.Headers
    raw: bytes
    error: str | None = None
    """The class of the exception that ended the response."""
    pieces: list[bytes] = field(default_factory=list)

    @property
    def data(self) -> list[str]:
        """The `data:` payloads of the stream."""
        lines = re.split(r"\r\n|\n|\r", self.raw.decode())  # only these end a line of SSE
        return [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """The JSON payloads of the stream."""
        return [json.loads(payload) for payload in self.data if payload.startswith("{")]

    @property
    def deltas(self) -> list[dict[str, Any]]:
        return [chunk["choices"][0]["delta"] for chunk in self.chunks if chunk.get("choices")]

    def joined(self, key: str) -> str:
        return "".join(delta.get(key) or "" for delta in self.deltas)

    @property
    def finish_reasons(self) -> list[str]:
        reasons = [chunk["choices"][0]["finish_reason"] for chunk in self.chunks if chunk.get("choices")]
        return [reason for reason in reasons if reason is not None]

    @property
    def usages(self) -> list[dict[str, Any]]:
        return [chunk["usage"] for chunk in self.chunks if chunk.get("usage")]

    @property
    def tool_calls(self) -> list[tuple[str, str, str]]:
        """Id, name and arguments of each call, put together from its pieces."""
        calls: dict[int, list[str]] = {}
        for delta in self.deltas:
            for piece in delta.get("tool_calls", []):
                call = calls.setdefault(piece["index"], ["", "", ""])
                call[0] += piece.get("id", "")
                call[1] += piece["function"].get("name", "")
                call[2] += piece["function"].get("arguments", "")
        return [(call[0], call[1], call[2]) for _, call in sorted(calls.items())]


class Client:
    """Asks as Cline does."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def ask(
        self,
        server: RunningScriptedModel,
        *,
        path: str = "/chat/completions",
        headers: Mapping[str, str] | None = None,
        **changes: Any,
    ) -> Answer:
        """One request, read to its end, whole or broken. Raises what httpx raises before the headers."""
        body = {**REQUEST, **changes}
        with self._http.stream("POST", server.base_url + path, json=body, headers=headers) as response:
            answer = Answer(response.status_code, response.headers, b"")
            try:
                for piece in response.iter_raw():
                    answer.raw += piece
                    answer.pieces.append(piece)
            except httpx.TransportError as error:
                answer.error = type(error).__name__
            return answer

    def get(self, url: str) -> httpx.Response:
        return self._http.get(url)


@pytest.fixture
def client() -> Iterator[Client]:
    with httpx.Client(timeout=PATIENCE_S, trust_env=False) as http:
        yield Client(http)


class RawClient:
    """Bytes in, bytes out, and how the connection ended."""

    def connect(self, server: RunningScriptedModel) -> socket.socket:
        """A TCP connection to the server; use it in a `with`."""
        return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)

    def request(self, *, path: str = "/v1/chat/completions", head: str = "", **changes: Any) -> bytes:
        """The bytes of one request."""
        data = json.dumps({**REQUEST, **changes}).encode()
        lines = f"POST {path} HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(data)}\r\n\r\n"
        return lines.encode() + data

    def read_to_the_end(self, connection: socket.socket) -> tuple[bytes, str]:
        """All bytes, and how the connection ended: `fin` or `rst`."""
        data = b""
        try:
            while piece := connection.recv(65_536):
                data += piece
        except ConnectionResetError:
            return data, "rst"
        return data, "fin"

    def ask(self, server: RunningScriptedModel, request: bytes | None = None) -> tuple[bytes, str]:
        """Send one request and read to the end of the connection."""
        with self.connect(server) as connection:
            connection.sendall(self.request(head="Connection: close\r\n") if request is None else request)
            return self.read_to_the_end(connection)


@pytest.fixture
def raw() -> RawClient:
    return RawClient()
