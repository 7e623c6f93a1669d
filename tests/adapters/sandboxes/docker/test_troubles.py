"""What is said, and what is left, when the engine is not there, says no, loses an answer, or says nothing."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clinebox.adapters.sandboxes.docker.provider import SOCKETS
from clinebox.domain.ports import ReapRule, SandboxFailure, SandboxTrouble

sys.path.insert(0, str(Path(__file__).parent))
from stand_ins import LosingAnswers, answering, listening, never_answers

if TYPE_CHECKING:
    from conftest import Bench

BOUND_S = 60.0
ASK = """
import asyncio, os, sys
from pathlib import Path
from clinebox.adapters.sandboxes.docker.provider import DockerSandboxProvider
from clinebox.adapters.sandboxes.docker.provider import SOCKETS
from clinebox.domain.ports import ReapRule
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
provider = DockerSandboxProvider(address=sys.argv[1], private_base=Path("/tmp"))
print(asyncio.run(provider.reap(ReapRule(), timeout_s=30)).failure().message)
provider.close()
"""


def _start(bench: Bench, address: str, timeout_s: float = BOUND_S) -> SandboxFailure:
    async def story() -> SandboxFailure:
        provider = bench.provider(address=address)
        return (await provider.start(bench.spec(), timeout_s=timeout_s)).failure()

    return asyncio.run(story())


def test_no_socket_says_what_to_install_or_set(bench: Bench) -> None:
    failed = _start(bench, "unix:///nowhere/docker.sock")
    assert failed.trouble is SandboxTrouble.UNAVAILABLE
    assert f"No {bench.engine} engine answers at unix:///nowhere/docker.sock" in failed.message
    assert SOCKETS[bench.engine][0] in failed.message


def test_a_socket_that_nobody_listens_on_says_the_same(bench: Bench) -> None:
    path = bench.path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    failed = _start(bench, f"unix://{path}")
    assert f"No {bench.engine} engine answers at" in failed.message


def test_an_address_that_cannot_be_used_is_refused(bench: Bench) -> None:
    failed = _start(bench, "ssh://host")
    assert failed.trouble is SandboxTrouble.BAD_REQUEST
    assert "'ssh://host' is neither unix://PATH nor tcp://HOST:PORT" in failed.message


def test_a_user_without_the_permission_is_told_about_the_group(bench: Bench) -> None:
    """A real process of another user (root becomes nobody), or of this one before a closed socket."""
    with listening(bench.path / "s", never_answers) as address:
        Path(address.removeprefix("unix://")).chmod(0)
        command = [sys.executable, "-c", ASK, address]
        asked = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert "may not be used by this user (permission denied)" in asked.stdout, asked.stderr
    assert "group" in asked.stdout


@pytest.mark.parametrize(
    ("status", "words", "trouble", "said"),
    [
        (
            "400 Bad Request",
            "client version 1.41 is too new. Maximum supported API version is 1.30",
            SandboxTrouble.UNAVAILABLE,
            "speaks API 1.30; clinebox needs 1.41 (Docker 20.10) or newer",
        ),
        (
            "400 Bad Request",
            "client version 1.41 is too old. Minimum supported API version is 1.52, please upgrade",
            SandboxTrouble.UNAVAILABLE,
            "no longer speaks API 1.41, only 1.52",
        ),
        (
            "500 Internal Server Error",
            "mkdir /var/lib/docker/overlay2/x: no space left on device",
            SandboxTrouble.DISK_FULL,
            "disk is full",
        ),
        (
            "500 Internal Server Error",
            "something else",
            SandboxTrouble.UNAVAILABLE,
            "the {engine} engine refused it: something else",
        ),
        (
            "404 Not Found",
            "No such image: clinebox-test:base",
            SandboxTrouble.UNAVAILABLE,
            "has no image clinebox-test:base. Fetch it first: {tool} pull clinebox-test:base",
        ),
    ],
)
def test_each_refusal_is_a_sentence_of_its_own(
    bench: Bench, status: str, words: str, trouble: SandboxTrouble, said: str
) -> None:
    with listening(bench.path / "s", answering(status, json.dumps({"message": words}))) as address:
        failed = _start(bench, address)
    assert failed.trouble is trouble
    assert said.format(engine=bench.engine, tool=bench.engine.lower()) in failed.message


def test_an_engine_that_never_answers_costs_the_deadline_and_no_thread_for_ever(bench: Bench) -> None:
    """More calls than there are threads, each given up in time; then their threads are free again."""

    async def story(address: str) -> None:
        provider = bench.provider(address=address)
        began = time.monotonic()
        calls = (provider.reap(ReapRule(), timeout_s=1.0) for _ in range(80))
        found = await asyncio.gather(*calls)
        assert {result.failure().trouble for result in found} == {SandboxTrouble.TIMED_OUT}
        assert time.monotonic() - began < BOUND_S / 2
        later = await provider.reap(ReapRule(), timeout_s=1.0)
        assert "did not answer" in later.failure().message

    with listening(bench.path / "s", never_answers) as address:
        asyncio.run(story(address))


def test_a_start_with_an_engine_that_never_answers_ends_and_leaves_nothing(bench: Bench) -> None:
    with listening(bench.path / "s", never_answers) as address:
        failed = _start(bench, address, timeout_s=1.0)
    assert failed.trouble is SandboxTrouble.TIMED_OUT


@pytest.mark.parametrize("request_line", [b"POST /v1.41/containers/create", b"POST /v1.41/containers/"])
def test_a_create_or_start_whose_answer_was_lost_is_adopted_not_doubled(
    bench: Bench, run: Any, request_line: bytes
) -> None:
    losing = LosingAnswers(bench.address, request_line, times=2)

    async def story(address: str) -> None:
        provider = bench.provider(address=address)
        sandbox = (await provider.start(bench.spec(), timeout_s=BOUND_S)).unwrap()
        try:
            assert losing.lost >= 1
            assert len(bench.containers()) == 1
            assert (await run(sandbox, "echo works")).stdout == b"works\n"
        finally:
            await sandbox.stop(timeout_s=BOUND_S)

    with listening(bench.path / "s", losing.serve) as address:
        asyncio.run(story(address))


def test_a_start_whose_every_answer_is_lost_fails_and_leaves_nothing(bench: Bench) -> None:
    losing = LosingAnswers(bench.address, b"POST /v1.41/containers/", times=100)
    with listening(bench.path / "s", losing.serve) as address:
        failed = _start(bench, address)
    assert failed.trouble is SandboxTrouble.UNAVAILABLE
    assert bench.containers() == []


def test_an_image_without_bash_says_so(bench: Bench) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("empty"))
    image = f"clinebox-test-empty:{bench.label}"
    name, tag = image.split(":")
    with bench.client() as api:
        made = json.loads(api.import_image_from_data(content.getvalue()).splitlines()[-1])["status"]
        api.tag(made, name, tag)
        try:
            failed = asyncio.run(bench.provider().start(bench.spec(image=image), timeout_s=BOUND_S)).failure()
        finally:
            api.remove_image(made, force=True)
    assert failed.trouble is SandboxTrouble.UNAVAILABLE
    assert f"The image {image} has no bash" in failed.message
