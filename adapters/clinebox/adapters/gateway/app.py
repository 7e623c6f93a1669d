"""The gateway: an ASGI application that carries the calls of sessions to one model server (SPEC §11)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Self

from clinebox.adapters.gateway.asgi import (
    Receive,
    RequestHead,
    Scope,
    Send,
    body_message,
    head_of,
    start_message,
)
from clinebox.adapters.gateway.attempts import Clock
from clinebox.adapters.gateway.headers import MARKER, field
from clinebox.adapters.gateway.refusals import (
    NO_SUCH_METHOD,
    NO_SUCH_PATH,
    OLD_HTTP,
    WRONG_TOKEN,
    Refusal,
    send_refusal,
)
from clinebox.adapters.gateway.relay import Relay
from clinebox.adapters.gateway.session import GatewaySession, SessionOptions
from clinebox.adapters.gateway.targets import HEALTH_PATH, Target, parse_target
from clinebox.adapters.gateway.tokens import TokenTable, new_session_token
from clinebox.adapters.gateway.upstream import Bounds, Upstream, UpstreamClient
from clinebox.domain.model_calls.record import ModelCall

NOT_PASSED: Final = frozenset({"TRACE", "CONNECT"})
"""TRACE answers with the request's fields, the key among them (RFC 9110 §9.3.8)."""
HEALTHY: Final = b'{"status":"ready"}'


class Gateway:
    """One hop in front of one model server; an ASGI 3 application, entered with `async with`.

    `on_end` hears of every session's calls as they end, `on_refused` of each request that was none of any
    session, by the kind of its refusal. Both must be quick, and must not raise.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        bounds: Bounds | None = None,
        on_end: Callable[[ModelCall], None] | None = None,
        on_refused: Callable[[str], None] | None = None,
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upstream = upstream
        self._clock = Clock(wall_clock, monotonic)
        self._client = UpstreamClient(upstream, Bounds() if bounds is None else bounds)
        self._on_end = on_end
        self._on_refused = on_refused
        self._sessions: TokenTable[GatewaySession] = TokenTable()

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close_sessions()
        await self._client.__aexit__(*error)

    def open_session(
        self, options: SessionOptions | None = None, *, token: str | None = None
    ) -> GatewaySession:
        """A new session; it ends with its `close`.

        `token` is one of `new_session_token`, for a caller who has to mask it before the session is there.
        ValueError when a live session has it already.
        """
        options = SessionOptions() if options is None else options
        token = new_session_token() if token is None else token
        if self._sessions.find(token) is not None:
            raise ValueError("this token belongs to a session that is open")
        session = GatewaySession(
            token,
            self._upstream.below_prefix(options.prefix),
            options,
            clock=self._clock,
            cover_key=self._client.masker.mask_text,
            forget=self._sessions.end,
            on_end=self._on_end,
        )
        self._sessions.add(token, session)
        return session

    @property
    def session_count(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    @property
    def live_call_count(self) -> int:
        """How many calls are under way."""
        return sum(session.live_call_count for session in self._sessions.holders())

    def close_sessions(self) -> None:
        """End every session, and cut the calls that are under way."""
        for session in self._sessions.holders():
            session.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Raises AbortedError where the client must see a cut."""
        if scope["type"] != "http":
            raise RuntimeError(f"the gateway speaks HTTP only, not {scope['type']}")
        head = head_of(scope)
        if head.raw_path == HEALTH_PATH:
            await _send_health(send)
            return
        admitted = self._admit(head)
        if isinstance(admitted, Refusal):
            if self._on_refused is not None:
                self._on_refused(admitted.kind)
            await send_refusal(send, admitted, method=head.method)
            return
        session, target = admitted
        await Relay(head, receive, send, self._client).run(session, target.below)

    def _admit(self, head: RequestHead) -> tuple[GatewaySession, Target] | Refusal:
        """Whose call it is and where it leads, or why it is not carried."""
        target = parse_target(head.raw_path)
        if target is None:
            return NO_SUCH_PATH
        if head.http_version != "1.1":
            return OLD_HTTP
        if head.method in NOT_PASSED or field(head.fields, b"upgrade") is not None:
            return NO_SUCH_METHOD
        session = self._sessions.find(target.token)
        return WRONG_TOKEN if session is None else (session, target)


async def _send_health(send: Send) -> None:
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(HEALTHY)).encode()),
        (MARKER, b"health"),
    ]
    await send(start_message(200, fields))
    await send(body_message(HEALTHY, more=False))
