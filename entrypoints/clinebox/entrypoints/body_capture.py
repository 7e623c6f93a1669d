"""`model_bodies.jsonl`: the bodies of model calls, masked and cut, two lines a call, as the calls end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

from clinebox.adapters.gateway import CapturedBodies, SessionOptions
from clinebox.adapters.run_directory import names
from clinebox.adapters.run_directory.writer import RunDirectoryWriter
from clinebox.domain.json_value import JsonValue
from clinebox.domain.model_calls.record import ModelCall
from clinebox.domain.secrets.masker import Masker


@contextlib.contextmanager
def capturing_bodies(writer: RunDirectoryWriter, masker: Masker) -> Iterator[SessionOptions]:
    """Options for a session whose bodies are written into the run directory; published at the end."""
    with writer.open(names.MODEL_BODIES) as sink:
        sink.write(b"")
        yield SessionOptions(capture=masker.stream, on_end=_writing(sink.write))


def _writing(write: Callable[[bytes], None]) -> Callable[[ModelCall, CapturedBodies | None], None]:
    def on_end(call: ModelCall, bodies: CapturedBodies | None) -> None:
        if bodies is not None:
            write(_line(call, "request", bodies.request, cut=bodies.request_cut))
            write(_line(call, "response", bodies.response, cut=bodies.response_cut))

    return on_end


def _line(call: ModelCall, side: str, body: bytes, *, cut: bool) -> bytes:
    """One body a line: at most 1 MiB, six times as much when all of it is escaped."""
    value: dict[str, JsonValue] = {
        "number": call.number,
        "side": side,
        "cut": cut,
        "body": body.decode("utf-8", "replace"),
    }
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
