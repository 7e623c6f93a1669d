"""A local sandbox and other processes: joined, ended and reaped from there; its time kept without help."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeAlias

import pytest
from returns.pipeline import is_successful

from clinebox.adapters.sandboxes.local import ContainmentChoice, LocalSandboxProvider
from clinebox.adapters.sandboxes.process_table import find_tree
from clinebox.adapters.sandboxes.record import SandboxRecord, read_record
from clinebox.domain.ports import (
    Command,
    HostPort,
    NetworkMode,
    ReapRule,
    SandboxDescriptor,
    SandboxSpec,
    SandboxState,
    SandboxTrouble,
)

BOUND_S = 30.0
Until: TypeAlias = Callable[[Callable[[], object], str], Coroutine[None, None, None]]
JOINER = """
import asyncio, json, sys
from clinebox.adapters.sandboxes.local import LocalSandboxProvider
from clinebox.domain.ports import Command, SandboxDescriptor

async def main():
    provider = LocalSandboxProvider("plain")
    sandbox = (await provider.connect(SandboxDescriptor(**json.loads(sys.argv[1])), timeout_s=30)).unwrap()
    done = (await sandbox.exec(Command(("sh", "-c", "cat ~/f; echo $MARK")), timeout_s=30)).unwrap()
    stopped = await sandbox.stop(timeout_s=30)
    print(json.dumps([done.stdout.decode(), str(stopped), sandbox.description.containment]))

asyncio.run(main())
"""
HUNG = """
import asyncio, os, signal, sys
from clinebox.adapters.sandboxes.local import LocalSandboxProvider
from clinebox.domain.ports import Command, SandboxSpec

async def main():
    spec = SandboxSpec(sys.argv[2], ttl_s=2.0)
    sandbox = (await LocalSandboxProvider(sys.argv[1]).start(spec, timeout_s=30)).unwrap()
    script = "setsid sleep 1000 >/dev/null 2>&1 & sleep 1000 >/dev/null 2>&1 & echo"
    await sandbox.exec(Command(("sh", "-c", script)), timeout_s=30)
    print(sandbox.description.sandbox_id, flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)

asyncio.run(main())
"""


def plain_json(descriptor: SandboxDescriptor) -> str:
    return json.dumps({"provider": descriptor.provider, "fields": dict(descriptor.fields)})


def test_another_process_finds_it_works_in_it_and_ends_it(
    containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> tuple[object, SandboxState]:
        provider = LocalSandboxProvider(containment)
        spec = SandboxSpec(str(workdir), env={"MARK": "seen"})
        sandbox = (await provider.start(spec, timeout_s=BOUND_S)).unwrap()
        await sandbox.exec(Command(("sh", "-c", "echo shared >~/f; sleep 1000 &")), timeout_s=BOUND_S)
        descriptor = provider.serialize(sandbox).unwrap()
        program = (sys.executable, "-c", JOINER, plain_json(descriptor))
        done = await asyncio.to_thread(
            subprocess.run, program, capture_output=True, check=True, timeout=BOUND_S
        )
        status = (await sandbox.status(timeout_s=BOUND_S)).unwrap()
        assert is_successful(await sandbox.stop(timeout_s=BOUND_S))
        return json.loads(done.stdout), status.state

    said, state = asyncio.run(scenario())
    assert said == ["shared\nseen\n", "<Success: None>", containment]
    assert state is SandboxState.GONE


def test_its_time_ends_it_though_its_controller_hangs(
    containment: ContainmentChoice, workdir: Path, until: Until
) -> None:
    program = (sys.executable, "-c", HUNG, containment, str(workdir))
    with subprocess.Popen(program, stdout=subprocess.PIPE) as controller:
        try:
            assert controller.stdout is not None
            marker = f"CLINEBOX_EXEC={controller.stdout.readline().decode().strip()}.".encode()
            assert find_tree(markers=(marker,)) != []
            asyncio.run(until(lambda: find_tree(markers=(marker,)) == [], "nothing of it lives"))
            assert b"T" in Path(f"/proc/{controller.pid}/stat").read_bytes().split(b") ")[1][:1]
        finally:
            controller.kill()
            os.kill(controller.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("fields", "trouble"),
    [
        ({}, SandboxTrouble.BAD_REQUEST),
        ({"root": "/tmp/cbx-000000000000"}, SandboxTrouble.NOT_FOUND),
        ({"root": "relative"}, SandboxTrouble.NOT_FOUND),
        ({"root": "/etc"}, SandboxTrouble.NOT_FOUND),
        ({"root": "/tmp/\0"}, SandboxTrouble.NOT_FOUND),
    ],
)
def test_a_descriptor_of_nothing_finds_nothing(fields: dict[str, str], trouble: SandboxTrouble) -> None:
    descriptor = SandboxDescriptor("local", fields)
    connected = asyncio.run(LocalSandboxProvider("plain").connect(descriptor, timeout_s=BOUND_S))
    assert connected.failure().trouble is trouble


def test_a_descriptor_with_another_first_process_is_stale(
    namespaces: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> SandboxTrouble:
        provider = LocalSandboxProvider(namespaces)
        sandbox = (await provider.start(SandboxSpec(str(workdir)), timeout_s=BOUND_S)).unwrap()
        fields = {**provider.serialize(sandbox).unwrap().fields, "init_start_ticks": "1"}
        connected = await provider.connect(SandboxDescriptor("local", fields), timeout_s=BOUND_S)
        assert is_successful(await sandbox.stop(timeout_s=BOUND_S))
        return connected.failure().trouble

    assert asyncio.run(scenario()) is SandboxTrouble.NOT_FOUND


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[1]", b'{"labels": 3, "holder": ["x"], "mounts": [[1]]}']
)
def test_a_record_that_is_none_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "record").write_bytes(content)
    assert read_record(tmp_path) == SandboxRecord()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's directory")
def test_another_users_root_is_neither_told_nor_touched(tmp_path: Path) -> None:
    foreign = tmp_path / "cbx-000000000000"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 65_534, 65_534)
    rule = ReapRule(expired_only=False, dry_run=False)
    provider = LocalSandboxProvider("plain", private_base=tmp_path)
    assert asyncio.run(provider.reap(rule, timeout_s=BOUND_S)).unwrap() == ()
    assert foreign.is_dir()


def test_the_gateway_that_is_not_there_is_a_cut_connection(
    namespaces: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> bytes:
        spec = SandboxSpec(
            str(workdir), network=NetworkMode.GATEWAY, gateway=HostPort("127.0.0.1", closed_port())
        )
        sandbox = (await LocalSandboxProvider(namespaces).start(spec, timeout_s=BOUND_S)).unwrap()
        assert spec.gateway is not None
        script = f"exec 3<>/dev/tcp/127.0.0.1/{spec.gateway.port}; cat <&3; echo over"
        done = (await sandbox.exec(Command(("bash", "-c", script)), timeout_s=BOUND_S)).unwrap()
        assert is_successful(await sandbox.stop(timeout_s=BOUND_S))
        return done.stdout

    assert asyncio.run(scenario()) in {b"over\n", b""}


def closed_port() -> int:
    import socket  # noqa: PLC0415 - here alone

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
