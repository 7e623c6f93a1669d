"""A port that is held for good, and listened on only while connections are welcome."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from clinebox.adapters.scripted_model.connection import Connection


class Door:
    """A TCP port. Shut, it refuses connections, and nobody else can take it.

    A socket that is bound but does not listen holds the port meanwhile: connect(2) to it gives
    ECONNREFUSED, as with no socket at all.
    """

    def __init__(self, host: str, port: int, opened: Callable[[Connection], None]) -> None:
        self._host = host
        self._opened = opened
        if port:
            _check_free(host, port)
        self._holder = _bound(host, port)
        self.port = int(self._holder.getsockname()[1])
        self._server: asyncio.Server | None = None

    @property
    def is_open(self) -> bool:
        """Whether connections are accepted."""
        return self._server is not None

    async def open(self) -> None:
        """Accept connections; safe to call twice."""
        if self._server is None:
            listener = _bound(self._host, self.port)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(
                lambda: Connection(self._opened), sock=listener, backlog=512
            )

    def shut(self) -> None:
        """Refuse connections; those that are open stay."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def leave(self) -> None:
        """Give the port back."""
        self.shut()
        self._holder.close()


def _check_free(host: str, port: int) -> None:
    """Raise OSError when somebody listens there: two sockets with SO_REUSEPORT would share the port."""
    _bound(host, port, shares_port=False).close()


def _bound(host: str, port: int, *, shares_port: bool = True) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: asyncio sets TCP_NODELAY on no other (CPython 3.11), and small pieces then
    # wait 40 ms for the client's delayed acknowledgement (tcp(7)).
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shares_port))
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
