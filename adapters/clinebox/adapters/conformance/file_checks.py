"""Files: whole, private, and never outside of the sandbox."""

from __future__ import annotations

import hashlib
from typing import Final

from clinebox.adapters.conformance.model import Bench, Check, expect, expect_trouble
from clinebox.domain.ports import Sandbox, SandboxTrouble

NAMES: Final = ("a b", "-x", "line\nline", "'\"$`\\", "*?[", ".hidden", "\u00e9\u20ac\U0001f600", "n" * 200)
LARGE_BYTES: Final = 64 << 20


async def _round_trip(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        for number, content in enumerate((b"", b"x", bytes(range(256)) * 1000)):
            path = bench.place(sandbox, str(number))
            await bench.put(sandbox, path, content)
            got = await bench.get(sandbox, path)
            expect(got == content, f"{len(content)} bytes came back as {len(got)}")


async def _large(bench: Bench) -> None:
    content = hashlib.shake_128(b"large").digest(1 << 20) * (LARGE_BYTES >> 20)
    async with bench.sandbox() as sandbox:
        path = bench.place(sandbox, "large")
        await bench.put(sandbox, path, content)
        expect(await bench.get(sandbox, path) == content, "64 MiB did not come back as they went")


async def _seen_inside(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        path = bench.place(sandbox, "deep/er/program")
        await bench.put(sandbox, path, b"#!/bin/sh\necho ran\n", 0o755)
        done = await bench.run(sandbox, '"$1"', path)
        expect(done.stdout == b"ran\n", f"an uploaded program said {done.stdout!r} {done.stderr!r}")
        secret = bench.place(sandbox, "secret")
        await bench.put(sandbox, secret, b"s")
        mode = (await bench.run(sandbox, 'ls -ld "$1"', secret)).stdout[:10]
        expect(mode == b"-rw-------", f"an upload without a mode has {mode!r}")


async def _odd_names(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        for name in NAMES:
            path = bench.place(sandbox, name)
            await bench.put(sandbox, path, name.encode())
            got = await bench.get(sandbox, path)
            expect(got == name.encode(), f"the file {name!r} came back as {got!r}")


async def _no_utf8_name(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        path = bench.place(sandbox, "\udcff\udcfe")
        await bench.put(sandbox, path, b"x")
        expect(await bench.get(sandbox, path) == b"x", "a file whose name is no UTF-8 came back changed")


async def _replaced(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        path = bench.place(sandbox, "f")
        await bench.put(sandbox, path, b"a long first content")
        await bench.put(sandbox, path, b"second")
        got = await bench.get(sandbox, path)
        expect(got == b"second", f"a replaced file holds {got!r}")


async def _parts(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        path = bench.place(sandbox, "f")
        await bench.put(sandbox, path, b"0123456789")
        wanted = {(0, 4): b"0123", (3, 4): b"3456", (8, 100): b"89", (10, 5): b"", (99, 5): b"", (2, 0): b""}
        for (offset, limit), part in wanted.items():
            got = await bench.get(sandbox, path, offset, limit)
            expect(got == part, f"offset {offset}, limit {limit} gave {got!r}, not {part!r}")


async def _missing(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        got = await sandbox.download(bench.place(sandbox, "none"), limit_bytes=9, timeout_s=bench.timeout_s)
        expect_trouble(got, SandboxTrouble.NOT_FOUND)


async def _no_path(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        for path in ("relative", f"{bench.place(sandbox, 'd')}/../x", "/nul\0"):
            await _refused(bench, sandbox, path)


async def _refused(bench: Bench, sandbox: Sandbox, path: str) -> None:
    """Both ways; an answer in time, since opening a FIFO would block for ever."""
    got = await sandbox.download(path, limit_bytes=1 << 20, timeout_s=bench.timeout_s)
    expect_trouble(got, SandboxTrouble.BAD_REQUEST)
    put = await sandbox.upload(path, b"planted", timeout_s=bench.timeout_s)
    expect_trouble(put, SandboxTrouble.BAD_REQUEST)


async def _symlinks(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        base = bench.place(sandbox, "d")
        await bench.put(sandbox, f"{base}/target", b"kept")
        script = 'cd "$1" && ln -s /etc/passwd out && ln -s /etc dir && ln -s target in && ln -s none broken'
        done = await bench.run(sandbox, script, base)
        expect(done.exit_code == 0, f"symbolic links could not be made: {done.stderr!r}")
        for name in ("out", "dir/passwd", "in", "broken"):
            await _refused(bench, sandbox, f"{base}/{name}")
        expect(await bench.get(sandbox, f"{base}/target") == b"kept", "an upload went through a link")


async def _special(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        base = bench.place(sandbox, "d")
        await bench.put(sandbox, f"{base}/x", b"")
        done = await bench.run(sandbox, 'cd "$1" && mkfifo fifo && mkdir directory', base)
        expect(done.exit_code == 0, f"a FIFO could not be made: {done.stderr!r}")
        for name in ("fifo", "directory", "x/below"):
            await _refused(bench, sandbox, f"{base}/{name}")


CHECKS: Final = (
    Check(
        "files.round-trip",
        "a file comes back as it went, the empty one too",
        "Carry bytes; do not decode.",
        _round_trip,
    ),
    Check(
        "files.large",
        "64 MiB come back as they went",
        "Send large files in pieces.",
        _large,
        is_heavy=True,
    ),
    Check(
        "files.seen-inside",
        "an upload is seen inside, its parents made, its mode set, 0600 by default",
        "Make parents 0700, set the mode before the file is in place.",
        _seen_inside,
    ),
    Check(
        "files.odd-names",
        "any UTF-8 name is a name",
        "Pass paths as they are, never through a shell.",
        _odd_names,
    ),
    Check(
        "files.no-utf8-name",
        "a name that is no UTF-8 is a name too, or refused",
        "Encode paths with surrogateescape, or answer BAD_REQUEST.",
        _no_utf8_name,
    ),
    Check(
        "files.replaced",
        "an upload replaces the whole file",
        "Write beside it and rename.",
        _replaced,
    ),
    Check(
        "files.parts",
        "a part of a file can be read; beyond its end there is nothing",
        "Honour offset_bytes and limit_bytes.",
        _parts,
    ),
    Check(
        "files.missing",
        "a missing file is NOT_FOUND",
        "Tell a missing file from a missing sandbox.",
        _missing,
    ),
    Check(
        "files.no-path",
        "a path that is relative, climbs or holds NUL is refused",
        "Answer BAD_REQUEST before touching anything.",
        _no_path,
    ),
    Check(
        "files.symlinks",
        "no symbolic link is followed, by a download or an upload",
        "Open every step without following links; an agent plants them.",
        _symlinks,
    ),
    Check(
        "files.special",
        "a FIFO, a directory, a path through a file are refused at once",
        "Open nothing but regular files; a FIFO blocks for ever.",
        _special,
    ),
)
