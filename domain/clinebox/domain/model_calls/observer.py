"""Reads a response as it passes, and changes nothing (SPEC §11): sans-I/O, bounded, never an exception."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from clinebox.domain.cline.events import NotARecord
from clinebox.domain.cline.stream import parse_line
from clinebox.domain.model_calls.answer import AnswerFold
from clinebox.domain.model_calls.mould import Mould, learnt
from clinebox.domain.model_calls.record import CallFlag, ObservedResponse
from clinebox.domain.model_calls.sse import BOM, SseReader

BODY_LIMIT_BYTES: Final = 8 * 1024 * 1024
"""Of a JSON body; a longer one is not read."""

LEARNING_LIMIT: Final = 64
"""Texts of one answer that their common form is looked for in; where each differs there is none."""

_WHITE: Final = b" \t\r\n"
_DONE: Final = b"[DONE]"
_REASON: Final = b'"finish_reason"'
_PLAIN: Final = b'"finish_reason":null'
_EVENT_END: Final = b"\n\n"


class _Shape(Enum):
    """What the body is, by its first byte: a content type may lie (a proxy's page, a JSON error)."""

    UNKNOWN = auto()
    SSE = auto()
    JSON = auto()
    OTHER = auto()


class ResponseObserver:
    """Takes a response's body, free of any content coding, in any cuts; `facts` at any time.

    Holds one `data` line of at most 1 MiB, or a JSON body of at most 8 MiB. The body itself tells what it is;
    `streamed_hint` says whether the request asked for a stream, so that anything else can be flagged.
    """

    def __init__(self, *, streamed_hint: bool = True) -> None:
        self._streamed_hint = streamed_hint
        self._shape = _Shape.UNKNOWN
        self._head = b""
        self._sse = SseReader()
        self._body: list[bytes] = []
        self._body_bytes = self._events = 0
        self._answer = AnswerFold()
        self._done = self._bad = self._finished = False
        self._mould: Mould | None = None
        self._unlearnt = LEARNING_LIMIT

    def feed(self, chunk: bytes) -> None:
        """Read on."""
        match self._shape:
            case _Shape.SSE:
                plain = self._is_under_way
                self._take(self._sse.feed(self._without_plain_events(chunk) if plain else chunk))
            case _Shape.JSON:
                self._hold(chunk)
            case _Shape.UNKNOWN:
                self._begin(chunk)
            case _Shape.OTHER:
                pass

    def finish(self) -> None:
        """The body is whole, or will not go on. A second call changes nothing."""
        if self._finished:
            return
        self._finished = True
        if self._shape is _Shape.SSE:
            # A cut inside an event leaves half a JSON text: that is the cut, and no bad data.
            self._take(self._sse.finish(), whole=False)
        elif self._shape is _Shape.JSON and self._body_bytes <= BODY_LIMIT_BYTES:
            self._read_body()
        self._body.clear()

    def facts(self) -> ObservedResponse:
        """What has passed so far."""
        answer = self._answer
        return ObservedResponse(
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            response_id=answer.response_id,
            upstream_model=answer.model,
            tool_call_count=answer.tool_calls,
            terminal_event=self._terminal,
            error=answer.error,
            produced_output=answer.produced_output,
            flags=frozenset(self._flags()),
        )

    @property
    def _terminal(self) -> bool:
        return self._done or self._answer.terminal

    def _flags(self) -> list[CallFlag]:
        told = (
            (CallFlag.NO_USAGE, self._answer.usage is None),
            (CallFlag.NO_FINISH_REASON, self._answer.finish_reason is None),
            (CallFlag.NO_TERMINAL_EVENT, not self._terminal),
            (CallFlag.BAD_DATA, self._bad),
            (CallFlag.NOT_A_STREAM, self._is_no_stream),
            (CallFlag.DATA_SKIPPED, self._sse.skipped > 0 or self._body_bytes > BODY_LIMIT_BYTES),
        )
        return [flag for flag, holds in told if holds]

    @property
    def _is_no_stream(self) -> bool:
        if self._shape is _Shape.SSE or self._shape is _Shape.UNKNOWN:
            nothing = self._events == 0 and not self._sse.skipped
            return self._streamed_hint and self._finished and nothing
        # FORMAT.md §5: Cline, which asks for a stream, reads nothing from a JSON body (3.0.57).
        return self._streamed_hint or self._shape is _Shape.OTHER

    def _begin(self, chunk: bytes) -> None:
        # White space may lead a body (some proxies keep it alive with that), a mark may lead a stream.
        head = (self._head + chunk).lstrip(_WHITE)
        mark = BOM if head.startswith(BOM) else b""
        rest = head[len(mark) :].lstrip(_WHITE)
        if not rest or BOM.startswith(head):
            self._head = head[: len(BOM)]
            return
        self._head = b""
        self._shape = _shape_of(rest[:1])
        self.feed(mark + rest)

    def _hold(self, chunk: bytes) -> None:
        self._body_bytes += len(chunk)
        if self._body_bytes > BODY_LIMIT_BYTES:
            self._body.clear()
        else:
            self._body.append(chunk)

    def _read_body(self) -> None:
        value = parse_line(b"".join(self._body).removeprefix(BOM))
        if isinstance(value, NotARecord):
            self._bad = True
            return
        self._done = True
        self._answer.feed(value)

    def _take(self, events: list[bytes], *, whole: bool = True) -> None:
        for event in events:
            self._events += 1
            if event.strip() == _DONE:
                self._done = True
            elif not self._is_under_way or not _is_plain(event):
                self._read_event(event, whole=whole)
            elif self._unlearnt > 0:
                self._unlearnt -= 1
                self._mould = learnt(event) or self._mould

    def _read_event(self, event: bytes, *, whole: bool) -> None:
        value = parse_line(event)
        if isinstance(value, NotARecord):
            self._bad = self._bad or whole
        else:
            self._answer.feed(value)

    @property
    def _is_under_way(self) -> bool:
        """Whether one more piece of text tells nothing new."""
        answer = self._answer
        return answer.produced_output and answer.response_id is not None and answer.model is not None

    def _without_plain_events(self, chunk: bytes) -> bytes:
        """The chunk without the whole events in it, if each of them is a plain delta.

        A few searches of the chunk replace cutting it and looking at each: a fast upstream sends hundreds.
        """
        start = 0 if self._sse.is_between_events else chunk.find(_EVENT_END) + 2
        end = chunk.rfind(_EVENT_END) + 2
        events = chunk[start:end]
        if self._mould is not None and self._mould.fits(events):
            return chunk[:start] + chunk[end:]
        count = events.count(_EVENT_END)
        if not count or not events.startswith(b"data:") or b"\r" in events:
            return chunk
        if events.count(b"}\n\ndata:") != count - 1 or not _is_plain(events, count):
            return chunk
        return chunk[:start] + chunk[end:]


def _is_plain(data: bytes, count: int = 1) -> bool:
    """Whether these events are pieces of text and no more. What is told so is not validated as JSON.

    Inside a JSON string a quote stands behind a backslash, so none of these can be the model's words.
    """
    return (
        data.count(_PLAIN) == count
        and data.count(_REASON) == count
        and data.rstrip(b"\n").endswith(b"}")
        and b'"usage":{' not in data
        and b'"usage": {' not in data
        and b"_call" not in data
        and b'"error"' not in data
    )


def _shape_of(first: bytes) -> _Shape:
    if first in (b"{", b"["):
        return _Shape.JSON
    return _Shape.OTHER if first == b"<" else _Shape.SSE
