"""The one way out of `NetworkMode.GATEWAY`: a port of the sandbox's own loopback that leads to the gateway.

A socket belongs for ever to the network namespace that it was made in. A helper makes the listening socket
inside and hands it out (unix(7), SCM_RIGHTS); this process accepts from it and connects on the host. So
nothing of it runs inside, where an agent could end it, and it ends with the sandbox's controller, as the
sandbox does.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from typing import Final

from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.containment import network_entry_argv
from clinebox.domain.ports import HostPort

INSIDE_HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 65_536
CONNECT_S: Final = 10.0
LISTEN: Final = (
    "import socket, sys\n"
    "inside = socket.socket()\n"
    "inside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
    "inside.bind((sys.argv[1], int(sys.argv[2])))\n"
    "inside.listen(512)\n"
    "with socket.socket(fileno=int(sys.argv[3])) as channel:\n"
    "    socket.send_fds(channel, [b'x'], [inside.fileno()])\n"
)


class Forwarder:
    """Accepts on the sandbox's loopback and carries bytes to and from the gateway, until `close`."""

    def __init__(self, listener: socket.socket, gateway: HostPort) -> None:
        self._listener = listener
        self._gateway = gateway
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Begin; the running event loop carries everything."""
        self._server = await asyncio.start_server(self._accepted, sock=self._listener)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        self._carrying.add(task)
        try:
            await self._carry(reader, writer)
        except asyncio.CancelledError:  # our own `close`; nobody awaits this task
            writer.transport.abort()
        finally:
            self._carrying.discard(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection to its end; a gateway that is not there is a reset, as it would be without a hop."""
        try:
            async with asyncio.timeout(CONNECT_S):
                there = await asyncio.open_connection(self._gateway.host, self._gateway.port)
        except (OSError, TimeoutError):
            writer.transport.abort()
            return
        there_reader, there_writer = there
        try:
            await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))
        except OSError:  # cut on either side: cut on both, so that a half answer never looks whole
            writer.transport.abort()
            there_writer.transport.abort()
        finally:
            writer.close()
            there_writer.close()

    async def close(self) -> None:
        """Cut every connection and listen no more."""
        if self._server is not None:
            self._server.close()
        self._listener.close()
        carrying = tuple(self._carrying)
        for task in carrying:
            task.cancel()
        if carrying:
            await asyncio.wait(carrying)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry one direction as the other side takes it, and its end as an end."""
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        with contextlib.suppress(OSError):
            writer.write_eof()


async def open_forwarder(init_pid: int, owner_fd: int, gateway: HostPort) -> Result[Forwarder, str]:
    """A forwarder at the gateway's own port of the sandbox's loopback; Failure(the helper's words)."""
    made = await asyncio.to_thread(_listener_inside, network_entry_argv(init_pid, owner_fd), gateway.port)
    if isinstance(made, str):
        return Failure(made)
    forwarder = Forwarder(made, gateway)
    await forwarder.serve()
    return Success(forwarder)


def _listener_inside(entry: tuple[str, ...], port: int) -> socket.socket | str:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        program = (sys.executable, "-I", "-S", "-c", LISTEN)
        argv = (*entry, *program, INSIDE_HOST, str(port), str(theirs.fileno()))
        done = subprocess.run(
            argv, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if done.returncode != 0:
            words = done.stderr.decode("utf-8", "replace").strip().splitlines()
            return words[-1] if words else f"it ended with {done.returncode}"
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    listener = socket.socket(fileno=descriptors[0])
    listener.setblocking(False)  # noqa: FBT003 - the standard library's
    return listener
