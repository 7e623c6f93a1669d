"""Runs the gateway on a TCP port, with uvicorn, inside the loop that already runs."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import uvicorn

from clinebox.adapters.gateway.app import Gateway
from clinebox.adapters.gateway.asgi import AbortedError, Application
from clinebox.adapters.gateway.protocol import LOGGER_NAME, GatewayProtocol

KEEP_ALIVE_S: Final = 600
"""Longer than any client keeps an idle connection: one that we closed just as Cline reuses it would be a
fault of ours in Cline's log, and no call in our records."""


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """Where a gateway listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address without a path, such as `http://127.0.0.1:40123`."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@asynccontextmanager
async def serve_gateway(
    gateway: Gateway, host: str = "127.0.0.1", port: int = 0, *, application: Application | None = None
) -> AsyncIterator[GatewayAddress]:
    """Serve it for as long as the context lasts; port 0 takes a free one.

    `application` stands in front of the gateway where given (`/metrics`). No signal handler is installed.
    At the end every session is closed, every connection cut, and no task is left. OSError when the port
    cannot be had.
    """
    listener = _listening(host, port)
    server = uvicorn.Server(_config(gateway if application is None else application))
    logging.getLogger(LOGGER_NAME).addFilter(_is_no_abort)
    async with gateway:
        await _start(server, listener)
        try:
            yield GatewayAddress(host, listener.getsockname()[1])
        finally:
            gateway.close_sessions()
            await _stop(server, listener)


def _listening(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except BaseException:
        listener.close()
        raise
    return listener


def _config(application: Application) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=GatewayProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )


async def _start(server: uvicorn.Server, listener: socket.socket) -> None:
    """What `Server.serve` does before its loop, which only keeps a date we do not send, and takes signals."""
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[listener])


async def _stop(server: uvicorn.Server, listener: socket.socket) -> None:
    """Cut what is left: the sessions have ended, so nobody has a claim on an answer."""
    for connection in list(server.server_state.connections):
        connection.transport.abort()
    await server.shutdown(sockets=[listener])


def _is_no_abort(record: logging.LogRecord) -> bool:
    """A cut towards the client is a fact of the call's record, not an error of the application."""
    return not (record.exc_info and isinstance(record.exc_info[1], AbortedError))
