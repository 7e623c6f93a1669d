"""Whether the gateway is reached from inside a real sandbox, and that nothing else is taken for it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path

import pytest
from returns.result import Result

from clinebox.adapters.gateway import Gateway, Upstream, serve_gateway
from clinebox.adapters.gateway.app import HEALTHY
from clinebox.adapters.gateway_reachability import (
    GatewayUnreachable,
    NotTried,
    Reachability,
    Reached,
    reachable_from_inside,
)
from clinebox.adapters.sandboxes.local import ContainmentChoice, LocalSandboxProvider
from clinebox.domain.ports import Command, NetworkMode, Sandbox, SandboxFailure, SandboxSpec, SandboxTrouble

BOUND_S = 30.0
Answer = Result[Reachability, GatewayUnreachable | SandboxFailure]
OURS = b"HTTP/1.1 200 OK\r\nx-clinebox-gateway: health\r\n\r\n" + HEALTHY


@pytest.fixture(params=[pytest.param("bubblewrap", marks=pytest.mark.bubblewrap), "plain"])
def containment(request: pytest.FixtureRequest) -> ContainmentChoice:
    choice: ContainmentChoice = request.param
    return choice


@contextlib.asynccontextmanager
async def started(
    containment: ContainmentChoice,
    workdir: Path,
    network: NetworkMode = NetworkMode.FULL,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Sandbox]:
    spec = SandboxSpec(workdir=str(workdir), network=network, env=env or {})
    sandbox = (await LocalSandboxProvider(containment).start(spec, timeout_s=BOUND_S)).unwrap()
    try:
        yield sandbox
    finally:
        (await sandbox.stop(timeout_s=BOUND_S)).unwrap()


@contextlib.asynccontextmanager
async def listening(
    answer: bytes | None, *, host: str = "127.0.0.1", heard: bytearray | None = None, close: bool = True
) -> AsyncIterator[str]:
    """A server that answers every connection with these bytes; its address. None: it never says a word."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            asked = await reader.readuntil(b"\r\n\r\n")
            if heard is not None:
                heard.extend(asked)
            writer.write(answer or b"")
            if answer is None or not close:
                await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, host, 0)
    async with server:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.sockets[0].getsockname()[1]}"


def asked_for(
    url: str, containment: ContainmentChoice, workdir: Path, *, network: NetworkMode = NetworkMode.FULL
) -> Awaitable[Answer]:
    async def ask() -> Answer:
        async with started(containment, workdir, network) as sandbox:
            return await reachable_from_inside(sandbox, url, timeout_s=BOUND_S)

    return ask()


def unreachable(answer: Answer) -> GatewayUnreachable:
    failure = answer.failure()
    assert isinstance(failure, GatewayUnreachable), failure
    return failure


def test_the_gateway_itself_is_reached(containment: ContainmentChoice, tmp_path: Path) -> None:
    async def story() -> None:
        gateway = Gateway(Upstream("http://127.0.0.1:9/v1", trust_env=False))
        async with serve_gateway(gateway) as address:
            for url in (address.url, address.url + "/"):
                assert (await asked_for(url, containment, tmp_path)).unwrap() == Reached()

    asyncio.run(story())


def test_it_is_reached_by_a_name_by_ipv6_and_behind_a_path(tmp_path: Path) -> None:
    async def story() -> None:
        heard = bytearray()
        async with listening(OURS, heard=heard) as url, listening(OURS, host="::1") as ipv6:
            named = url.replace("127.0.0.1", "localhost")
            assert (await asked_for(named + "/behind/nginx/", "plain", tmp_path)).unwrap() == Reached()
            assert heard.startswith(b"GET /behind/nginx/health HTTP/1.1\r\nHost: localhost:")
            assert (await asked_for(ipv6, "plain", tmp_path)).unwrap() == Reached()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (b"", "no answer came"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "speaks no HTTP and sent 'SSH-2.0-OpenSSH_9.2'"),
        (b"HTTP/1.1 404 Not Found\r\nserver: x\r\n\r\nnone", "the answer was 'HTTP/1.1 404 Not Found'"),
        (b"HTTP/1.1 503 \r\nx-clinebox-gateway: health\r\n\r\n" + HEALTHY, "the answer was 'HTTP/1.1 503'"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + HEALTHY, "another server than the gateway"),
        (b"HTTP/1.1 200 OK\r\nx-clinebox-gateway: wrong_token\r\n\r\n" + HEALTHY, "another server"),
        (b"HTTP/1.1 200 OK\r\nx-clinebox-gateway: health\r\n\r\n<html>", "another server than the gateway"),
        (b"HTTP/1.1 200 OK\r\n\r\nx-clinebox-gateway: health\r\n" + HEALTHY, "another server"),
        (b"HTTP/1.1 2000 OK\r\nx-clinebox-gateway: health\r\n\r\n" + HEALTHY, "speaks no HTTP"),
        (b"\x1b[2J\x00\xff\xfe", "speaks no HTTP"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 9000 + b"\r\n" + OURS, "another server"),
    ],
)
def test_nothing_else_on_that_port_is_taken_for_the_gateway(answer: bytes, seen: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with listening(answer) as url:
            told = unreachable(await asked_for(url, "plain", tmp_path))
            assert seen in told.seen
            assert str(told).isprintable()

    asyncio.run(story())


def test_what_a_server_said_before_it_fell_silent_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            started("plain", tmp_path) as sandbox,
            listening(b"220 mail ready\r\n", close=False) as url,
        ):
            told = unreachable(await reachable_from_inside(sandbox, url, timeout_s=3))
            assert "'220 mail ready'" in told.seen

    asyncio.run(story())


def test_silence_ends_with_the_time(containment: ContainmentChoice, tmp_path: Path) -> None:
    async def story() -> None:
        async with started(containment, tmp_path) as sandbox, listening(None) as url:
            told = unreachable(await reachable_from_inside(sandbox, url, timeout_s=1))
            assert told.seen == "the port took the connection, and no answer came"

    asyncio.run(story())


def test_a_port_without_a_listener_is_told_from_where(containment: ContainmentChoice, tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        told = unreachable(asyncio.run(_awaited(asked_for(url, containment, tmp_path))))
    assert str(told) == (
        f"The gateway cannot be reached at {url} from inside the local sandbox ({containment}): no "
        "connection came about (Connection refused). Its public address must be one by which that sandbox "
        "reaches this host."
    )


@pytest.mark.bubblewrap
def test_a_sandbox_without_a_network_does_not_reach_a_gateway_that_is_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with listening(OURS) as url:
            answer = await asked_for(url, "bubblewrap", tmp_path, network=NetworkMode.NONE)
            assert "no connection came about" in unreachable(answer).seen

    asyncio.run(story())


def test_a_name_without_an_address_is_told_with_the_reason(tmp_path: Path) -> None:
    told = unreachable(asyncio.run(_awaited(asked_for("http://no-such-host.invalid:1", "plain", tmp_path))))
    assert told.seen.startswith("no connection came about (")
    assert "no-such-host.invalid" in str(told)


def test_of_an_https_address_only_a_dead_port_is_proved(tmp_path: Path) -> None:
    async def story() -> None:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            dead = f"https://127.0.0.1:{held.getsockname()[1]}"
            assert "refused" in unreachable(await asked_for(dead, "plain", tmp_path)).seen
        async with listening(OURS) as url:
            answer = (await asked_for(url.replace("http:", "https:"), "plain", tmp_path)).unwrap()
            assert isinstance(answer, NotTried)
            assert "TLS" in answer.reason

    asyncio.run(story())


@pytest.mark.parametrize(
    "url", ["", "host:8000", "ftp://host/", "http://", "http://user:sk-pass-0123456789@host", "http://h:0"]
)
def test_what_is_no_address_is_said_and_no_credential_is_shown(url: str, tmp_path: Path) -> None:
    told = unreachable(asyncio.run(_awaited(asked_for(url, "plain", tmp_path))))
    assert told.seen == "this is no http address of a host"
    assert "sk-pass" not in str(told)


@pytest.mark.parametrize("host", ["$(touch HIT)", "`touch HIT`", "a;touch${IFS}HIT", "h'\"x"])
def test_no_word_of_an_address_is_run(host: str, tmp_path: Path) -> None:
    asyncio.run(_awaited(asked_for(f"http://{host}:1/$(touch HIT)", "plain", tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_a_sandbox_that_is_gone_is_a_failure_of_the_sandbox(tmp_path: Path) -> None:
    async def story() -> Answer:
        async with started("plain", tmp_path) as sandbox:
            await sandbox.stop(timeout_s=BOUND_S)
            return await reachable_from_inside(sandbox, "http://127.0.0.1:1", timeout_s=BOUND_S)

    failure = asyncio.run(story()).failure()
    assert isinstance(failure, SandboxFailure)
    assert failure.trouble is SandboxTrouble.LOST


async def _awaited(answer: Awaitable[Answer]) -> Answer:
    return await answer


def test_the_question_needs_no_other_program_than_bash(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bash").symlink_to(str(shutil.which("bash")))

    async def story() -> None:
        env = {"PATH": str(tmp_path / "bin")}
        async with started("plain", tmp_path, env=env) as sandbox, listening(OURS) as url:
            trial = (await sandbox.exec(Command(("bash", "-c", "cat")), timeout_s=BOUND_S)).unwrap()
            assert trial.exit_code == 127
            assert (await reachable_from_inside(sandbox, url, timeout_s=BOUND_S)).unwrap() == Reached()

    asyncio.run(story())


def test_a_sandbox_whose_bash_cannot_be_started_proves_nothing(tmp_path: Path) -> None:
    async def story() -> Answer:
        async with started("plain", tmp_path, env={"PATH": str(tmp_path)}) as sandbox:
            return await reachable_from_inside(sandbox, "http://127.0.0.1:1", timeout_s=BOUND_S)

    told = asyncio.run(story()).unwrap()
    assert isinstance(told, NotTried)
    assert "exit code 127" in told.reason
