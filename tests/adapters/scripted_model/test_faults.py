"""What a client sees of each fault, and what the server writes down."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest

from clinebox.adapters.scripted_model import (
    Ending,
    Fault,
    Script,
    ScriptedModelServer,
    Turn,
    running_scripted_model,
)

TEN = Turn(text="0123456789", chunk_size=1)
WAIT_S = 60.0


def faulty(fault: Fault, **keys: Any) -> Turn:
    """Ten chunks of one digit, with a fault."""
    return Turn.model_validate({"text": "0123456789", "chunk_size": 1, "fault": fault, **keys})


def all_ended(requests: Any) -> bool:
    return bool(requests) and all(request.ending is not None for request in requests)


def ending_of(server: Any) -> Any:
    server.wait_until(all_ended, timeout_s=WAIT_S)
    return server.requests[-1]


@pytest.mark.parametrize(
    ("fault", "ending", "has_headers", "chunks"),
    [
        (Fault.RESET_BEFORE_HEADERS, "rst", False, 0),
        (Fault.RESET_AFTER_HEADERS, "rst", True, 0),
        (Fault.RESET_MID_STREAM, "rst", True, 5),
        (Fault.CLOSE_BEFORE_HEADERS, "fin", False, 0),
        (Fault.CLOSE_AFTER_HEADERS, "fin", True, 0),
        (Fault.CLOSE_MID_STREAM, "fin", True, 5),
        (Fault.RESET_AT_END, "rst", True, 10),
        (Fault.CLOSE_AT_END, "fin", True, 10),
    ],
)
def test_a_cut_connection_ends_as_the_fault_says(
    raw: Any, *, fault: Fault, ending: str, has_headers: bool, chunks: int
) -> None:
    with running_scripted_model(Script(turns=(faulty(fault),))) as server:
        data, ended = raw.ask(server)
        record = ending_of(server)
    assert ended == ending
    assert data.startswith(b"HTTP/1.1 200 OK\r\n") == has_headers
    assert data.count(b'"content":"') == (chunks + 1 if chunks else 0)
    assert (b"[DONE]" in data) == fault.strikes_at_end
    assert not data.endswith(b"0\r\n\r\n")
    assert (record.ending, record.status, record.chunks_sent) == (
        Ending.CUT,
        200 if has_headers else None,
        chunks,
    )


@pytest.mark.parametrize("fault", [Fault.RESET_MID_STREAM, Fault.CLOSE_MID_STREAM])
def test_a_stream_cut_in_the_middle_is_an_error_for_an_http_client(client: Any, fault: Fault) -> None:
    with running_scripted_model(Script(turns=(faulty(fault), TEN))) as server:
        broken, whole = client.ask(server), client.ask(server)
    assert broken.error in ("ReadError", "RemoteProtocolError")
    assert broken.joined("content") == "01234"
    assert (whole.error, whole.joined("content")) == (None, "0123456789")


@pytest.mark.parametrize(
    ("after", "text"), [(0, ""), (1, "0"), (9, "012345678"), (10, "0123456789"), (99, "0123456789")]
)
def test_after_chunks_says_when_a_fault_strikes(client: Any, after: int, text: str) -> None:
    with running_scripted_model(
        Script(turns=(faulty(Fault.CLOSE_MID_STREAM, after_chunks=after),))
    ) as server:
        got = client.ask(server)
    assert (got.joined("content"), got.error) == (text, "RemoteProtocolError")
    assert got.finish_reasons == []
    assert (got.raw == b"") == (after == 0)


def test_a_cut_in_a_json_answer_strikes_in_the_middle_of_its_bytes(client: Any) -> None:
    with running_scripted_model(Script(turns=(faulty(Fault.CLOSE_MID_STREAM),))) as server:
        got = client.ask(server, stream=False)
    assert got.error == "RemoteProtocolError"
    assert 0 < len(got.raw) < int(got.headers["content-length"])


def test_a_cut_in_a_stream_framed_by_close_looks_like_an_end(client: Any) -> None:
    with running_scripted_model(Script(turns=(faulty(Fault.CLOSE_MID_STREAM, framing="close"),))) as server:
        got = client.ask(server)
    assert (got.error, got.joined("content"), got.finish_reasons) == (None, "01234", [])


@pytest.mark.parametrize(
    ("fault", "status", "chunks"),
    [
        (Fault.HANG_BEFORE_HEADERS, None, 0),
        (Fault.HANG_AFTER_HEADERS, 200, 0),
        (Fault.HANG_MID_STREAM, 200, 5),
        (Fault.HANG_AT_END, 200, 10),
    ],
)
def test_a_client_that_gives_up_a_hanging_call_is_recorded(
    raw: Any, fault: Fault, status: int | None, chunks: int
) -> None:
    with running_scripted_model(Script(turns=(faulty(fault),))) as server:
        with raw.connect(server) as connection:
            connection.sendall(raw.request())
            server.wait_until(lambda requests: bool(requests) and requests[0].hangs, timeout_s=WAIT_S)
        record = ending_of(server)
    assert (record.ending, record.status, record.chunks_sent) == (Ending.CLIENT_CLOSED, status, chunks)


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault.hangs])
def test_a_released_call_goes_on_with_its_answer(client: Any, fault: Fault) -> None:
    answers: list[Any] = []
    with running_scripted_model(Script(turns=(faulty(fault),))) as server:
        asking = threading.Thread(target=lambda: answers.append(client.ask(server)))
        asking.start()
        server.wait_until(lambda requests: bool(requests) and requests[0].hangs, timeout_s=WAIT_S)
        server.release()
        asking.join(WAIT_S)
        assert ending_of(server).ending is Ending.ANSWERED
    assert answers[0].joined("content") == "0123456789"
    assert answers[0].data[-1] == "[DONE]"


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault.hangs])
def test_a_hang_with_a_time_goes_on_by_itself(client: Any, fault: Fault) -> None:
    with running_scripted_model(Script(turns=(faulty(fault, for_s=0.2),))) as server:
        assert client.ask(server).joined("content") == "0123456789"
        record = ending_of(server)
    assert record.ended_s - record.arrived_s >= 0.2


def test_a_server_that_stops_frees_its_hanging_calls(raw: Any) -> None:
    with running_scripted_model(Script(turns=(Turn(fault=Fault.HANG_BEFORE_HEADERS),))) as server:
        connection = raw.connect(server)
        connection.sendall(raw.request())
        server.wait_until(lambda requests: len(requests) == 1, timeout_s=WAIT_S)
    with connection:
        assert raw.read_to_the_end(connection)[0] == b""
    assert server.requests[0].ending is Ending.SERVER_STOPPED


def test_html_with_status_200_is_sent_in_place_of_a_stream(client: Any) -> None:
    with running_scripted_model(
        Script(turns=(Turn(fault=Fault.HTML), Turn(fault=Fault.HTML, body="<p>")))
    ) as server:
        page, own = client.ask(server), client.ask(server)
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.raw.startswith(b"<!DOCTYPE html>")
    assert own.raw == b"<p>"


def test_json_is_sent_although_a_stream_was_asked_for(client: Any) -> None:
    with running_scripted_model(Script(turns=(Turn(text="x", fault=Fault.JSON),))) as server:
        got = client.ask(server)
    assert got.headers["content-type"] == "application/json"
    assert json.loads(got.raw)["choices"][0]["message"]["content"] == "x"


def test_an_empty_body_is_an_event_stream_without_an_event(client: Any) -> None:
    with running_scripted_model(Script(turns=(Turn(fault=Fault.EMPTY_BODY),))) as server:
        got = client.ask(server)
    assert (got.status, got.headers["content-type"], got.raw) == (
        200,
        "text/event-stream; charset=utf-8",
        b"",
    )


def test_a_redirect_leads_to_its_location_and_by_default_to_itself(client: Any) -> None:
    there = Turn(fault=Fault.REDIRECT, location="/v1/other/chat/completions")
    script = Script(turns=(there, Turn(text="there"), Turn(fault=Fault.REDIRECT, status=302, repeat=-1)))
    with running_scripted_model(script) as server:
        first = client.ask(server)
        assert (first.status, first.headers["location"]) == (307, "/v1/other/chat/completions")
        assert client.ask(server, path="/other/chat/completions").joined("content") == "there"
        loop = client.ask(server)
    assert (loop.status, loop.headers["location"]) == (302, "/v1/chat/completions")


@pytest.mark.parametrize(
    ("fault", "text"), [(Fault.MALFORMED_SSE, ""), (Fault.MALFORMED_SSE_MID_STREAM, "01234")]
)
def test_a_malformed_data_line_stands_in_a_stream_that_goes_on(client: Any, fault: Fault, text: str) -> None:
    with running_scripted_model(Script(turns=(faulty(fault),))) as server:
        got = client.ask(server)
    broken = next(place for place, payload in enumerate(got.data) if payload.endswith('"delta":'))
    before, after = got.data[:broken], got.data[broken + 1 :]
    assert "".join(json.loads(payload)["choices"][0]["delta"]["content"] for payload in before) == text
    assert (after[-1], len(after)) == ("[DONE]", 14 - len(before))


@pytest.mark.parametrize(("fault", "text"), [(Fault.SSE_ERROR, ""), (Fault.SSE_ERROR_MID_STREAM, "01234")])
def test_an_error_object_ends_a_stream_with_status_200(client: Any, fault: Fault, text: str) -> None:
    own = {"error": {"message": "overloaded", "code": 503}}
    with running_scripted_model(Script(turns=(faulty(fault), faulty(fault, body=own, done=False)))) as server:
        got, with_body = client.ask(server), client.ask(server)
    assert (got.status, got.error, got.joined("content"), got.finish_reasons) == (200, None, text, [])
    assert json.loads(got.data[-2])["error"]["message"] == "scripted error in the stream"
    assert got.data[-1] == "[DONE]"
    assert json.loads(with_body.data[-1]) == own


def test_an_error_status_has_its_body_and_headers(client: Any) -> None:
    turn = Turn(status=429, body={"error": {"message": "slow down"}}, headers={"Retry-After": "4"})
    with running_scripted_model(Script(turns=(turn,))) as server:
        got = client.ask(server)
    assert (got.status, got.headers["retry-after"], got.headers["content-type"]) == (
        429,
        "4",
        "application/json",
    )
    assert json.loads(got.raw) == {"error": {"message": "slow down"}}


@pytest.mark.parametrize("status", [400, 401, 404, 408, 413, 422, 429, 500, 503, 504, 529, 599])
def test_an_error_status_alone_gets_a_body_that_says_it_is_scripted(client: Any, status: int) -> None:
    with running_scripted_model(Script(turns=(Turn(status=status),))) as server:
        got = client.ask(server)
        assert ending_of(server).status == status
    assert got.status == status
    assert json.loads(got.raw)["error"]["message"] == f"scripted {status}"


@pytest.mark.parametrize(
    ("turn", "kind", "data"),
    [
        (Turn(body="data: {}\r\r"), "text/plain; charset=utf-8", b"data: {}\r\r"),
        (Turn(body="ö", headers={"Content-Type": "text/event-stream"}), "text/event-stream", "ö".encode()),
        (Turn(body=[1]), "application/json", b"[1]"),
        (Turn(body=None), "application/json", b""),
        (Turn(status=204), "application/json", b""),
    ],
)
def test_a_body_is_sent_as_it_stands(client: Any, turn: Turn, kind: str, data: bytes) -> None:
    with running_scripted_model(Script(turns=(turn, TEN))) as server:
        got = client.ask(server)
        assert client.ask(server).joined("content") == "0123456789"
    assert (got.headers["content-type"], got.raw) == (kind, data)


def test_a_slow_answer_takes_its_time_between_chunks(client: Any) -> None:
    with running_scripted_model(Script(turns=(Turn(text="abc", chunk_size=1, delay_s=0.1),))) as server:
        client.ask(server)
        record = ending_of(server)
    assert record.ended_s - record.arrived_s >= 0.2


@pytest.mark.parametrize("fault", [Fault.RESET_AT_END, Fault.CLOSE_AT_END])
def test_a_json_answer_cut_at_its_end_is_whole(client: Any, fault: Fault) -> None:
    with running_scripted_model(Script(turns=(faulty(fault, fault_delay_s=1.0),))) as server:
        got = client.ask(server, stream=False)
        assert ending_of(server).ending is Ending.CUT
    assert json.loads(got.raw)["choices"][0]["message"]["content"] == "0123456789"


def test_a_call_that_hangs_does_not_hold_up_others() -> None:
    async def play() -> list[str]:
        script = Script(turns=(Turn(text="late", fault=Fault.HANG_BEFORE_HEADERS), Turn(text="x", repeat=-1)))
        async with (
            ScriptedModelServer(script) as server,
            httpx.AsyncClient(timeout=WAIT_S, trust_env=False) as http,
        ):
            url = server.base_url + "/chat/completions"
            late = asyncio.ensure_future(http.post(url, json={}))
            await server.wait_until(lambda requests: len(requests) == 1, timeout_s=WAIT_S)
            others = await asyncio.gather(*(http.post(url, json={}) for _ in range(20)))
            server.release()
            return [reply.json()["choices"][0]["message"]["content"] for reply in [*others, await late]]

    assert asyncio.run(play()) == ["x"] * 20 + ["late"]
