"""Every fault of the scripted model once through the gateway: what is recorded, and what the client sees."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from clinebox.adapters.gateway import Bounds
from clinebox.adapters.scripted_model import Fault, Turn
from clinebox.domain.model_calls.faults import FaultKind, fault_of
from clinebox.domain.model_calls.record import CallEnd, CallPhase

SHORT = Bounds(idle_s=0.4)
CUT = "RemoteProtocolError"


@dataclass(frozen=True)
class Row:
    """One fault: the client's status, marker, error and text; the record's status, end, and fault."""

    fault: Fault
    client: tuple[int, str | None, str | None, str]
    http_status: int | None
    end: CallEnd
    kind: FaultKind | None
    keys: dict[str, Any] = field(default_factory=dict)


def gone(fault: Fault, marker: str, end: CallEnd, kind: FaultKind) -> Row:
    return Row(fault, (502, marker, None, ""), None, end, kind)


def cut(fault: Fault, text: str, end: CallEnd, kind: FaultKind | None) -> Row:
    return Row(fault, (200, None, CUT, text), 200, end, kind)


def whole(fault: Fault, text: str, kind: FaultKind | None, **keys: Any) -> Row:
    return Row(fault, (200, None, None, text), 200, CallEnd.FINISHED, kind, keys)


CLOSED, SILENT = CallEnd.UPSTREAM_CLOSED, CallEnd.TIMEOUT
ROWS = [
    gone(Fault.REFUSE, "upstream_refused", CallEnd.REFUSED, FaultKind.REFUSED),
    gone(Fault.RESET_BEFORE_HEADERS, "upstream_closed", CLOSED, FaultKind.CUT),
    gone(Fault.CLOSE_BEFORE_HEADERS, "upstream_closed", CLOSED, FaultKind.CUT),
    gone(Fault.HANG_BEFORE_HEADERS, "upstream_timeout", SILENT, FaultKind.TIMEOUT),
    cut(Fault.RESET_AFTER_HEADERS, "", CLOSED, FaultKind.CUT),
    cut(Fault.CLOSE_AFTER_HEADERS, "", CLOSED, FaultKind.CUT),
    cut(Fault.HANG_AFTER_HEADERS, "", SILENT, FaultKind.TIMEOUT),
    cut(Fault.RESET_MID_STREAM, "01234", CLOSED, FaultKind.CUT),
    cut(Fault.CLOSE_MID_STREAM, "01234", CLOSED, FaultKind.CUT),
    cut(Fault.HANG_MID_STREAM, "01234", SILENT, FaultKind.TIMEOUT),
    cut(Fault.RESET_AT_END, "0123456789", CLOSED, None),
    cut(Fault.CLOSE_AT_END, "0123456789", CLOSED, None),
    cut(Fault.HANG_AT_END, "0123456789", SILENT, None),
    whole(Fault.HTML, "", FaultKind.NOT_A_STREAM),
    whole(Fault.JSON, "", FaultKind.NOT_A_STREAM),
    whole(Fault.EMPTY_BODY, "", FaultKind.NOT_A_STREAM),
    whole(Fault.MALFORMED_SSE, "0123456789", None),
    whole(Fault.MALFORMED_SSE_MID_STREAM, "0123456789", None),
    whole(Fault.SSE_ERROR, "", FaultKind.ERROR_OBJECT),
    whole(Fault.SSE_ERROR_MID_STREAM, "01234", FaultKind.ERROR_OBJECT),
    Row(Fault.REDIRECT, (502, "upstream_redirect", None, ""), 307, CallEnd.REFUSED, FaultKind.REDIRECT),
]


def test_every_fault_has_its_row() -> None:
    assert {row.fault for row in ROWS} == set(Fault)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fault)
async def test_a_fault_is_recorded_as_what_it_was_and_looks_to_the_client_like_it(
    scripted: Any, row: Row
) -> None:
    turn = Turn.model_validate({"text": "0123456789", "chunk_size": 1, "fault": row.fault, **row.keys})
    async with scripted(turn, bounds=SHORT) as (_, stage):
        answer = await stage.ask()
        call = stage.call
    text = (
        answer.text if answer.status == 200 and not row.fault.startswith(("html", "json", "malf")) else None
    )
    assert (answer.status, answer.marker, answer.error) == row.client[:3]
    assert text is None or text == row.client[3]
    assert (call.http_status, call.end, call.phase) == (row.http_status, row.end, CallPhase.ENDED)
    assert (call.gateway_status, call.gateway_error is None) == (
        502 if answer.status == 502 else None,
        row.end is CallEnd.FINISHED,
    )
    assert getattr(fault_of(call), "kind", None) is row.kind
    assert stage.ended == [call]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 529, 599])
async def test_a_status_of_the_model_passes_with_its_body_and_without_a_marker(
    scripted: Any, status: int
) -> None:
    body = {"error": {"message": "said the model", "code": status}}
    turn = Turn.model_validate({"status": status, "body": body, "headers": {"retry-after": "7"}})
    async with scripted(turn) as (_, stage):
        answer = await stage.ask()
        call = stage.call
    assert (answer.status, answer.marker, answer.headers["retry-after"]) == (status, None, "7")
    assert b"said the model" in answer.raw
    assert (call.http_status, call.gateway_status, call.end) == (status, None, CallEnd.FINISHED)
    assert call.response.error is not None
    assert call.response.error.message == "said the model"


async def test_an_answer_has_its_facts_in_the_record(scripted: Any) -> None:
    turn = Turn.model_validate(
        {"text": "hello", "usage": {"prompt_tokens": 11, "completion_tokens": 7, "reasoning_tokens": 3}}
    )
    async with scripted(turn) as (_, stage):
        await stage.ask()
        call = stage.call
    assert (call.request.model, call.request.streamed, call.request.messages) == ("some-model", True, 1)
    assert (call.response.finish_reason, call.response.terminal_event) == ("stop", True)
    assert call.response.usage is not None
    assert (call.response.usage.prompt_tokens, call.response.usage.reasoning_tokens) == (11, 3)
    times = call.times
    moments = [
        times.received_at_s,
        times.upstream_connected_at_s,
        times.first_byte_at_s,
        times.last_byte_at_s,
        times.ended_at_s,
    ]
    assert all(moment is not None for moment in moments)
    assert moments == sorted(moment or 0.0 for moment in moments)


@pytest.mark.parametrize("fault", [Fault.CLOSE_MID_STREAM, Fault.RESET_MID_STREAM, Fault.HANG_MID_STREAM])
async def test_a_cut_stream_never_ends_with_a_last_chunk(scripted: Any, fault: Fault) -> None:
    turn = Turn.model_validate({"text": "0123456789", "chunk_size": 1, "fault": fault})
    async with scripted(turn, bounds=SHORT) as (_, stage):
        data = await stage.raw(stage.post())
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert data.count(b'"content":"') == 6
    assert not data.endswith(b"0\r\n\r\n")


async def test_a_cut_json_answer_ends_short_of_its_length(scripted: Any) -> None:
    turn = Turn.model_validate({"text": "0123456789", "fault": Fault.CLOSE_MID_STREAM})
    async with scripted(turn) as (_, stage):
        answer = await stage.ask(json={"model": "m", "messages": []})
        call = stage.call
    assert answer.error == CUT
    assert 0 < len(answer.raw) < int(answer.headers["content-length"])
    assert call.end is CallEnd.UPSTREAM_CLOSED


async def test_a_name_without_an_address_is_a_refusal(stage: Any) -> None:
    async with stage("http://no-such-host.invalid/v1") as on:
        answer = await on.ask()
        call = on.call
    assert (answer.status, answer.marker) == (502, "upstream_unresolved")
    assert (call.end, call.http_status) == (CallEnd.REFUSED, None)


async def test_a_server_without_tls_is_a_refusal_where_tls_is_asked_for(stage: Any) -> None:
    async def answer_in_clear(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"this is no TLS")
        writer.close()

    server = await asyncio.start_server(answer_in_clear, "127.0.0.1", 0)
    async with server, stage(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1") as on:
        answer = await on.ask()
        call = on.call
    assert (answer.status, answer.marker, call.end) == (502, "upstream_tls", CallEnd.REFUSED)


@pytest.mark.parametrize("status", ["600 Odd", "999 Odder"])
async def test_a_status_that_is_none_of_http_is_not_passed_on(
    stage: Any, byte_server: Any, status: str
) -> None:
    reply = f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode()
    async with byte_server(reply) as (_, url), stage(url) as on:
        answer = await on.ask()
        assert (answer.status, answer.marker) == (502, "upstream_bad_status")
        assert on.call.gateway_status == 502


async def test_bytes_that_are_no_http_are_an_upstream_that_broke(stage: Any, byte_server: Any) -> None:
    async with byte_server(b"\x00\xff not http\r\n\r\n") as (_, url), stage(url) as on:
        answer = await on.ask()
        assert (answer.status, answer.marker, on.call.end) == (
            502,
            "upstream_closed",
            CallEnd.UPSTREAM_CLOSED,
        )


async def test_after_an_error_the_next_call_on_the_same_connection_is_answered(scripted: Any) -> None:
    turns = [Turn.model_validate({"status": 500}), Turn(text="fine"), Turn(text="again")]
    async with scripted(*turns) as (_, stage):
        answers = [await stage.ask() for _ in range(3)]
        wrong = await stage.ask(base_url=f"{stage.address.url}/s/wrong/v1")
        connections = list(stage.http._transport._pool.connections)
    assert [answer.status for answer in answers] == [500, 200, 200]
    assert (answers[2].text, wrong.status) == ("again", 401)
    assert len(connections) == 1
