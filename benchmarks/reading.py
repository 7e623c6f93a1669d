"""Reading a recorded run, against a reader that calls json.loads on every line and keeps nothing, in one run.

    python benchmarks/reading.py [--rounds 5]

Both read the same files, clinebox in chunks of 64 KiB. The two take turns, and the best time of each counts,
file by file: other work on the machine then disturbs neither more than the other. Bigger ratios are better.

- text: a generated answer of 8,000 chunks, each with the whole text so far (129 MB), as Cline writes it
- tools: the recorded runs of which more than half is tool calls and their output
- corpus: every recorded run
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from clinebox.adapters.run_directory.find import RunDirectory
from clinebox.adapters.run_directory.reader import read_run
from clinebox.domain.cline.stdout import StdoutFacts, StdoutReader
from clinebox.domain.outcome.classify import classify

CHUNK_BYTES = 65536
CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
DELTAS = 8_000
MEMORY_LIMIT_MIB = 64


def main() -> None:
    """Print one line a case; `--memory FILE` reads that file alone and prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory is not None:
        _print_memory(asked.memory)
        return
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "stdout.ndjson")
        with text.open("wb") as file:
            file.writelines(_deltas())
        _compare("text", [text], asked.rounds, wanted=2)
        _memory(text)
    streams = sorted(CORPUS.glob("*/*/stdout.ndjson"))
    _compare("tools", [path for path in streams if _is_tool_heavy(path)], 5 * asked.rounds, wanted=1)
    _compare("corpus", streams, 5 * asked.rounds, wanted=1)
    _judge_all([path.parent for path in streams])


def _deltas() -> Iterator[bytes]:
    dice, text = random.Random(7), ""  # noqa: S311  (a repeatable text, no key)
    words = [" the", " test", " fails", " in", " src", " it", " why", " here", " and", ". "]
    for _ in range(DELTAS):
        chunk = dice.choice(words)
        text += chunk
        yield (
            '{"ts":"2026-11-30T16:54:25.091Z","type":"agent_event","event":{"type":"content_start",'
            f'"contentType":"text","text":"{chunk}","accumulated":"{text}"}}}}\n'
        ).encode()


def _read(path: Path) -> StdoutFacts:
    reader = StdoutReader()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            reader.feed(chunk)
    return reader.finish()


def _parse(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def _compare(name: str, paths: Sequence[Path], rounds: int, *, wanted: float) -> None:
    ours, theirs = _best_s(paths, rounds)
    size = sum(path.stat().st_size for path in paths)
    verdict = "" if theirs >= wanted * ours else "   MISSED"
    print(
        f"{name:8s}{len(paths):4d} files {size / 1e6:7.2f} MB   clinebox {_speed(size, ours)}"
        f"   json.loads {_speed(size, theirs)}   {theirs / ours:5.2f} x (wanted: {wanted} x){verdict}"
    )


def _speed(size: int, taken_s: float) -> str:
    return f"{taken_s * 1e3:6.1f} ms ({size / taken_s / 1e6:5.0f} MB/s)"


def _best_s(paths: Sequence[Path], rounds: int) -> tuple[float, float]:
    """The best time of each reader on each file, summed over the files."""
    ours, theirs = [float("inf")] * len(paths), [float("inf")] * len(paths)
    for _ in range(rounds):
        for at, path in enumerate(paths):
            ours[at] = min(ours[at], _taken_s(_read, path))
            theirs[at] = min(theirs[at], _taken_s(_parse, path))
    return sum(ours), sum(theirs)


def _taken_s(read: Callable[[Path], object], path: Path) -> float:
    start = time.perf_counter()
    read(path)
    return time.perf_counter() - start


def _is_tool_heavy(path: Path) -> bool:
    content = path.read_bytes()
    tools = sum(len(line) for line in content.split(b"\n") if b'","contentType":"tool","' in line[:140])
    return tools > len(content) / 2


def _memory(path: Path) -> None:
    command = [sys.executable, __file__, "--memory", str(path)]
    mib = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    verdict = "" if mib < MEMORY_LIMIT_MIB else "   MISSED"
    print(f"text    peak memory above imports: {mib:.1f} MiB (wanted: under {MEMORY_LIMIT_MIB}){verdict}")


def _print_memory(path: Path) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # proc(5): the peak begins anew at what is resident now
    before = _resident_kib("VmHWM")
    _read(path)
    print((_resident_kib("VmHWM") - before) / 1024)


def _resident_kib(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name))


def _judge_all(folders: Sequence[Path]) -> None:
    """Every file of every recorded run, read and judged: what `clinebox classify` does."""
    start = time.perf_counter()
    for folder in folders:
        classify(read_run(RunDirectory(folder)).unwrap().evidence).unwrap()
    taken = time.perf_counter() - start
    verdict = "" if taken < 1 else "   MISSED"
    print(f"corpus  {len(folders)} runs, all files read and judged: {taken:.2f} s (wanted: under 1){verdict}")


if __name__ == "__main__":
    main()
