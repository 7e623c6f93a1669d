"""A stage for the gateway: a model server, the gateway before it, a session, and clients, all on real TCP."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from clinebox.adapters.gateway import (
    Bounds,
    Gateway,
    GatewayAddress,
    GatewaySession,
    SessionOptions,
    Upstream,
    serve_gateway,
)
from clinebox.adapters.scripted_model import Script, ScriptedModelServer, Turn
from clinebox.domain.model_calls.record import ModelCall

KEY = "sk-the-real-key-0123456789"
PATIENCE_S = 60.0
REQUEST: dict[str, Any] = {
    "model": "some-model",
    "stream": True,
    "stream_options": {"include_usage": True},
    "messages": [{"role": "user", "content": "hello"}],
}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutine tests in a loop of their own, which must be empty in the end."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(_alone(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})), debug=False)
    return True


async def _alone(test: Awaitable[None]) -> None:
    await test
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks are left: {left}"


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition, with a bound."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - records and sockets tell no event
            await asyncio.sleep(0.005)


@dataclass
class Answer:
    """What a client made of one response."""

    status: int
    headers: httpx.Headers
    raw: bytes = b""
    error: str | None = None
    """The class of the exception that ended it."""

    @property
    def marker(self) -> str | None:
        found: str | None = self.headers.get("x-clinebox-gateway")
        return found

    @property
    def text(self) -> str:
        """The content of a stream, joined."""
        lines = [line.removeprefix("data:").strip() for line in self.raw.decode().splitlines()]
        chunks = [json.loads(line) for line in lines if line.startswith("{")]
        return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c.get("choices"))


@dataclass
class Stage:
    """A gateway that is served, with one session."""

    gateway: Gateway
    address: GatewayAddress
    session: GatewaySession
    http: httpx.AsyncClient
    ended: list[ModelCall] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return self.session.base_url(self.address.url)

    async def ask(
        self,
        path: str = "/chat/completions",
        *,
        base_url: str | None = None,
        method: str = "POST",
        **more: Any,
    ) -> Answer:
        """One request, read to its end, whole or broken."""
        if method == "POST" and not {"json", "content"} & more.keys():
            more["json"] = REQUEST
        async with self.http.stream(method, (base_url or self.base_url) + path, **more) as response:
            answer = Answer(response.status_code, response.headers)
            try:
                async for piece in response.aiter_raw():
                    answer.raw += piece
            except httpx.TransportError as error:
                answer.error = type(error).__name__
            return answer

    @property
    def call(self) -> ModelCall:
        """The only call."""
        (call,) = self.session.records()
        return call

    async def raw(self, request: bytes) -> bytes:
        """Bytes in, and all bytes out until the connection ends."""
        reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
        try:
            writer.write(request)
            async with asyncio.timeout(PATIENCE_S):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    def post(self, *, path: str | None = None, head: str = "", body: bytes | None = None) -> bytes:
        """The bytes of a POST."""
        data = json.dumps(REQUEST).encode() if body is None else body
        target = path or f"/s/{self.session.token}/v1/chat/completions"
        return (
            f"POST {target} HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(data)}\r\n\r\n".encode() + data
        )


StageFactory = Callable[..., AbstractAsyncContextManager[Stage]]


@asynccontextmanager
async def _stage(
    base_url: str,
    *,
    bounds: Bounds | None = None,
    options: dict[str, Any] | None = None,
    key: str | None = KEY,
    **more: Any,
) -> AsyncIterator[Stage]:
    gateway = Gateway(Upstream(base_url, key, trust_env=False), bounds=bounds, **more)
    async with (
        serve_gateway(gateway) as address,
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http,
    ):
        ended: list[ModelCall] = []
        told = SessionOptions(**{"on_end": lambda call, _: ended.append(call), **(options or {})})
        yield Stage(gateway, address, gateway.open_session(told), http, ended)


@pytest.fixture
def stage() -> StageFactory:
    """Opens a gateway in front of an address."""
    return _stage


@asynccontextmanager
async def _scripted(*turns: Turn, **more: Any) -> AsyncIterator[tuple[ScriptedModelServer, Stage]]:
    async with (
        ScriptedModelServer(Script(turns=turns), require_key=KEY) as model,
        _stage(model.base_url, **more) as stage,
    ):
        yield model, stage


@pytest.fixture
def scripted() -> Callable[..., AbstractAsyncContextManager[tuple[ScriptedModelServer, Stage]]]:
    """Opens a scripted model and a gateway in front of it."""
    return _scripted


@dataclass
class Seen:
    """A request as the upstream got it."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


Respond = Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]


class ByteServer:
    """An upstream that answers with whatever bytes a test wants, and writes down what it got."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.seen: list[Seen] = []
        self.connections = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                seen = await _read_request(reader)
                self.seen.append(seen)
                await self._respond(seen, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = [(line.partition(":")[0].lower(), line.partition(":")[2].strip()) for line in head[1:] if line]
    fields = dict(headers)
    if fields.get("transfer-encoding") == "chunked":
        return Seen(head[0], headers, await _read_chunks(reader))
    return Seen(head[0], headers, await reader.readexactly(int(fields.get("content-length", "0"))))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


@asynccontextmanager
async def _byte_server(respond: Respond | bytes) -> AsyncIterator[tuple[ByteServer, str]]:
    async def fixed(_seen: Seen, writer: asyncio.StreamWriter) -> None:
        assert isinstance(respond, bytes)
        writer.write(respond)

    upstream = ByteServer(fixed if isinstance(respond, bytes) else respond)
    tasks: set[asyncio.Task[None]] = set()

    def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(upstream.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(welcome, "127.0.0.1", 0)
    try:
        yield upstream, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def byte_server() -> Callable[[Respond | bytes], AbstractAsyncContextManager[tuple[ByteServer, str]]]:
    """Opens an upstream that answers with fixed bytes, or as a coroutine says."""
    return _byte_server


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Waits for a condition."""
    return until


@pytest.fixture
def ok() -> Callable[..., bytes]:
    """The bytes of a response with a length."""

    def respond(body: bytes = b"{}", *, status: str = "200 OK", head: Sequence[str] = ()) -> bytes:
        lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *head]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    return respond
