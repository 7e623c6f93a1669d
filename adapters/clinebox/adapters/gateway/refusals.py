"""The gateway's own answers: marked, in OpenAI's form of an error, never to be taken for the model's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from clinebox.adapters.gateway.asgi import Send, body_message, start_message
from clinebox.adapters.gateway.headers import MARKER, Fields


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer of the gateway itself; `kind` stands in the marker and in the body."""

    status: int
    kind: str
    message: str


NO_SUCH_PATH: Final = Refusal(404, "no_such_path", "the gateway answers only below /s/<session token>/v1")
NO_SUCH_METHOD: Final = Refusal(405, "no_such_method", "the gateway passes no TRACE, CONNECT or upgrade")
WRONG_TOKEN: Final = Refusal(401, "wrong_token", "no session has this token: it is wrong, or has ended")
SESSION_ENDED: Final = Refusal(401, "session_ended", "the session ended while this call was under way")
OLD_HTTP: Final = Refusal(
    505,
    "http_version",
    "the gateway needs HTTP/1.1: in HTTP/1.0 a cut answer looks like a whole one (behind nginx, set "
    "proxy_http_version 1.1)",
)
BAD_REQUEST: Final = Refusal(400, "bad_request", "what came is no HTTP/1.1 request")
HEAD_TOO_LARGE: Final = Refusal(431, "head_too_large", "the request's head is over the gateway's bound")
CLIENT_STALLED: Final = Refusal(408, "client_stalled", "the request's body did not come")

BROKEN: Final = Refusal(500, "gateway_broken", "the gateway itself failed; its log has the reason")


def body_too_large(limit_bytes: int) -> Refusal:
    """The request's body is over the bound."""
    return Refusal(413, "body_too_large", f"the request's body is over the gateway's {limit_bytes} bytes")


def upstream_failed(kind: str, message: str) -> Refusal:
    """The model server gave no answer that can be passed on."""
    return Refusal(502, kind, message)


def refusal_body(refusal: Refusal) -> bytes:
    """The body that tells of it."""
    error = {"message": refusal.message, "type": "clinebox_gateway", "param": None, "code": refusal.kind}
    return json.dumps({"error": error}).encode()


def refusal_fields(refusal: Refusal) -> Fields:
    """The header fields that go with it."""
    return [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(refusal_body(refusal))).encode()),
        (MARKER, refusal.kind.encode()),
    ]


async def send_refusal(send: Send, refusal: Refusal, *, method: str = "GET") -> None:
    """Answer a request with it."""
    await send(start_message(refusal.status, refusal_fields(refusal)))
    await send(body_message(b"" if method == "HEAD" else refusal_body(refusal), more=False))
