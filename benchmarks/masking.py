"""Masking throughput, streaming in 64 KiB chunks, against the two obvious ways, in one run.

    python benchmarks/masking.py [--megabytes 16]

For 20 and for 200 registered forms of three kinds of secret: the masker in pure Python, with the optional
accelerator (extra `fast`), a loop of `bytes.replace`, and one `re` alternation. The last two mask each chunk
alone and so miss what crosses a chunk: they are a measure of speed, not of correctness. The text is Cline's
recorded stdout where the corpus is there, else generated records; one secret stands in it every 64 KiB.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import re
import string
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from clinebox.adapters.masking_accelerator import fastest_finder
from clinebox.domain.secrets.finder import FinderFactory, WordIndex
from clinebox.domain.secrets.forms import forms_of
from clinebox.domain.secrets.masker import Masker

CHUNK_BYTES = 65536
CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
TARGETS = {
    ("pure Python", 20): 100,
    ("pure Python", 200): 20,
    ("accelerated", 20): 150,
    ("accelerated", 200): 150,
}
KINDS = {"keys of 40 characters": 40, "keys of 20 characters": 20, "passwords of 8 characters": 8}


def main() -> None:
    """Print one table a kind of secret."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=16)
    megabytes = parser.parse_args().megabytes
    rng = random.Random(7)  # noqa: S311  (a repeatable text, no key)
    text, source = _text(megabytes * 1_000_000, rng)
    print(f"{len(text) / 1e6:.0f} MB of {source}, chunks of 64 KiB\n")
    for kind, length in KINDS.items():
        for count in (20, 200):
            _table(kind, *_secrets(length, count, rng), text)


def _table(kind: str, secrets: list[str], forms: list[bytes], text: bytes) -> None:
    chunks = list(_chunks(_salted(text, secrets)))
    size = sum(map(len, chunks))
    masker = Masker(secrets)
    print(f"{kind}: {len(secrets)} secrets, {masker.form_count} forms")
    ways: dict[str, Callable[[], int]] = {"pure Python": lambda: _stream(secrets, chunks, WordIndex)}
    accelerator = _accelerator()
    if accelerator is not None:
        ways["accelerated"] = functools.partial(_stream, secrets, chunks, accelerator)
    ways["bytes.replace in a loop"] = lambda: sum(len(_replace_all(chunk, forms)) for chunk in chunks)
    pattern = re.compile(b"|".join(map(re.escape, forms)))
    ways["one re alternation"] = lambda: sum(len(pattern.sub(b"***", chunk)) for chunk in chunks)
    speeds = {name: size / _best_s(way) / 1e6 for name, way in ways.items()}
    reference = speeds["bytes.replace in a loop"]
    for name, speed in speeds.items():
        nominal = 20 if len(forms) < 100 else 200
        target = TARGETS.get((name, nominal))
        wanted = f"   (wanted: {target})" if target else ""
        print(f"  {name:26s}{speed:8.1f} MB/s {speed / reference:7.2f} x replace{wanted}")
    print()


def _stream(secrets: list[str], chunks: list[bytes], finder: FinderFactory) -> int:
    stream = _masker(tuple(secrets), finder).stream()
    return sum(len(stream.feed(chunk)) for chunk in chunks) + len(stream.flush())


@functools.cache
def _masker(secrets: tuple[str, ...], finder: FinderFactory) -> Masker:
    return Masker(secrets, finder=finder)


def _replace_all(chunk: bytes, forms: list[bytes]) -> bytes:
    for form in forms:
        chunk = chunk.replace(form, b"***")
    return chunk


def _accelerator() -> FinderFactory | None:
    finder = fastest_finder()
    if finder is WordIndex:
        print("  (ahocorasick-rs is not installed: no accelerated figure)")
        return None
    return finder


def _best_s(way: Callable[[], int]) -> float:
    """Processor time, the best of three: what this costs, also on a machine that others use."""
    way()
    taken = []
    for _ in range(3):
        start = time.process_time()
        way()
        taken.append(time.process_time() - start)
    return min(taken)


def _secrets(length: int, forms_wanted: int, rng: random.Random) -> tuple[list[str], list[bytes]]:
    """Secrets of one length with about so many forms, and the forms longest first."""
    secrets: list[str] = []
    forms: set[bytes] = set()
    while len(forms) < forms_wanted * 0.9:
        secrets.append("".join(rng.choices(string.ascii_letters + string.digits, k=length)))
        forms |= forms_of(secrets[-1])
    return secrets, sorted(forms, key=len, reverse=True)


def _text(size: int, rng: random.Random) -> tuple[bytes, str]:
    recorded = b"".join(path.read_bytes() for path in sorted(CORPUS.glob("*/*/stdout.ndjson")))
    if recorded:
        return (recorded * (size // len(recorded) + 1))[:size], "Cline's recorded stdout"
    return b"".join(_records(size, rng)), "generated records"


def _records(size: int, rng: random.Random) -> Iterator[bytes]:
    words = ["the", "test", "fails", "in", "src/app.py", "because", "value", "is", "None", "->", "return"]
    written = 0
    while written < size:
        text = " ".join(rng.choices(words, k=40))
        line = json.dumps(
            {"ts": written, "type": "agent_event", "event": {"type": "content_end", "text": text}}
        )
        written += len(line) + 1
        yield line.encode() + b"\n"


def _salted(text: bytes, secrets: list[str]) -> bytes:
    pieces: list[bytes] = []
    for at, chunk in enumerate(_chunks(text)):
        end = chunk.find(b"\n") + 1
        pieces += [chunk[:end], b'{"key":"', secrets[at % len(secrets)].encode(), b'"}\n', chunk[end:]]
    return b"".join(pieces)


def _chunks(text: bytes) -> Iterable[bytes]:
    return (text[at : at + CHUNK_BYTES] for at in range(0, len(text), CHUNK_BYTES))


if __name__ == "__main__":
    main()
