"""One call on its way: the request up, the answer down, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import assert_never

import httpx

from clinebox.adapters.gateway.answer import Answer
from clinebox.adapters.gateway.asgi import (
    AbortedError,
    ClientGoneError,
    Receive,
    RequestHead,
    Send,
)
from clinebox.adapters.gateway.attempts import Attempt, Cut
from clinebox.adapters.gateway.bodies import BodyTooLargeError, RequestBody
from clinebox.adapters.gateway.failures import SENTENCES, UpstreamError, UpstreamFault, fault_of
from clinebox.adapters.gateway.headers import Fields, untold, without
from clinebox.adapters.gateway.patience import Patience
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


class _CutError(Exception):
    """The call was ended from outside; `Attempt.cut_by` says by whom."""


class Relay:
    """Carries one call of a session; `run` returns when it is answered, refused or lost."""

    def __init__(self, head: RequestHead, receive: Receive, send: Send, client: UpstreamClient) -> None:
        self._head = head
        self._receive = receive
        self._send = send
        self._client = client
        self._bounds = client.bounds
        self._answer = Answer(send, client.masker, client.bounds.keep_alive_s)
        self._body: RequestBody | None = None
        self._patience: Patience | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def run(self, session: GatewaySession, below: str) -> None:
        """Carry it. Raises AbortedError where the client must see a cut."""
        with session.attempt(self._head.method, below) as attempt:
            try:
                await self._run_until_cut(session, below, attempt)
            except (ClientGoneError, BodyTooLargeError, UpstreamError, _CutError) as error:
                await self._give_up(attempt, error)
            except Exception as error:
                attempt.broke(error, self._shown_status(BROKEN))
                await self._refuse(BROKEN)
                raise

    async def _run_until_cut(self, session: GatewaySession, below: str, attempt: Attempt) -> None:
        """All ends at once when the client leaves, somebody is silent too long, or the session ends."""
        self._patience = Patience(self._bounds.idle_s, lambda: self._out_of_patience(attempt))
        try:
            async with asyncio.timeout(None) as life:
                attempt.lives(life)
                try:
                    await self._exchange(session, below, attempt)
                finally:
                    attempt.lives(None)
                    await self._stop_watching()
        except TimeoutError:
            raise _CutError from None
        finally:
            self._patience.stop()

    async def _exchange(self, session: GatewaySession, below: str, attempt: Attempt) -> None:
        response = await self._ask(session, below, attempt)
        try:
            self._watch(attempt)
            await self._answer.pass_on(response, attempt, self._touch)
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
        fields = untold(self._head.fields, session.token)
        if not self._head.has_body:
            self._watch(attempt)
            return fields, b""
        self._body = self._new_body(attempt)
        if not (session.sampling.asks and is_sampled_route(self._head.method, below)):
            return fields, self._body
        whole = await self._body.whole()
        sampled = with_sampling(whole, below, session.sampling)
        if sampled is None:
            return fields, whole
        attempt.sampled(sampled.applied, sampled.asked)
        return without(fields, b"content-length"), sampled.body

    def _new_body(self, attempt: Attempt) -> RequestBody:
        def seen(piece: bytes) -> None:
            self._touch()
            attempt.sent(piece)

        def ended() -> None:
            self._watch(attempt)
            # After the last piece is on its way: what is read of a request costs it no time.
            asyncio.get_running_loop().call_soon(attempt.read_request)

        return RequestBody(
            self._receive, limit_bytes=self._bounds.request_limit_bytes, seen=seen, ended=ended
        )

    # the ends

    async def _give_up(self, attempt: Attempt, error: Exception) -> None:
        match error:
            case UpstreamError(fault=fault):
                await self._upstream_failed(attempt, fault)
            case BodyTooLargeError():
                await self._refuse_it(body_too_large(self._bounds.request_limit_bytes), attempt.refused)
            case _:
                await self._was_cut(attempt)

    async def _was_cut(self, attempt: Attempt) -> None:
        match attempt.cut_by:
            case Cut.SESSION_ENDED:
                await self._refuse_it(SESSION_ENDED, attempt.session_ended)
            case Cut.CLIENT_STALLED:
                await self._refuse_it(CLIENT_STALLED, attempt.stalled)
            case Cut.UPSTREAM_SILENT:
                await self._upstream_failed(attempt, UpstreamFault.TIMEOUT)
            case Cut.CLIENT_GONE | None:
                attempt.client_gone(self._bounds.client_patience_s)
            case _ as never:
                assert_never(never)

    async def _upstream_failed(self, attempt: Attempt, fault: UpstreamFault) -> None:
        refusal = upstream_failed(fault.value, SENTENCES[fault])
        attempt.failed(fault, self._shown_status(refusal))
        await self._refuse(refusal)

    async def _refuse_it(self, refusal: Refusal, record: Callable[[Refusal, int | None], None]) -> None:
        record(refusal, self._shown_status(refusal))
        await self._refuse(refusal)

    def _shown_status(self, refusal: Refusal) -> int | None:
        """The status that the client gets of us; None where it already had another."""
        return None if self._answer.started else refusal.status

    async def _refuse(self, refusal: Refusal) -> None:
        """The gateway's own answer, or a cut where an answer has begun."""
        if self._answer.started:
            raise AbortedError
        await send_refusal(self._send, refusal, method=self._head.method)

    # what cuts a call

    def _touch(self) -> None:
        if self._patience is not None:
            self._patience.touch()

    def _out_of_patience(self, attempt: Attempt) -> None:
        """Nobody moved: who was it that had to?"""
        uploads = self._body is not None and self._body.waits_for_client
        waits_for_client = uploads or self._answer.waits_for_client
        attempt.cut(Cut.CLIENT_STALLED if waits_for_client else Cut.UPSTREAM_SILENT)

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
