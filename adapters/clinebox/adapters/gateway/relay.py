"""One call on its way: the request up, the answer down, byte for byte, and what was seen of both."""

from __future__ import annotations

import asyncio
from typing import Final

import httpx

from clinebox.adapters.gateway.asgi import (
    AbortedError,
    ClientGoneError,
    ClientStalledError,
    Message,
    Receive,
    RequestHead,
    Send,
    body_message,
    start_message,
)
from clinebox.adapters.gateway.attempts import Attempt, Cut
from clinebox.adapters.gateway.bodies import BodyTooLargeError, RequestBody
from clinebox.adapters.gateway.failures import SENTENCES, UpstreamError, UpstreamFault, fault_of
from clinebox.adapters.gateway.headers import Fields, field, response_fields, without
from clinebox.adapters.gateway.refusals import (
    CLIENT_STALLED,
    SESSION_ENDED,
    Refusal,
    body_too_large,
    send_refusal,
    upstream_failed,
)
from clinebox.adapters.gateway.sampling import is_sampled_route, with_sampling
from clinebox.adapters.gateway.session import GatewaySession
from clinebox.adapters.gateway.upstream import Bounds, UpstreamClient

FIRST_STATUS: Final = 200
LAST_STATUS: Final = 599


class Relay:
    """Carries one call of a session; `run` returns when it is answered, refused or lost."""

    def __init__(
        self, head: RequestHead, receive: Receive, send: Send, client: UpstreamClient, bounds: Bounds
    ) -> None:
        self._head = head
        self._receive = receive
        self._send_raw = send
        self._client = client
        self._bounds = bounds
        self._started = False
        self._watcher: asyncio.Task[None] | None = None

    async def run(self, session: GatewaySession, below: str) -> None:
        """Carry it. Raises AbortedError where the client must see a cut."""
        with session.attempt(self._head.method, below) as attempt:
            try:
                await self._run_until_cut(session, below, attempt)
            except (ClientGoneError, ClientStalledError, BodyTooLargeError, UpstreamError) as error:
                await self._give_up(attempt, error)

    async def _run_until_cut(self, session: GatewaySession, below: str, attempt: Attempt) -> None:
        """Everything ends at once when the client leaves or the session ends."""
        try:
            async with asyncio.timeout(None) as life:
                attempt.life = life
                try:
                    await self._exchange(session, below, attempt)
                finally:
                    attempt.life = None
                    await self._stop_watching()
        except TimeoutError:
            raise ClientGoneError from None

    async def _exchange(self, session: GatewaySession, below: str, attempt: Attempt) -> None:
        response = await self._ask(session, below, attempt)
        try:
            self._watch(attempt)
            await self._answer(response, attempt)
        finally:
            await response.aclose()

    # the request

    async def _ask(self, session: GatewaySession, below: str, attempt: Attempt) -> httpx.Response:
        url = session.upstream_url + below + _query(self._head.query)
        fields, content = await self._outgoing(session, below, attempt)
        try:
            return await self._client.send(self._head.method, url, fields, content, attempt.connected)
        except httpx.TransportError as error:
            raise UpstreamError(fault_of(error)) from None

    async def _outgoing(
        self, session: GatewaySession, below: str, attempt: Attempt
    ) -> tuple[Fields, RequestBody | bytes]:
        """The request's fields and body; read whole only where sampling fields are to be set in it."""
        if (self._head.body_bytes or 0) > self._bounds.request_limit_bytes:
            raise BodyTooLargeError
        body = RequestBody(
            self._receive,
            limit_bytes=self._bounds.request_limit_bytes,
            idle_s=self._bounds.idle_s,
            seen=attempt.sent,
            ended=lambda: self._watch(attempt),
        )
        if not self._head.has_body:
            self._watch(attempt)
            return self._head.fields, b""
        if not (session.sampling.asks and is_sampled_route(self._head.method, below)):
            return self._head.fields, body
        whole = await body.whole()
        sampled = with_sampling(whole, below, session.sampling)
        if sampled is None:
            return self._head.fields, whole
        attempt.sampled(sampled.applied)
        return without(self._head.fields, b"content-length"), sampled.body

    # the answer

    async def _answer(self, response: httpx.Response, attempt: Attempt) -> None:
        fields = _passable(response)
        attempt.answered(response.status_code, response.headers)
        await self._send(start_message(response.status_code, fields))
        self._started = True
        try:
            async for chunk in response.stream:  # type: ignore[union-attr]  # an AsyncClient's streams are async
                if chunk:
                    attempt.received(chunk)
                    await self._send(body_message(chunk, more=True))
        except httpx.TransportError as error:
            raise UpstreamError(fault_of(error)) from None
        # Recorded before the client can know: whoever reads the records after Cline ended finds them whole.
        attempt.finished()
        await self._send(body_message(b"", more=False))

    async def _send(self, message: Message) -> None:
        """Hand over one message once the client has taken what came before."""
        try:
            async with asyncio.timeout(self._bounds.idle_s):
                await self._send_raw(message)
        except TimeoutError:
            raise ClientStalledError from None

    # the ends

    async def _give_up(self, attempt: Attempt, error: Exception) -> None:
        match error:
            case UpstreamError(fault=fault):
                refusal = upstream_failed(fault.value, SENTENCES[fault])
                attempt.failed(fault, self._shown_status(refusal))
            case BodyTooLargeError():
                refusal = body_too_large(self._bounds.request_limit_bytes)
                attempt.refused(self._shown_status(refusal))
            case ClientStalledError():
                refusal = CLIENT_STALLED
                attempt.stalled(self._shown_status(refusal))
            case _ if attempt.cut_by is Cut.SESSION_ENDED:
                refusal = SESSION_ENDED
                attempt.client_gone(self._shown_status(refusal))
            case _:
                attempt.client_gone(None)
                return
        await self._refuse(refusal)

    def _shown_status(self, refusal: Refusal) -> int | None:
        """The status that the client gets of us; None where it already had another."""
        return None if self._started else refusal.status

    async def _refuse(self, refusal: Refusal) -> None:
        """The gateway's own answer, or a cut where an answer has begun."""
        if self._started:
            raise AbortedError
        await send_refusal(self._send_raw, refusal, method=self._head.method)

    # the client's leaving

    def _watch(self, attempt: Attempt) -> None:
        """Cut the call when the client leaves; only once its body is read, as both read the same channel."""
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(_cut_when_gone(self._receive, attempt))

    async def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait((self._watcher,))


async def _cut_when_gone(receive: Receive, attempt: Attempt) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    attempt.cut(Cut.CLIENT_GONE)


def _passable(response: httpx.Response) -> Fields:
    """The fields for the client. Raises UpstreamError for what is not passed on: redirects, 1xx, 6xx and up.

    A `Location` would lead the client past the gateway, and the session's token with it.
    """
    status = response.status_code
    if not FIRST_STATUS <= status <= LAST_STATUS:
        raise UpstreamError(UpstreamFault.BAD_STATUS)
    fields = response_fields(response.headers.raw)
    if 300 <= status < 400 and field(fields, b"location") is not None:  # noqa: PLR2004 - RFC 9110 §15.4
        raise UpstreamError(UpstreamFault.REDIRECT)
    return fields


def _query(query: bytes) -> str:
    return "?" + query.decode("ascii") if query else ""
