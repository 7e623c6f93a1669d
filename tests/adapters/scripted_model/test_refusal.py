"""Ports: refused while the script says so, held meanwhile, and chosen."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import pytest

from clinebox.adapters.scripted_model import Ending, Fault, Script, Turn, running_scripted_model

TEN = Turn(text="0123456789", chunk_size=1)
WAIT_S = 60.0


def test_a_script_that_begins_with_a_refusal_refuses_for_good(client: Any) -> None:
    with running_scripted_model(Script(turns=(Turn(fault=Fault.REFUSE), TEN))) as server:
        for _ in range(3):
            with pytest.raises(httpx.ConnectError):
                client.ask(server)
    assert server.requests == ()


def test_connections_are_refused_once_the_turns_before_are_answered_and_until_accepted_again(
    client: Any,
) -> None:
    script = Script(turns=(TEN, Turn(fault=Fault.REFUSE), Turn(text="back")))
    with running_scripted_model(script) as server:
        assert client.ask(server).joined("content") == "0123456789"
        server.wait_until(lambda requests: requests[-1].ending is Ending.ANSWERED, timeout_s=WAIT_S)
        with pytest.raises(httpx.ConnectError):
            ask_until_refused(client, server)
        server.accept_again()
        assert client.ask(server).joined("content") == "back"
    assert len(server.requests) == 2


def ask_until_refused(client: Any, server: Any) -> None:
    """The client may still hold the old connection for a moment."""
    try:
        client.ask(server)
    except httpx.RemoteProtocolError:
        client.ask(server)


def test_the_answer_before_a_refusal_closes_the_connection(client: Any) -> None:
    with running_scripted_model(Script(turns=(TEN, TEN, Turn(fault=Fault.REFUSE)))) as server:
        assert client.ask(server).headers["connection"] == "keep-alive"
        last = client.ask(server)
    assert (last.headers["connection"], last.joined("content")) == ("close", "0123456789")


def test_a_refusal_with_a_time_ends_by_itself(client: Any) -> None:
    script = Script(turns=(Turn(fault=Fault.REFUSE, for_s=0.3), Turn(text="back")))
    with running_scripted_model(script) as server:
        refusals, answer = ask_until_answered(client, server)
    assert refusals > 0
    assert answer.joined("content") == "back"


def ask_until_answered(client: Any, server: Any) -> tuple[int, Any]:
    refusals = 0
    while True:
        try:
            return refusals, client.ask(server)
        except httpx.ConnectError:
            refusals += 1


def test_two_refusals_in_a_row_are_ended_one_by_one(client: Any) -> None:
    script = Script(turns=(Turn(fault=Fault.REFUSE), Turn(fault=Fault.REFUSE, for_s=3600), Turn(text="back")))
    with running_scripted_model(script) as server:
        for _ in range(2):
            with pytest.raises(httpx.ConnectError):
                client.ask(server)
            server.accept_again()
        assert client.ask(server).joined("content") == "back"


def test_a_refused_port_is_not_lost_to_another_process() -> None:
    with (
        running_scripted_model(Script(turns=(Turn(fault=Fault.REFUSE),))) as server,
        socket.socket() as other,
        pytest.raises(OSError, match="in use"),
    ):
        other.bind(("127.0.0.1", server.port))


def test_a_port_that_somebody_listens_on_is_an_error() -> None:
    script = Script(turns=(TEN,))
    with (
        running_scripted_model(script) as server,
        pytest.raises(OSError, match="in use"),
        running_scripted_model(script, port=server.port),
    ):
        pytest.fail("two servers on one port")


def test_a_port_can_be_chosen(client: Any) -> None:
    with running_scripted_model(Script(turns=(TEN,))) as server:
        port = server.port
    with running_scripted_model(Script(turns=(TEN,)), port=port) as again:
        assert again.port == port
        assert client.ask(again).joined("content") == "0123456789"
