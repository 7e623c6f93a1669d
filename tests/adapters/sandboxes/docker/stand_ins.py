"""Engines that misbehave: a proxy in front of the real one that loses answers, and ones that are none."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

HANDLERS_S = 30.0


@contextlib.contextmanager
def listening(path: Path, serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A Unix socket each of whose connections `serve` gets, in a thread; its address as an engine's."""
    threads: list[threading.Thread] = []
    connections: list[socket.socket] = []
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(64)

    def guarded(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            serve(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                connections.append(connection)
                threads.append(threading.Thread(target=guarded, args=(connection,), daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"unix://{path}"
    finally:
        for each in (server, *connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in (accepting, *threads):
            thread.join(HANDLERS_S)


def never_answers(connection: socket.socket) -> None:
    """Takes whatever comes and says nothing."""
    while connection.recv(65_536):
        pass


def answering(status: str, body: str) -> Callable[[socket.socket], None]:
    """Says the same to every request."""

    def serve(connection: socket.socket) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        while b"\r\n\r\n" not in (_ := connection.recv(65_536)):
            if not _:
                return
        connection.sendall((head + body).encode())

    return serve


class LosingAnswers:
    """Passes everything on to the real engine, but closes instead of answering requests of one kind."""

    def __init__(self, engine: str, request: bytes, times: int) -> None:
        self._path = engine.removeprefix("unix://")
        self._request = request
        self._left = times
        self.lost = 0
        self._lock = threading.Lock()

    def serve(self, connection: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self._path)
            losing = threading.Event()
            back = threading.Thread(target=self._back, args=(engine, connection, losing), daemon=True)
            back.start()
            with contextlib.suppress(OSError):
                while chunk := connection.recv(65_536):
                    self._look(chunk, losing)
                    engine.sendall(chunk)
                engine.shutdown(socket.SHUT_WR)
            back.join(HANDLERS_S)

    def _look(self, chunk: bytes, losing: threading.Event) -> None:
        with self._lock:
            if chunk.startswith(self._request) and self._left:
                self._left -= 1
                self.lost += 1
                losing.set()

    @staticmethod
    def _back(engine: socket.socket, connection: socket.socket, losing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while chunk := engine.recv(65_536):
                if losing.is_set():
                    break
                connection.sendall(chunk)
            connection.shutdown(socket.SHUT_RDWR)
