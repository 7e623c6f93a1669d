"""One child process of ours with bounded pipes, driven by the running event loop.

asyncio's own subprocess waits for the end of the pipes, and offers no public way to leave a pipe that a
background process holds open (BUGS 33). Here the process's exit ends the wait, and the pipes get a bounded
grace after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from clinebox.adapters.sandboxes.process_table import Process, read_process

CHUNK_BYTES: Final = 65_536


class BoundedPipe:
    """Reads a pipe to its end as it comes, keeps the first `limit_bytes`, drops the rest."""

    def __init__(self, fd: int, *, limit_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._limit = limit_bytes
        self._kept = bytearray()
        self._expected = b""
        self._seen: asyncio.Future[bool] = self._loop.create_future()
        self.truncated = False
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    @property
    def content(self) -> bytes:
        """What was kept so far."""
        return bytes(self._kept)

    def _read(self) -> None:
        try:
            chunk = os.read(self._fd, CHUNK_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self.close()
            return
        room = self._limit - len(self._kept)
        self._kept += chunk[:room]
        self.truncated = self.truncated or len(chunk) > room
        self._look()

    def _look(self) -> None:
        if self._expected and self._expected in self._kept and not self._seen.done():
            self._seen.set_result(True)

    async def holds(self, expected: bytes) -> bool:
        """Wait until the content holds `expected`; False when the pipe ended without it."""
        self._expected = expected
        self._look()
        return await self._seen

    def close(self) -> None:
        """Leave the pipe, whoever still holds its other end; safe to call twice."""
        if self.ended.done():
            return
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self.ended.set_result(None)
        if not self._seen.done():
            self._seen.set_result(False)


class _Feed:
    """Writes bytes into a pipe as fast as the reader takes them, then closes it; None holds it open."""

    def __init__(self, fd: int, content: bytes | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._left = memoryview(content or b"")
        self._closed = False
        os.set_blocking(fd, False)
        if content is not None:
            self._loop.add_writer(fd, self._write)

    def _write(self) -> None:
        try:
            self._left = self._left[os.write(self._fd, self._left[:CHUNK_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # the command does not read its input: its own affair
            self.close()
            return
        if not self._left:
            self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_writer(self._fd)
            os.close(self._fd)


class Child:
    """A started program. The owner awaits `exited`, then `drain`, and always calls `close`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: bytes | None,
        limit_bytes: int,
        new_session: bool,
    ) -> None:
        """Start it; raises OSError when the kernel refuses, with nothing left open.

        `stdin` None keeps the pipe open until `close`: its end tells the child that we are gone.
        """
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            stdin_read, stdin_write = _pipe(theirs, ours)
            stdout_read, stdout_write = _pipe(ours, theirs)
            stderr_read, stderr_write = _pipe(ours, theirs)
            self._popen = subprocess.Popen(
                argv,
                env=dict(env),
                stdin=stdin_read,
                stdout=stdout_write,
                stderr=stderr_write,
                start_new_session=new_session,
                cwd="/",
            )
            self._exit = _ExitWatch(self._popen)
            self.process = _as_seen(self._popen.pid)
            """The child itself, by pid and start time."""
            ours.pop_all()
        self._feed = _Feed(stdin_write, stdin)
        self.stdout = BoundedPipe(stdout_read, limit_bytes=limit_bytes)
        self.stderr = BoundedPipe(stderr_read, limit_bytes=limit_bytes)

    @property
    def return_code(self) -> int | None:
        """As `subprocess` has it: negative for a signal; None while it runs."""
        return self._popen.returncode

    async def exited(self, *, within_s: float) -> bool:
        """Wait for the process itself (not for its pipes); False when it still runs after `within_s`."""
        await asyncio.wait({self._exit.done}, timeout=within_s)
        return self._exit.done.done()

    async def drain(self, *, within_s: float) -> None:
        """Read on until both pipes end, at most `within_s`: a background process may hold them for ever."""
        await asyncio.wait({self.stdout.ended, self.stderr.ended}, timeout=within_s)

    def close(self) -> None:
        """Give back every descriptor; the process itself is not touched."""
        self._exit.close()
        self._feed.close()
        self.stdout.close()
        self.stderr.close()


class _ExitWatch:
    """Reaps a child the moment it ends, without a thread (pidfd_open(2))."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._loop = asyncio.get_running_loop()
        self._popen = popen
        self.done: asyncio.Future[None] = self._loop.create_future()
        try:
            self._fd = os.pidfd_open(popen.pid)
        except OSError:  # no descriptor left: nobody could watch it, so it must not run
            popen.kill()
            popen.wait()
            raise
        self._loop.add_reader(self._fd, self._reap)

    def _reap(self) -> None:
        if self._popen.poll() is not None and not self.done.done():
            self._forget()
            self.done.set_result(None)

    def _forget(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def close(self) -> None:
        if not self.done.done():
            self._forget()
            self.done.cancel()
            self._popen.poll()


def _pipe(read_end: contextlib.ExitStack, write_end: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe whose two ends are each closed by their own stack."""
    read_fd, write_fd = os.pipe()
    read_end.callback(os.close, read_fd)
    write_end.callback(os.close, write_fd)
    return read_fd, write_fd


def _as_seen(pid: int) -> Process:
    """A child that was not reaped yet is always in the table, if only as a zombie."""
    process = read_process(pid)
    if process is None:
        raise ProcessLookupError(f"/proc does not show our own child {pid}; is it mounted?")
    return process
