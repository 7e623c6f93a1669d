"""Where a call stands, and what ends it from outside: leaving clients, ending sessions, a stop."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from clinebox.adapters.gateway import Bounds, Gateway, Upstream, serve_gateway
from clinebox.adapters.scripted_model import Ending, Fault, Turn
from clinebox.domain.model_calls.faults import FaultKind, fault_of
from clinebox.domain.model_calls.phases import last_wait
from clinebox.domain.model_calls.record import CallEnd, CallPhase

PATIENCE_S = 60.0
TEN = {"text": "0123456789", "chunk_size": 1}


def hanging(fault: Fault) -> Turn:
    return Turn.model_validate({**TEN, "fault": fault})


class Clock:
    """A monotonic clock that a test sets forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead_s


async def connect(stage: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection with a request sent on it."""
    reader, writer = await asyncio.open_connection(stage.address.host, stage.address.port)
    writer.write(stage.post())
    return reader, writer


@pytest.mark.parametrize(
    ("fault", "phase", "later"),
    [
        (Fault.HANG_BEFORE_HEADERS, CallPhase.WAITING, CallPhase.WAITING),
        (Fault.HANG_AFTER_HEADERS, CallPhase.WAITING, CallPhase.WAITING),
        (Fault.HANG_MID_STREAM, CallPhase.STREAMING, CallPhase.IDLE),
    ],
)
async def test_the_record_says_where_a_call_stands_and_how_long_it_has_waited(
    scripted: Any, wait_until: Any, *, fault: Fault, phase: CallPhase, later: CallPhase
) -> None:
    clock = Clock()
    async with scripted(hanging(fault), monotonic=clock) as (model, stage):
        asking = asyncio.create_task(stage.ask())
        await model.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
        sent = 5 if fault is Fault.HANG_MID_STREAM else 0
        await wait_until(lambda: stage.call.response_bytes > 0 or not sent)
        assert (stage.call.phase, stage.call.end) == (phase, None)
        clock.ahead_s = 212.0
        call = stage.call
        assert call.phase is later
        assert 212.0 <= (last_wait(call).wait_s or 0.0) < 272.0
        assert getattr(fault_of(call), "kind", None) is FaultKind.PENDING
        model.release()
        answer = await asking
        assert answer.text == "0123456789"
        assert (stage.call.end, stage.call.phase) == (CallEnd.FINISHED, CallPhase.ENDED)


async def test_a_call_that_is_still_connecting_says_so(stage: Any, wait_until: Any) -> None:
    # A full backlog: the kernel answers no further SYN (tcp(7)), so the connection neither stands nor fails.
    sock = socket.create_server(("127.0.0.1", 0), backlog=0)
    fillers = [asyncio.create_task(asyncio.open_connection(*sock.getsockname())) for _ in range(4)]
    async with stage(f"http://127.0.0.1:{sock.getsockname()[1]}/v1", bounds=Bounds(connect_s=0.5)) as on:
        await asyncio.wait(fillers, timeout=0.2)
        asking = asyncio.create_task(on.ask())
        await wait_until(lambda: bool(on.session.records()))
        assert on.call.phase is CallPhase.CONNECTING
        answer = await asking
        assert (answer.status, answer.marker) == (502, "upstream_connect_timeout")
        assert (on.call.end, on.call.times.upstream_connected_at_s) == (CallEnd.TIMEOUT, None)
    for filler in fillers:
        filler.cancel()
    for opened in await asyncio.gather(*fillers, return_exceptions=True):
        if isinstance(opened, tuple):
            opened[1].close()
    sock.close()


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault.HANG_BEFORE_HEADERS, None),
        (Fault.HANG_AFTER_HEADERS, 200),
        (Fault.HANG_MID_STREAM, 200),
        (Fault.HANG_AT_END, 200),
    ],
)
async def test_a_client_that_leaves_is_recorded_and_its_upstream_call_cancelled(
    scripted: Any, wait_until: Any, *, fault: Fault, status: int | None
) -> None:
    async with scripted(hanging(fault)) as (model, stage):
        _, writer = await connect(stage)
        await model.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
        await wait_until(lambda: stage.call.http_status == status)
        writer.close()
        await model.wait_until(
            lambda requests: requests[0].ending is Ending.CLIENT_CLOSED, timeout_s=PATIENCE_S
        )
        await wait_until(lambda: stage.call.end is not None)
        assert (stage.call.end, stage.call.http_status) == (CallEnd.CLIENT_CLOSED, status)
        assert (stage.call.gateway_status, stage.ended) == (None, [stage.call])


async def test_a_client_that_gave_up_after_its_patience_is_a_timeout(scripted: Any, wait_until: Any) -> None:
    clock = Clock()
    async with scripted(hanging(Fault.HANG_BEFORE_HEADERS), monotonic=clock) as (model, stage):
        _, writer = await connect(stage)
        await model.wait_until(lambda requests: any(r.hangs for r in requests), timeout_s=PATIENCE_S)
        clock.ahead_s = 299.9
        writer.close()
        await wait_until(lambda: stage.call.end is not None)
        assert stage.call.end is CallEnd.TIMEOUT


async def test_a_client_that_leaves_in_mid_upload_is_recorded(
    stage: Any, byte_server: Any, ok: Any, wait_until: Any
) -> None:
    async with byte_server(ok()) as (upstream, url), stage(url) as on:
        _, writer = await asyncio.open_connection(on.address.host, on.address.port)
        path = f"/s/{on.session.token}/v1/chat/completions"
        writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf".encode())
        await wait_until(lambda: bool(on.session.records()) and on.call.request_bytes == 4)
        writer.close()
        await wait_until(lambda: on.call.end is not None)
        assert (on.call.end, upstream.seen) == (CallEnd.CLIENT_CLOSED, [])


@pytest.mark.parametrize(
    ("fault", "client"),
    [(Fault.HANG_BEFORE_HEADERS, (401, "session_ended")), (Fault.HANG_MID_STREAM, (200, None))],
)
async def test_a_session_that_ends_cuts_its_calls_and_no_others(
    scripted: Any, wait_until: Any, *, fault: Fault, client: tuple[int, str | None]
) -> None:
    async with scripted(hanging(fault), hanging(fault)) as (model, stage):
        other = stage.gateway.open_session()
        asking = asyncio.create_task(stage.ask())
        await model.wait_until(lambda requests: len(requests) == 1, timeout_s=PATIENCE_S)
        others = asyncio.create_task(stage.ask(base_url=other.base_url(stage.address.url)))
        await model.wait_until(lambda requests: sum(r.hangs for r in requests) == 2, timeout_s=PATIENCE_S)
        await wait_until(lambda: stage.call.http_status == (None if client[0] == 401 else 200))
        stage.session.close()
        answer = await asking
        assert (answer.status, answer.marker) == client
        assert (answer.error is not None) == (client[0] == 200)
        assert (stage.call.end, stage.call.gateway_status) == (
            CallEnd.CLIENT_CLOSED,
            401 if client[0] == 401 else None,
        )
        model.release()
        assert (await others).text == "0123456789"
        assert [call.end for call in other.records()] == [CallEnd.FINISHED]


async def test_a_gateway_that_stops_ends_everything_and_leaves_nothing(scripted: Any) -> None:
    async with scripted(*[hanging(Fault.HANG_MID_STREAM)] * 3) as (model, _):
        gateway = Gateway(Upstream(model.base_url, "sk-the-real-key-0123456789", trust_env=False))
        async with serve_gateway(gateway) as address:
            session = gateway.open_session()
            path = session.base_url("").encode() + b"/chat/completions"
            ends = []
            for _ in range(3):
                reader, writer = await asyncio.open_connection(address.host, address.port)
                writer.write(
                    b"POST " + path + b' HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{"stream":true}'
                )
                ends.append((reader, writer))
            await model.wait_until(lambda requests: sum(r.hangs for r in requests) == 3, timeout_s=PATIENCE_S)
        for reader, writer in ends:
            try:
                data = await reader.read()
            except ConnectionResetError:
                data = b""
            assert not data.endswith(b"0\r\n\r\n")
            writer.close()
        assert [call.end for call in session.records()] == [CallEnd.CLIENT_CLOSED] * 3
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(address.host, address.port)
