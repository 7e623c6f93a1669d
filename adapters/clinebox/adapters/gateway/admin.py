"""`/sessions`: how hosts get session tokens from a gateway that runs alone, and the records of calls."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from returns.pipeline import is_successful

from clinebox.adapters.gateway.asgi import (
    Application,
    ClientGoneError,
    Receive,
    RequestHead,
    Scope,
    Send,
    body_message,
    head_of,
    start_message,
)
from clinebox.adapters.gateway.bodies import BodyTooLargeError, RequestBody
from clinebox.adapters.gateway.headers import MARKER, field
from clinebox.adapters.gateway.refusals import CLIENT_STALLED, Refusal, body_too_large, send_refusal
from clinebox.adapters.gateway.session_book import BookedSession, SessionBook
from clinebox.adapters.gateway.session_order import parse_session_order
from clinebox.domain.json_value import JsonValue
from clinebox.domain.model_calls.codec import call_to_json, model_call_lines

ORDER_LIMIT_BYTES: Final = 64 * 1024
ORDER_S: Final = 30.0
PLACE: Final = re.compile(rb"/sessions(?:/([A-Za-z0-9-]{1,64})(/calls)?)?", re.ASCII)
_JSON: Final = b"application/json"
_JSON_LINES: Final = b"application/x-ndjson"

WRONG_OPERATOR: Final = Refusal(
    401, "wrong_operator_token", "sessions are for the operator: send Authorization: Bearer <operator token>"
)
NO_SUCH_SESSION: Final = Refusal(404, "no_such_session", "no session has this id: it is wrong, or forgotten")
NO_SUCH_ACT: Final = Refusal(
    405,
    "no_such_method",
    "there are POST and GET /sessions, GET /sessions/<id>/calls and DELETE /sessions/<id>",
)


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    content_type: bytes
    body: bytes


class SessionDesk:
    """An application before the gateway that serves `/sessions` to whoever has the operator's token.

    `public_url` is how hosts and sandboxes call the gateway; set it before the first request is served.
    `on_refused` is told the kind of each refusal.
    """

    def __init__(
        self,
        application: Application,
        book: SessionBook,
        operator_token: str,
        *,
        model: str,
        on_refused: Callable[[str], None] | None = None,
    ) -> None:
        self._application = application
        self._book = book
        self._operator_digest = _digest(operator_token.encode("ascii"))
        self._model = model
        self._on_refused = on_refused
        self.public_url = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on what is no path of ours."""
        place = PLACE.fullmatch(scope.get("raw_path") or b"") if scope["type"] == "http" else None
        if place is None:
            await self._application(scope, receive, send)
            return
        head = head_of(scope)
        try:
            answer = await self._answer(head, place, receive)
        except ClientGoneError:
            return
        if isinstance(answer, _Reply):
            await _send(send, answer)
            return
        if self._on_refused is not None:
            self._on_refused(answer.kind)
        await send_refusal(send, answer, method=head.method)

    async def _answer(self, head: RequestHead, place: re.Match[bytes], receive: Receive) -> _Reply | Refusal:
        if not self._is_operator(head):
            return WRONG_OPERATOR
        match (head.method, place[1], place[2]):
            case ("POST", None, _):
                return await self._open(receive)
            case ("GET", None, _):
                return _json(200, {"sessions": [_summary(booked) for booked in self._book]})
            case ("GET", bytes(session_id), bytes()):
                booked = self._find(session_id)
                return NO_SUCH_SESSION if booked is None else _calls(booked)
            case ("DELETE", bytes(session_id), None):
                booked = self._find(session_id)
                return NO_SUCH_SESSION if booked is None else await self._end(booked)
            case _:
                return NO_SUCH_ACT

    def _is_operator(self, head: RequestHead) -> bool:
        """In constant time: digests of the same length are compared, whatever was sent."""
        scheme, _, token = (field(head.fields, b"authorization") or b"").partition(b" ")
        # RFC 9110 §11.1: the scheme's name has no case
        return hmac.compare_digest(_digest(token), self._operator_digest) and scheme.lower() == b"bearer"

    async def _open(self, receive: Receive) -> _Reply | Refusal:
        body = await _whole_body(receive)
        if isinstance(body, Refusal):
            return body
        order = parse_session_order(body)
        if not is_successful(order):
            return Refusal(422, "bad_session", order.failure())
        booked = self._book.open(order.unwrap())
        opened: dict[str, JsonValue] = {
            "id": booked.id,
            "token": booked.session.token,
            "base_url": booked.session.base_url(self.public_url),
            "model": self._model,
            "expires_at_s": booked.expires_at_s,
        }
        return _json(201, opened)

    async def _end(self, booked: BookedSession) -> _Reply:
        self._book.close(booked)
        await booked.wait_whole()
        return _calls(booked)

    def _find(self, session_id: bytes) -> BookedSession | None:
        return self._book.find(session_id.decode("ascii"))


async def _whole_body(receive: Receive) -> bytes | Refusal:
    body = RequestBody(receive, limit_bytes=ORDER_LIMIT_BYTES, seen=lambda _: None, ended=lambda: None)
    try:
        async with asyncio.timeout(ORDER_S):
            return await body.whole()
    except BodyTooLargeError:
        return body_too_large(ORDER_LIMIT_BYTES)
    except TimeoutError:
        return CLIENT_STALLED


def _calls(booked: BookedSession) -> _Reply:
    """The records: of a session that goes on, each says `"of": null`, so that nobody takes them for all."""
    calls = booked.session.records()
    glance: Iterable[bytes] = (_line(call_to_json(call, None)) for call in calls)
    lines = model_call_lines(calls) if booked.is_whole else glance
    return _Reply(200, _JSON_LINES, b"".join(lines))


def _summary(booked: BookedSession) -> dict[str, JsonValue]:
    return {
        "id": booked.id,
        "open": not booked.is_closed,
        "opened_at_s": booked.opened_at_s,
        "expires_at_s": booked.expires_at_s,
        "calls": booked.session.call_count,
        "live_calls": booked.session.live_call_count,
    }


def _json(status: int, value: JsonValue) -> _Reply:
    return _Reply(status, _JSON, _line(value))


def _line(value: JsonValue) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


async def _send(send: Send, reply: _Reply) -> None:
    fields = [
        (b"content-type", reply.content_type),
        (b"content-length", str(len(reply.body)).encode("ascii")),
        (b"cache-control", b"no-store"),  # an answer holds a token (RFC 9111 §5.2.2.5)
        (MARKER, b"sessions"),
    ]
    await send(start_message(reply.status, fields))
    await send(body_message(reply.body, more=False))
