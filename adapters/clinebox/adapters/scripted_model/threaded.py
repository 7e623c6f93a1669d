"""The scripted model in a thread with its own loop, for programs that are not asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import TypeVar

from clinebox.adapters.scripted_model.log import Requests
from clinebox.adapters.scripted_model.script import Script
from clinebox.adapters.scripted_model.server import DEFAULT_MODEL, REQUEST_LIMIT_BYTES, ScriptedModelServer

T = TypeVar("T")


class RunningScriptedModel:
    """A server that plays in another thread; every method may be called from any thread."""

    def __init__(self, server: ScriptedModelServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop

    @property
    def base_url(self) -> str:
        """What a client takes as its base URL, ending in `/v1`."""
        return self._server.base_url

    @property
    def port(self) -> int:
        """The TCP port."""
        return self._server.port

    @property
    def requests(self) -> Requests:
        """All requests so far, in the order of arrival."""
        return self._server.requests

    def release(self) -> None:
        """Let all calls that hang now go on with their answers."""
        self._loop.call_soon_threadsafe(self._server.release)

    def accept_again(self) -> None:
        """End the `refuse` turn whose time has come, if there is one."""
        _in_loop(self._loop, self._server.accept_again())

    def wait_until(self, holds: Callable[[Requests], bool], *, timeout_s: float) -> None:
        """Wait for a condition on the requests. TimeoutError when it does not come to hold in time."""
        _in_loop(self._loop, self._server.wait_until(holds, timeout_s=timeout_s))


@contextmanager
def running_scripted_model(
    script: Script,
    *,
    variables: Mapping[str, str] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    model: str = DEFAULT_MODEL,
    require_key: str | None = None,
    request_limit_bytes: int = REQUEST_LIMIT_BYTES,
) -> Iterator[RunningScriptedModel]:
    """Play a script in a thread for as long as the context lasts; see `ScriptedModelServer`."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="scripted-model", daemon=True)
    thread.start()
    try:
        server = ScriptedModelServer(
            script,
            variables=variables,
            host=host,
            port=port,
            model=model,
            require_key=require_key,
            request_limit_bytes=request_limit_bytes,
        )
        _in_loop(loop, server.__aenter__())
        try:
            yield RunningScriptedModel(server, loop)
        finally:
            _in_loop(loop, server.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _in_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[object, object, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result()
