"""One call on its way: the request up, the answer down, and how it ended."""

from __future__ import annotations

import asyncio

import httpx

from clinebox.adapters.gateway.answer import Answer
from clinebox.adapters.gateway.asgi import (
    AbortedError,
    ClientGoneError,
    ClientStalledError,
    Receive,
    RequestHead,
    Send,
)
from clinebox.adapters.gateway.attempts import Attempt, Cut
from clinebox.adapters.gateway.bodies import BodyTooLargeError, RequestBody
from clinebox.adapters.gateway.failures import SENTENCES, UpstreamError, fault_of
from clinebox.adapters.gateway.headers import Fields, without
from clinebox.adapters.gateway.refusals import (
    BROKEN,
    CLIENT_STALLED,
    SESSION_ENDED,
    Refusal,
    body_too_large,
    send_refusal,
    upstream_failed,
)
from clinebox.adapters.gateway.sampling import is_sampled_route, with_sampling
from clinebox.adapters.gateway.session import GatewaySession
from clinebox.adapters.gateway.upstream import UpstreamClient


class Relay:
    """Carries one call of a session; `run` returns when it is answered, refused or lost."""

    def __init__(self, head: RequestHead, receive: Receive, send: Send, client: UpstreamClient) -> None:
        self._head = head
        self._receive = receive
        self._send = send
        self._client = client
        self._bounds = client.bounds
        self._answer = Answer(send, client.bounds, client.masker)
        self._watcher: asyncio.Task[None] | None = None

    async def run(self, session: GatewaySession, below: str) -> None:
        """Carry it. Raises AbortedError where the client must see a cut."""
        with session.attempt(self._head.method, below) as attempt:
            try:
                await self._run_until_cut(session, below, attempt)
            except (ClientGoneError, ClientStalledError, BodyTooLargeError, UpstreamError) as error:
                await self._give_up(attempt, error)
            except Exception as error:
                attempt.broke(error, self._shown_status(BROKEN))
                await self._refuse(BROKEN)
                raise

    async def _run_until_cut(self, session: GatewaySession, below: str, attempt: Attempt) -> None:
        """Everything ends at once when the client leaves or the session ends."""
        try:
            async with asyncio.timeout(None) as life:
                attempt.lives(life)
                try:
                    await self._exchange(session, below, attempt)
                finally:
                    attempt.lives(None)
                    await self._stop_watching()
        except TimeoutError:
            raise ClientGoneError from None

    async def _exchange(self, session: GatewaySession, below: str, attempt: Attempt) -> None:
        response = await self._ask(session, below, attempt)
        try:
            self._watch(attempt)
            await self._answer.pass_on(response, attempt)
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
        if not self._head.has_body:
            self._watch(attempt)
            return self._head.fields, b""
        body = self._body(attempt)
        if not (session.sampling.asks and is_sampled_route(self._head.method, below)):
            return self._head.fields, body
        whole = await body.whole()
        sampled = with_sampling(whole, below, session.sampling)
        if sampled is None:
            return self._head.fields, whole
        attempt.sampled(sampled.applied, sampled.asked)
        return without(self._head.fields, b"content-length"), sampled.body

    def _body(self, attempt: Attempt) -> RequestBody:
        def ended() -> None:
            self._watch(attempt)
            # After the last piece is on its way: what is read of a request costs it no time.
            asyncio.get_running_loop().call_soon(attempt.read_request)

        return RequestBody(
            self._receive,
            limit_bytes=self._bounds.request_limit_bytes,
            idle_s=self._bounds.idle_s,
            seen=attempt.sent,
            ended=ended,
        )

    # the ends

    async def _give_up(self, attempt: Attempt, error: Exception) -> None:
        match error:
            case UpstreamError(fault=fault):
                refusal = upstream_failed(fault.value, SENTENCES[fault])
                attempt.failed(fault, self._shown_status(refusal))
            case BodyTooLargeError():
                refusal = body_too_large(self._bounds.request_limit_bytes)
                attempt.refused(refusal, self._shown_status(refusal))
            case ClientStalledError():
                refusal = CLIENT_STALLED
                attempt.stalled(refusal, self._shown_status(refusal))
            case _ if attempt.cut_by is Cut.SESSION_ENDED:
                refusal = SESSION_ENDED
                attempt.session_ended(refusal, self._shown_status(refusal))
            case _:
                attempt.client_gone(self._bounds.client_patience_s)
                return
        await self._refuse(refusal)

    def _shown_status(self, refusal: Refusal) -> int | None:
        """The status that the client gets of us; None where it already had another."""
        return None if self._answer.started else refusal.status

    async def _refuse(self, refusal: Refusal) -> None:
        """The gateway's own answer, or a cut where an answer has begun."""
        if self._answer.started:
            raise AbortedError
        await send_refusal(self._send, refusal, method=self._head.method)

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


def _query(query: bytes) -> str:
    return "?" + query.decode("ascii") if query else ""
