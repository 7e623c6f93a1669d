"""`model_calls.jsonl`, bytes in and facts out: incremental, bounded, and total on hostile bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from clinebox.domain.cline.events import NotARecord
from clinebox.domain.cline.stream import LineSplitter, parse_line
from clinebox.domain.json_value import JsonValue, as_int, as_mapping
from clinebox.domain.model_calls.codec import MODEL_CALLS_NAME, call_from_json
from clinebox.domain.model_calls.facts import CallFold, ModelCallFacts, SeenCall

LINE_LIMIT_BYTES: Final = 64 * 1024
"""A call's record is a few KiB at most; a longer line is counted and not read."""


class ModelCallReader:
    """Folds the record chunk by chunk: `feed` any cuts, then `finish` once for the facts."""

    def __init__(self, source: str = MODEL_CALLS_NAME) -> None:
        self._source = source
        self._splitter = LineSplitter()
        self._next = 1
        self._fold = CallFold()
        self._bad = self._oversized = 0
        self._count = _Count()

    def feed(self, chunk: bytes) -> None:
        """Read on; a chunk may end anywhere."""
        self._take(self._splitter.feed(chunk))

    def finish(self) -> ModelCallFacts:
        """The facts of the whole record."""
        self._take(self._splitter.finish())
        return replace(
            self._fold.facts(self._source),
            size_bytes=self._splitter.size_bytes,
            lines=self._splitter.lines,
            bad_lines=self._bad,
            oversized_lines=self._oversized,
            is_whole=self._count.is_whole and not self._bad and not self._oversized,
        )

    def _take(self, lines: list[bytes | int]) -> None:
        for number, line in enumerate(lines, self._next):
            self._line(number, line)
        self._next += len(lines)

    def _line(self, number: int, line: bytes | int) -> None:
        if isinstance(line, int) or len(line) > LINE_LIMIT_BYTES:
            self._oversized += 1
            return
        value = parse_line(line)
        call = None if isinstance(value, NotARecord) else call_from_json(value)
        if call is None or isinstance(value, NotARecord):
            self._bad += 1
            return
        self._count.add(call.number, value)
        self._fold.add(SeenCall(call, number, line))


class _Count:
    """Whether the calls are numbered 1 to n, each saying that there are n."""

    __slots__ = ("_of", "_seen", "_sound")

    def __init__(self) -> None:
        self._seen = 0
        self._of: int | None = None
        self._sound = True

    def add(self, number: int, value: JsonValue) -> None:
        of = as_int(as_mapping(value).get("of"))
        self._seen += 1
        first = self._seen == 1
        self._sound = self._sound and number == self._seen and of is not None and (first or of == self._of)
        self._of = of

    @property
    def is_whole(self) -> bool:
        return self._sound and (self._of is None or self._of == self._seen)


def parse_model_calls(data: bytes | Iterable[bytes], source: str = MODEL_CALLS_NAME) -> ModelCallFacts:
    """The record, whole or in chunks."""
    reader = ModelCallReader(source)
    for chunk in (data,) if isinstance(data, bytes) else data:
        reader.feed(chunk)
    return reader.finish()
