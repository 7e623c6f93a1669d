"""Commands: how they end, and what they are given."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Final

from clinebox.adapters.conformance.model import Bench, Check, expect, expect_trouble, offered
from clinebox.domain.ports import Command, Sandbox, SandboxTrouble

SAMPLE: Final = (0, 1, 2, 42, 124, 125, 126, 127, 128, 130, 137, 143, 254, 255)
SIGNALS: Final = (1, 2, 9, 15)
WORDS: Final = ("", " ", "a b", "-x", "$HOME", "'", '"', "\\", "line\nline", "\u00e9\u20ac\U0001f600", "*")
SLEEP_S: Final = 300
SLOW_S: Final = 15.0


async def _exit_codes(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        for code in range(256) if bench.is_full else SAMPLE:
            done = await bench.run(sandbox, f"exit {code}")
            expect(
                done.exit_code == code and not done.timed_out, f"exit {code} came back as {done.exit_code}"
            )


async def _signals(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        for number in SIGNALS:
            code = (await bench.run(sandbox, f"kill -{number} $$; sleep 10")).exit_code
            expect(code == 128 + number, f"signal {number} came back as {code}, not {128 + number}")


async def _not_runnable(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        path = bench.place(sandbox, "no-program")
        await bench.put(sandbox, path, b"#!/bin/sh\n", 0o644)
        for argv, wanted in ((("no-such-program-here",), 127), ((path,), 126)):
            done = offered(await sandbox.exec(Command(argv), timeout_s=bench.timeout_s))
            expect(done.exit_code == wanted, f"{argv[0]} came back as {done.exit_code}, not {wanted}")


async def _stdin(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        for content in (b"", b"x", bytes(range(256)) * 4096):
            done = await bench.run(sandbox, "cat", stdin=content)
            expect(done.stdout == content, f"{len(content)} bytes of stdin came as {len(done.stdout)}")
        unread = await bench.run(sandbox, "exit 3", stdin=bytes(1 << 20))
        expect(unread.exit_code == 3, f"an unread stdin made the exit code {unread.exit_code}")  # noqa: PLR2004


async def _environment(bench: Bench) -> None:
    given = {"CHECK_A": "spec", "CHECK_B": 'a\'b "c"\n$d', "CHECK_C": "", "CHECK_D": "\u00e9\u20ac"}
    async with bench.sandbox(replace(bench.spec, env={**bench.spec.env, **given})) as sandbox:
        script = 'printf "%s|%s|%s|%s" "$CHECK_A" "$CHECK_B" "$CHECK_C" "$CHECK_D"'
        command = Command(("sh", "-c", script), env={"CHECK_A": "command"})
        done = offered(await sandbox.exec(command, timeout_s=bench.timeout_s))
        wanted = "|".join(("command", *list(given.values())[1:])).encode()
        expect(done.stdout == wanted, f"the environment came as {done.stdout!r}, not {wanted!r}")


async def _arguments(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        done = await bench.run(sandbox, 'for word; do printf "%s|" "$word"; done', *WORDS)
        wanted = "".join(f"{word}|" for word in WORDS).encode()
        expect(done.stdout == wanted, f"the arguments came as {done.stdout!r}")


async def _working_directory(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        place = bench.place(sandbox, "d")
        await bench.put(sandbox, f"{place}/here", b"")
        command = Command(("sh", "-c", "test -f here"), cwd=place)
        done = offered(await sandbox.exec(command, timeout_s=bench.timeout_s))
        expect(done.exit_code == 0, f"the command did not run in {place}")
        missing = await sandbox.exec(Command(("true",), cwd=f"{place}/none"), timeout_s=bench.timeout_s)
        expect_trouble(missing, SandboxTrouble.BAD_REQUEST, SandboxTrouble.NOT_FOUND)


async def _timeout(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        pids = bench.place(sandbox, "pids")
        await bench.put(sandbox, bench.place(sandbox, "x"), b"")
        script = f'sleep {SLEEP_S} & echo $! >"$1"; echo before; echo wrong >&2; sleep {SLEEP_S}'
        done = await bench.run(sandbox, script, pids, timeout_s=1)
        if not done.stdout:  # a slow machine: nothing was written yet
            done = await bench.run(sandbox, script, pids, timeout_s=SLOW_S)
        seen = (done.timed_out, done.exit_code, done.stdout, done.stderr)
        expect(seen == (True, None, b"before\n", b"wrong\n"), f"a timeout gave {seen}")
        pid = (await bench.appears(sandbox, pids)).decode().strip()
        await bench.ends(lambda: _gone(bench, sandbox, pid), "the command's child is gone")


async def _gone(bench: Bench, sandbox: Sandbox, pid: str) -> bool:
    return not await bench.lives(sandbox, pid)


async def _cancelled(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        pids = bench.place(sandbox, "pids")
        await bench.put(sandbox, bench.place(sandbox, "x"), b"")
        running = asyncio.create_task(bench.run(sandbox, f'echo $$ >"$1"; sleep {SLEEP_S}; true', pids))
        waiting = asyncio.create_task(bench.appears(sandbox, pids))
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            await running
        pid = (await waiting).decode().strip()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await bench.ends(lambda: _gone(bench, sandbox, pid), "the cancelled command is gone")


async def _background(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        done = await bench.run(sandbox, f"sleep {SLEEP_S} & echo $!")
        expect(not done.timed_out, "a background child that holds stdout made the command time out")
        pid = done.stdout.decode().strip()
        expect(await bench.lives(sandbox, pid), "the background child was ended with its command")


async def _dispositions(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        done = offered(await sandbox.exec(Command(("cat", "/proc/self/status")), timeout_s=bench.timeout_s))
        fields = dict(line.split(":\t", 1) for line in done.stdout.decode().splitlines() if ":\t" in line)
        seen = {name: int(fields.get(name, "0"), 16) for name in ("SigBlk", "SigIgn")}
        expect(not any(seen.values()), f"a command starts with signals blocked or ignored: {seen}")


CHECKS: Final = (
    Check(
        "exec.exit-codes",
        "a command's exit code comes back as it was",
        "Give the command's own status; never the wrapper's.",
        _exit_codes,
    ),
    Check(
        "exec.signals",
        "death by signal N is exit code 128+N",
        "Translate a wait status of signal N to 128+N.",
        _signals,
    ),
    Check(
        "exec.not-runnable",
        "127 means not found, 126 not executable",
        "Use the shell's convention for a program that cannot be run.",
        _not_runnable,
    ),
    Check(
        "exec.stdin",
        "stdin arrives whole and ends; an unread one does no harm",
        "Write stdin while reading the output, and close it.",
        _stdin,
    ),
    Check(
        "exec.environment",
        "any value arrives; the command's variables lie over the spec's",
        "Pass variables to the kernel, not through a shell.",
        _environment,
    ),
    Check(
        "exec.arguments",
        "any argument arrives as it is",
        "Pass argv to the kernel, never joined into a shell string.",
        _arguments,
    ),
    Check(
        "exec.working-directory",
        "a command runs in the directory asked for, or is refused",
        "Check the directory; answer BAD_REQUEST when it is none.",
        _working_directory,
    ),
    Check(
        "exec.timeout",
        "a timeout keeps what was written and ends the whole tree",
        "Kill every descendant, keep the output, set timed_out and no exit code.",
        _timeout,
    ),
    Check(
        "exec.cancelled",
        "a cancelled exec leaves nothing running",
        "Kill the tree when the caller is cancelled.",
        _cancelled,
    ),
    Check(
        "exec.background",
        "an exec ends with its command, whoever holds its output",
        "Wait for the process, not for the end of its pipes.",
        _background,
    ),
    Check(
        "exec.dispositions",
        "a command starts with no signal blocked or ignored",
        "Reset signals before exec (`env --default-signal`).",
        _dispositions,
    ),
)
