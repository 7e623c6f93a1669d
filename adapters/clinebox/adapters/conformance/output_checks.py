"""Output: bounded, kept apart, and never taken for text."""

from __future__ import annotations

from typing import Final

from clinebox.adapters.conformance.model import Bench, Check, expect

LIMIT_BYTES: Final = 10 << 20
FLOOD_BYTES: Final = 12_000_000


async def _bounded(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        done = await bench.run(sandbox, f"head -c {FLOOD_BYTES} /dev/zero; echo kept >&2; exit 7")
        kept = len(done.stdout)
        expect(0 < kept <= LIMIT_BYTES, f"{FLOOD_BYTES} bytes were kept as {kept}, bound {LIMIT_BYTES}")
        expect(done.output_truncated, "output was dropped and not said to be")
        seen = (done.exit_code, done.stderr)
        expect(seen == (7, b"kept\n"), f"after a flood the end was {seen}")


async def _not_truncated(bench: Bench) -> None:
    async with bench.sandbox() as sandbox:
        done = await bench.run(sandbox, "head -c 1000000 /dev/zero")
        seen = (len(done.stdout), done.output_truncated)
        expect(seen == (1_000_000, False), f"a million bytes came as {seen}")


async def _apart(bench: Bench) -> None:
    script = "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"
    async with bench.sandbox() as sandbox:
        done = await bench.run(sandbox, script)
        wanted = tuple("".join(f"{sign}{n}\n" for n in range(200)).encode() for sign in "oe")
        expect((done.stdout, done.stderr) == wanted, "stdout and stderr were mixed, cut or out of order")


async def _bytes(bench: Bench) -> None:
    every = "".join(f"\\{number:03o}" for number in range(256))
    script = f"printf '{every}'; printf '\\342\\202'; sleep 0.2; printf '\\254'"
    async with bench.sandbox() as sandbox:
        done = await bench.run(sandbox, script)
        wanted = bytes(range(256)) + "\u20ac".encode()
        expect(done.stdout == wanted, f"bytes came changed: {done.stdout!r}")


CHECKS: Final = (
    Check(
        "output.bounded",
        "12 MB of output are bounded at 10 MiB, and the command goes on",
        "Keep the first bytes, read and drop the rest, set output_truncated.",
        _bounded,
    ),
    Check(
        "output.whole",
        "output below the bound is whole and not called truncated",
        "Set output_truncated only when bytes were dropped.",
        _not_truncated,
    ),
    Check(
        "output.apart",
        "stdout and stderr are kept apart and in order",
        "Read both streams at once, each into its own buffer.",
        _apart,
    ),
    Check(
        "output.bytes",
        "every byte comes through, also a character cut in two",
        "Do not decode output; it is bytes.",
        _bytes,
    ),
)
