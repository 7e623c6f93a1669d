"""A container engine's API: docker-py's blocking calls on threads of their own, each with its deadline."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar
from urllib.parse import urlsplit

import docker
from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import RequestException
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.docker.troubles import (
    EngineName,
    no_answer,
    of_api_error,
    unreachable,
)
from clinebox.domain.ports import SandboxFailure, SandboxTrouble

T = TypeVar("T")
API_VERSION: Final = "1.41"
"""Docker 20.10 (2020), and what Podman 4's service speaks; newer engines speak it too."""
THREADS: Final = 32
MARGIN_S: Final = 0.2
"""The socket's own timeout comes a little later than the caller's, which is the one that is told."""
LEAST_S: Final = 0.05
CONNECT_S: Final = 5.0


class _Client(docker.APIClient):
    """docker-py's client whose timeout is what is left of the calling thread's deadline.

    docker-py has one timeout for all calls and reads it at each of them; so a thread that a hung daemon
    holds is free again soon after its caller gave up.
    """

    def __init__(self, address: str) -> None:
        self._deadline = threading.local()
        super().__init__(base_url=address, version=API_VERSION, max_pool_size=THREADS)

    @property  # type: ignore[override]
    def timeout(self) -> float:
        left_s: float = getattr(self._deadline, "at", time.monotonic() + LEAST_S) - time.monotonic()
        return max(LEAST_S, left_s + MARGIN_S)

    @timeout.setter
    def timeout(self, _: object) -> None:
        """docker-py's own constructor sets one for all."""

    def set_deadline(self, at: float) -> None:
        """For the calls that this thread makes from now on."""
        self._deadline.at = at


def open_socket(address: str) -> socket.socket:
    """A connection to the engine; raises OSError."""
    parts = urlsplit(address)
    if parts.scheme != "unix":
        return socket.create_connection((parts.hostname or "localhost", parts.port or 0), CONNECT_S)
    opened = socket.socket(socket.AF_UNIX)
    try:
        opened.settimeout(CONNECT_S)
        opened.connect(parts.path)
    except OSError:
        opened.close()
        raise
    return opened


class Engine:
    """One engine's API. Safe for any number of event loops; `close` it when it is no longer needed."""

    def __init__(self, name: EngineName, address: str) -> None:
        """Nothing is connected yet. `address`: `unix://PATH` or `tcp://HOST:PORT`."""
        self.name = name
        self.address = address
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix=f"clinebox-{name.lower()}")
        self._lock = threading.Lock()
        self._client: _Client | None = None
        self._reached = False

    async def call(
        self, what: str, work: Callable[[docker.APIClient], T], *, timeout_s: float
    ) -> Result[T, SandboxFailure]:
        """Do `work` in a thread. Failure(TIMED_OUT) after `timeout_s`, whatever the engine does.

        Failure(NOT_FOUND) for what the engine does not know; Failure(UNAVAILABLE) when there is no engine,
        with what to do. A call that was given up, or cancelled, may still take effect.
        """
        deadline = time.monotonic() + timeout_s
        future = self._pool.submit(self._work, what, work, deadline)
        try:
            done, _ = await asyncio.wait({asyncio.wrap_future(future)}, timeout=timeout_s)
        finally:
            future.cancel()  # one that still waits for a thread must not take it
        if not done:
            return Failure(no_answer(self.name, what, timeout_s))
        return future.result()

    def _work(
        self, what: str, work: Callable[[docker.APIClient], T], deadline: float
    ) -> Result[T, SandboxFailure]:
        try:
            self._reach()
            client = self._connected()
            client.set_deadline(deadline)
            return Success(work(client))
        except NotFound as error:
            return Failure(SandboxFailure(SandboxTrouble.NOT_FOUND, f"{what}: {error.explanation}"))
        except APIError as error:
            return Failure(of_api_error(self.name, what, error))
        except (RequestException, DockerException, OSError) as error:
            self._reached = False
            if time.monotonic() >= deadline:
                return Failure(no_answer(self.name, what, 0))
            return Failure(unreachable(self.name, self.address, error))

    def _reach(self) -> None:
        """Raise the kernel's own OSError where nobody listens.

        docker-py would leave a socket open each time it cannot connect (7.2, UnixHTTPConnection).
        """
        if not self._reached:
            open_socket(self.address).close()
            self._reached = True

    def _connected(self) -> _Client:
        with self._lock:
            if self._client is None:
                self._client = _Client(self.address)
            return self._client

    def close(self) -> None:
        """Give back the threads and connections; calls under way come to their own end."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            if self._client is not None:
                self._client.close()
