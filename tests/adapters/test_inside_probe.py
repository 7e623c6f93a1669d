"""What the preflight probe sees from inside a real sandbox, and that no key is left there."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from clinebox.adapters.inside_probe import probe_from_inside
from clinebox.adapters.sandboxes.local import ContainmentChoice, LocalSandboxProvider
from clinebox.adapters.scripted_model import Fault, Script, ScriptedModelServer, Turn, credential_digest
from clinebox.domain.ports import NetworkMode, Sandbox, SandboxSpec
from clinebox.domain.preflight import (
    Answered,
    CannotAsk,
    ConnectionRefused,
    Observation,
    ProbeBroke,
    Redirected,
    TimedOut,
    Unresolved,
)

KEY = 'sk-the"real\\key-0123456789'
BOUND_S = 30.0


@pytest.fixture(params=[pytest.param("bubblewrap", marks=pytest.mark.bubblewrap), "plain"])
def containment(request: pytest.FixtureRequest) -> ContainmentChoice:
    choice: ContainmentChoice = request.param
    return choice


@contextlib.asynccontextmanager
async def started(
    containment: ContainmentChoice,
    workdir: Path,
    env: Mapping[str, str] | None = None,
    network: NetworkMode = NetworkMode.FULL,
) -> AsyncIterator[Sandbox]:
    spec = SandboxSpec(workdir=str(workdir), env=env or {}, network=network)
    sandbox = (await LocalSandboxProvider(containment).start(spec, timeout_s=BOUND_S)).unwrap()
    try:
        yield sandbox
    finally:
        (await sandbox.stop(timeout_s=BOUND_S)).unwrap()


async def probed(
    sandbox: Sandbox, base_url: str, *, key: str | None = KEY, timeout_s: float = BOUND_S
) -> Observation:
    return await probe_from_inside(sandbox, base_url, model="some-model", key=key, timeout_s=timeout_s)


@pytest.mark.parametrize("status", [200, 401, 404, 429, 503])
def test_a_status_is_what_is_seen(status: int, tmp_path: Path) -> None:
    async def story() -> None:
        script = Script(turns=(Turn.model_validate({"status": status}),))
        async with ScriptedModelServer(script) as model, started("plain", tmp_path) as sandbox:
            assert await probed(sandbox, model.base_url) == Answered(status)

    asyncio.run(story())


def test_the_question_is_one_completion_of_one_token_with_the_key(
    containment: ContainmentChoice, tmp_path: Path
) -> None:
    async def story() -> None:
        script = Script(turns=(Turn(text="x"), Turn(text="x")))
        async with ScriptedModelServer(script) as model, started(containment, tmp_path) as sandbox:
            assert await probed(sandbox, model.base_url + "/") == Answered(200)
            (request,) = model.requests
            assert (request.method, request.path) == ("POST", "/v1/chat/completions")
            assert request.body == {
                "model": "some-model",
                "messages": [{"role": "user", "content": "ping"}],
                "max_tokens": 1,
            }
            assert request.header("authorization") == f"Bearer {credential_digest(KEY)}"
            assert await probed(sandbox, model.base_url, key=None) == Answered(200)
            assert model.requests[1].header("authorization") is None

    asyncio.run(story())


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_key_is_in_no_argument_variable_or_file_there(scheme: str, tmp_path: Path) -> None:
    """Looked at while the question waits for its answer, in every process that carries the sandbox's mark."""

    async def story() -> None:
        asked = asyncio.Event()

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            asked.set()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(hold, "127.0.0.1", 0)
        url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server, started("plain", tmp_path) as sandbox:
            waiting = asyncio.create_task(probed(sandbox, url))
            async with asyncio.timeout(BOUND_S):
                await asked.wait()
            mark = f"CLINEBOX_EXEC={sandbox.description.sandbox_id}.".encode()
            words = _of_processes(mark)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert any(b"bash" in text or b"curl" in text for text in words)
        assert [text for text in words if b"0123456789" in text] == []

    asyncio.run(story())
    assert list(tmp_path.iterdir()) == []


def _of_processes(mark: bytes) -> list[bytes]:
    """The arguments and variables of each process that has this mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (process / "environ").read_bytes()
            if mark in variables:
                found.append((process / "cmdline").read_bytes() + variables)
    return found


def test_a_redirect_is_seen_and_not_followed(tmp_path: Path) -> None:
    async def story() -> None:
        turn = Turn(fault=Fault.REDIRECT, location="http://elsewhere.invalid/v1")
        async with ScriptedModelServer(Script(turns=(turn,))) as model, started("plain", tmp_path) as sandbox:
            assert await probed(sandbox, model.base_url) == Redirected(307, "http://elsewhere.invalid/v1")

    asyncio.run(story())


def test_silence_is_a_timeout_and_a_head_is_enough(tmp_path: Path) -> None:
    async def story() -> None:
        turns = (Turn(fault=Fault.HANG_BEFORE_HEADERS), Turn(text="x", fault=Fault.HANG_AFTER_HEADERS))
        async with ScriptedModelServer(Script(turns=turns)) as model, started("plain", tmp_path) as sandbox:
            assert await probed(sandbox, model.base_url, timeout_s=1) == TimedOut(1)
            assert await probed(sandbox, model.base_url) == Answered(200)

    asyncio.run(story())


def test_a_port_without_a_listener_refuses(containment: ContainmentChoice, tmp_path: Path) -> None:
    async def story() -> None:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            async with started(containment, tmp_path) as sandbox:
                url = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
                assert await probed(sandbox, url) == ConnectionRefused()

    asyncio.run(story())


@pytest.mark.bubblewrap
def test_a_sandbox_without_a_network_is_told_as_such(tmp_path: Path) -> None:
    async def story() -> None:
        async with started("bubblewrap", tmp_path, network=NetworkMode.NONE) as sandbox:
            seen = await probed(sandbox, "http://127.0.0.1:9/v1")
            assert isinstance(seen, ConnectionRefused | ProbeBroke)

    asyncio.run(story())


def test_https_without_curl_is_said_and_nothing_is_sent(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "bash").symlink_to(str(shutil.which("bash")))

    async def story() -> None:
        async with started("plain", tmp_path, env={"PATH": str(programs)}) as sandbox:
            seen = await probed(sandbox, "https://127.0.0.1:9/v1")
            assert seen == CannotAsk("an https address is asked by curl, and the sandbox has none")

    asyncio.run(story())


def test_https_is_asked_by_curl_and_a_certificate_that_nobody_trusts_is_told(tmp_path: Path) -> None:
    certificate = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    heard = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            heard.extend(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        trust = {"CURL_CA_BUNDLE": str(certificate)}
        async with server:
            async with started("plain", tmp_path, env=trust) as sandbox:
                assert await probed(sandbox, url) == Answered(401)
            assert f"authorization: bearer {KEY}".lower().encode() in bytes(heard).lower()
            async with started("plain", tmp_path) as sandbox:
                assert await probed(sandbox, url) == ProbeBroke(
                    "a certificate that is not trusted there (exit code 60 of curl)"
                )

    asyncio.run(story())


def _certificate(place: Path) -> Path:
    both = place / "both.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(place / "k"), "-out", str(place / "c")]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    both.write_bytes((place / "k").read_bytes() + (place / "c").read_bytes())
    return both


def test_a_sandbox_that_is_gone_cannot_be_asked_from(tmp_path: Path) -> None:
    async def story() -> Observation:
        async with started("plain", tmp_path) as sandbox:
            await sandbox.stop(timeout_s=BOUND_S)
            return await probed(sandbox, "http://127.0.0.1:9/v1")

    seen = asyncio.run(story())
    assert isinstance(seen, CannotAsk)
    assert seen.reason.startswith("the sandbox failed: ")


@pytest.mark.parametrize("base_url", ["", "ftp://h/v1", "http://user:sk-pass-0123456789@h/v1"])
def test_an_address_that_is_none_is_unresolved_and_shows_no_credential(base_url: str, tmp_path: Path) -> None:
    async def story() -> Observation:
        async with started("plain", tmp_path) as sandbox:
            return await probed(sandbox, base_url)

    seen = asyncio.run(story())
    assert isinstance(seen, Unresolved)
    assert "sk-pass" not in seen.reason
