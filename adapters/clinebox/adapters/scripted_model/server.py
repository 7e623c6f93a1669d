"""An OpenAI-compatible model server on a real TCP port that plays a script."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from returns.pipeline import is_successful

from clinebox.adapters.scripted_model.completion import Play
from clinebox.adapters.scripted_model.connection import ClientGoneError, Connection
from clinebox.adapters.scripted_model.http1 import BadRequestError, HttpRequest, read_request, response_head
from clinebox.adapters.scripted_model.listening import Door
from clinebox.adapters.scripted_model.log import RequestLog, Requests
from clinebox.adapters.scripted_model.performer import PLAIN_TURN, ConnectionCutError, Performer, framing_of
from clinebox.adapters.scripted_model.playbook import Playbook, Prompt
from clinebox.adapters.scripted_model.records import Ending
from clinebox.adapters.scripted_model.response import Response, error_response, json_response, plan
from clinebox.adapters.scripted_model.script import Script, Turn
from clinebox.domain.json_value import JsonValue, as_mapping, as_text, parse_json

REQUEST_LIMIT_BYTES: Final = 64 * 1024 * 1024
DEFAULT_MODEL: Final = "scripted-model"
TURNS_TO_ACCEPT: Final = 4
"""Turns of the loop in which asyncio finishes accepting a connection that came before the door was shut."""


class ScriptedModelServer:
    """Plays `script` to whoever asks; use it as `async with ScriptedModelServer(script) as server`.

    The first turn that is not used up and matches answers a `POST /v1/.../chat/completions`. After the
    last turn: status 400, which Cline does not retry, with a sentence that says so. A turn with
    `fault: refuse` shuts the port once all turns before it are used up and answered: for `for_s`, or
    until `accept_again()`. While it refuses, nothing can be counted: there is no request.

    `variables` replace `${name}` in what is sent. With `require_key`, other keys get 401 and use up
    no turn. `monotonic` times the records, `wall_clock` gives `created`. OSError when the port cannot
    be had.
    """

    def __init__(
        self,
        script: Script,
        *,
        variables: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        model: str = DEFAULT_MODEL,
        require_key: str | None = None,
        request_limit_bytes: int = REQUEST_LIMIT_BYTES,
        monotonic: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._playbook = Playbook(script.with_variables(variables or {}))
        self._address = (host, port)
        self._model = model
        self._require_key = require_key
        self._request_limit_bytes = request_limit_bytes
        self._wall_clock = wall_clock
        self._log = RequestLog(monotonic)
        self._released = asyncio.Event()
        self._door: Door | None = None
        self._following = asyncio.Lock()
        self._refusing: Turn | None = None
        self._timer: asyncio.Task[None] | None = None
        self._broken: list[Exception] = []
        self._tasks: dict[asyncio.Task[None], Connection] = {}
        self._answering = 0
        self._stopping = False

    async def __aenter__(self) -> Self:
        self._door = Door(*self._address, self._welcome)
        await self._follow_script()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    @property
    def port(self) -> int:
        """The TCP port; RuntimeError before the server was entered."""
        if self._door is None:
            raise RuntimeError("the scripted model has no port yet: enter it with `async with`")
        return self._door.port

    @property
    def base_url(self) -> str:
        """What a client takes as its base URL, ending in `/v1`; loopback where the host is a wildcard."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._address[0], self._address[0])  # noqa: S104 - read, not bound
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/v1"

    @property
    def requests(self) -> Requests:
        """All requests so far, in the order of arrival; also those that no turn answered."""
        return self._log.requests

    async def wait_until(self, holds: Callable[[Requests], bool], *, timeout_s: float) -> None:
        """Wait for a condition on the requests. TimeoutError when it does not come to hold in time."""
        await asyncio.wait_for(self._log.wait_until(holds), timeout_s)

    def release(self) -> None:
        """Let all calls that hang now go on with their answers."""
        self._released.set()
        self._released = asyncio.Event()

    async def accept_again(self) -> None:
        """End the `refuse` turn whose time has come, if there is one."""
        await self._stop_timer()
        self._playbook.end_refusal()
        await self._follow_script()

    # connections

    def _welcome(self, connection: Connection) -> None:
        if self._stopping:
            connection.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._tasks[task] = connection
        task.add_done_callback(self._served)

    async def _serve(self, connection: Connection) -> None:
        try:
            while await self._serve_one(connection):
                pass
            connection.close()
        except BadRequestError as bad:
            await self._refuse(connection, bad)
        except (ClientGoneError, ConnectionCutError):
            pass
        finally:
            if connection.gone.is_set():
                connection.abort()
            await connection.lost.wait()

    async def _serve_one(self, connection: Connection) -> bool:
        """Answer one request; whether another may follow."""
        request = await read_request(connection, body_limit_bytes=self._request_limit_bytes)
        if request is None:
            return False
        self._answering += 1
        try:
            return await self._answer(connection, request)
        finally:
            self._answering -= 1
            await self._follow_script()

    async def _answer(self, connection: Connection, request: HttpRequest) -> bool:
        parsed = parse_json(request.body)
        body = parsed.value_or(None)
        number = self._log.arrived(request, body)
        turn, response = self._response(request, body, number, is_json=is_successful(parsed))
        keeps_alive = request.keeps_alive and self._playbook.refusal is None
        if request.method == "HEAD":
            response = replace(response, pieces=())
        framing = framing_of(response, http11=request.version == "HTTP/1.1", keeps_alive=keeps_alive)
        performer = Performer(
            connection,
            turn,
            released=lambda: self._released,
            report=lambda progress: self._log.moved(number, progress),
        )
        ending = Ending.SERVER_STOPPED
        try:
            await performer.send(response, framing)
            ending = Ending.ANSWERED
        except ConnectionCutError:
            ending = Ending.CUT
            raise
        except ClientGoneError:
            ending = Ending.SERVER_STOPPED if self._stopping else Ending.CLIENT_CLOSED
            raise
        finally:
            self._log.ended(number, ending)
        return framing.keeps_alive

    async def _refuse(self, connection: Connection, bad: BadRequestError) -> None:
        response = error_response(bad.status, bad.message, "bad_request")
        try:
            framing = framing_of(response, http11=True, keeps_alive=False)
            await connection.send(response_head(response.status, response.headers, framing))
            await connection.send(b"".join(piece.data for piece in response.pieces))
            await connection.close_after_reading()
        except ClientGoneError:
            connection.abort()

    # answers

    def _response(
        self, request: HttpRequest, body: JsonValue, number: int, *, is_json: bool
    ) -> tuple[Turn, Response]:
        if self._require_key is not None and not self._has_key(request):
            return PLAIN_TURN, error_response(401, "wrong or missing API key", "invalid_api_key")
        route = (request.method, request.path)
        if route == ("GET", "/v1/models"):
            return PLAIN_TURN, json_response(self._models())
        if request.method != "POST" or not _is_chat(request.path):
            return PLAIN_TURN, error_response(
                404, f"no route for {request.method} {request.path}", "not_found"
            )
        if not is_json or not isinstance(body, dict):
            return PLAIN_TURN, error_response(400, "the request's body is no JSON object", "bad_request")
        return self._turn_response(request, body, number)

    def _turn_response(
        self, request: HttpRequest, body: dict[str, JsonValue], number: int
    ) -> tuple[Turn, Response]:
        taken = self._playbook.take(Prompt.of(body))
        if taken is None:
            sentence = f"the script has no turn for request {number}: all turns are used up or match others"
            return PLAIN_TURN, error_response(400, sentence, "script_ended")
        place, count, turn = taken
        self._log.played(number, place, count)
        options = as_mapping(body.get("stream_options"))
        model = as_text(body.get("model")) or self._model
        play = Play(turn, place, count, model, int(self._wall_clock()), options.get("include_usage") is True)
        return turn, plan(play, streamed=body.get("stream") is True, request_target=request.target)

    def _has_key(self, request: HttpRequest) -> bool:
        expected = f"Bearer {self._require_key}".encode()
        return hmac.compare_digest(request.header("authorization").encode("latin-1"), expected)

    def _models(self) -> JsonValue:
        model: JsonValue = {
            "id": self._model,
            "object": "model",
            "created": int(self._wall_clock()),
            "owned_by": "clinebox",
        }
        return {"object": "list", "data": [model]}

    # refusing and stopping

    async def _follow_script(self) -> None:
        """Shut or open the door, as the next turn says; calls that are being answered are let finish."""
        async with self._following:
            if self._door is None or self._stopping or self._answering:
                return
            due = self._playbook.refusal
            if due is None:
                await self._door.open()
            elif due is not self._refusing:
                self._door.shut()
                for connection in self._tasks.values():
                    connection.close()
                self._start_timer(due)
            self._refusing = due

    def _start_timer(self, turn: Turn) -> None:
        if turn.for_s is not None:
            self._timer = asyncio.get_running_loop().create_task(self._end_refusal_after(turn.for_s))

    async def _end_refusal_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._playbook.end_refusal()
        await self._follow_script()

    async def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)
            self._timer = None

    async def _stop(self) -> None:
        self._stopping = True
        await self._stop_timer()
        async with self._following:
            if self._door is not None:
                self._door.leave()
        for _ in range(TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
        for connection in self._tasks.values():
            connection.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._broken:
            raise ExceptionGroup("the scripted model itself failed", self._broken)

    def _served(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._broken.append(error)


def _is_chat(path: str) -> bool:
    """Also below a prefix such as `/v1/other/`, so that a redirect can lead somewhere."""
    return path.startswith("/v1/") and path.endswith("/chat/completions")
