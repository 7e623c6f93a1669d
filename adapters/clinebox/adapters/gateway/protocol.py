"""HTTP/1.1 towards the clients: uvicorn's protocol over llhttp, made strict, bounded and mute."""

from __future__ import annotations

import logging
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from clinebox.adapters.gateway.headers import Fields
from clinebox.adapters.gateway.refusals import (
    BAD_REQUEST,
    HEAD_TOO_LARGE,
    Refusal,
    refusal_body,
    refusal_fields,
)

LOGGER_NAME: Final = "clinebox.gateway"
HEAD_LIMIT_BYTES: Final = 128 * 1024
"""Of a head, of trailers, of what stands around chunks: llhttp itself has no bound, and keeps them."""

AHEAD_LIMIT: Final = 16
"""Requests that a client may send before the answer to an earlier one."""


class GatewayProtocol(HttpToolsProtocol):
    """One client's connection, with a log of its own: no access log (a path holds a token).

    uvicorn's switches for this are the process's, and would silence the server that clinebox lives in. What
    is changed was seen with uvicorn 0.54 and httptools 0.9.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.logger = logging.getLogger(LOGGER_NAME)
        self.access_log = False
        self._answering: RequestResponseCycle | None = None
        self._unread_bytes = 0
        self._in_head = True

    def data_received(self, data: bytes) -> None:
        """Read on, unless it leads nowhere."""
        self._unread_bytes += len(data)
        super().data_received(data)
        if self._unread_bytes > HEAD_LIMIT_BYTES:
            self._refuse(HEAD_TOO_LARGE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the call that is being answered.

        uvicorn tells the newest one, which is another when the client sends requests ahead.
        """
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head; one of the trailers is none (RFC 9110 §6.5.1), and is dropped."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole.

        The target stays as it is on the wire: uvicorn would drop a foreign host and a fragment from it.
        """
        self._in_head = False
        self._unread_bytes = 0
        _check_coding(self.headers)
        target, self.url = self.url, b"/"
        super().on_headers_complete()
        path, _, query = target.partition(b"?")
        self.scope["path"] = path.decode("latin-1")
        self.scope["raw_path"] = path
        self.scope["query_string"] = query
        self._read_on()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._unread_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._unread_bytes = 0
        super().on_message_complete()

    def send_400_response(self, _msg: str) -> None:
        """What is no HTTP/1.1 is refused by an answer of the gateway's own."""
        self._refuse(BAD_REQUEST)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _unsupported_upgrade_warning(self) -> None:
        """The application refuses it; what follows is no HTTP, so the connection ends with the refusal."""
        self.cycle.keep_alive = False

    def _read_on(self) -> None:
        """Read on behind a few small requests sent ahead: they must not hide that the client left."""
        if len(self.pipeline) > AHEAD_LIMIT:
            self.transport.abort()
        elif self.pipeline:
            self.flow.resume_reading()

    def _refuse(self, refusal: Refusal) -> None:
        """Answer and close; where an answer has begun, cut it: nothing may look like its end."""
        if self.transport.is_closing():
            return
        if self._answering is not None and self._answering.response_started and not self._is_idle:
            self.transport.abort()
            return
        fields = [*refusal_fields(refusal), (b"connection", b"close")]
        lines = [name + b": " + value + b"\r\n" for name, value in fields]
        self.transport.write(b"".join([STATUS_LINE[refusal.status], *lines, b"\r\n", refusal_body(refusal)]))
        self.transport.close()

    @property
    def _is_idle(self) -> bool:
        return self._answering is None or self._answering.response_complete


def _check_coding(fields: Fields) -> None:
    """ValueError for a transfer coding but `chunked`: llhttp finds it only once the application runs."""
    if any(name == b"transfer-encoding" and value.lower() != b"chunked" for name, value in fields):
        raise ValueError("the only transfer coding is chunked")
