"""Files go in and out of a local sandbox, and nothing that the agent plants leads the host outside."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from returns.pipeline import is_successful
from returns.result import Result

from clinebox.domain.ports import Command, SandboxFailure, SandboxTrouble

if TYPE_CHECKING:
    from tests.adapters.sandboxes.conftest import Start

    from clinebox.adapters.sandboxes.local import ContainmentChoice
    from clinebox.adapters.sandboxes.local_sandbox import LocalSandbox

T = TypeVar("T")
BOUND_S = 30.0


def within(
    start: Start,
    containment: ContainmentChoice,
    workdir: Path,
    scenario: Callable[[LocalSandbox], Awaitable[T]],
) -> T:
    async def whole() -> T:
        async with start(containment, workdir) as sandbox:
            return await scenario(sandbox)

    return asyncio.run(whole())


async def sh(sandbox: LocalSandbox, script: str) -> bytes:
    result = (await sandbox.exec(Command(("bash", "-c", script)), timeout_s=BOUND_S)).unwrap()
    assert result.exit_code == 0, result.stderr
    return result.stdout


async def put(sandbox: LocalSandbox, path: str, content: bytes = b"new") -> Result[None, SandboxFailure]:
    return await sandbox.upload(path, content, timeout_s=BOUND_S)


async def get(sandbox: LocalSandbox, path: str) -> Result[bytes, SandboxFailure]:
    return await sandbox.download(path, limit_bytes=1 << 26, timeout_s=BOUND_S)


@pytest.mark.parametrize("content", [b"", b"a", os.urandom(16 << 20)], ids=["empty", "one byte", "16 MiB"])
def test_a_file_comes_back_as_it_went_and_is_seen_inside(
    start: Start, containment: ContainmentChoice, workdir: Path, content: bytes
) -> None:
    async def scenario(sandbox: LocalSandbox) -> tuple[bytes, bytes]:
        path = f"{sandbox.description.session_root}/file"
        assert is_successful(await put(sandbox, path, content))
        return (await get(sandbox, path)).unwrap(), await sh(sandbox, f"stat -c %s {path}")

    assert within(start, containment, workdir, scenario) == (content, b"%d\n" % len(content))


@pytest.mark.parametrize("name", ["a b", "-rf", "$(id)", "line\nend", "ünï☕", "\udcff", "*", "x" * 255])
def test_odd_names_are_names(start: Start, containment: ContainmentChoice, workdir: Path, name: str) -> None:
    async def scenario(sandbox: LocalSandbox) -> bytes:
        path = f"{sandbox.description.session_root}/d/{name}"
        assert is_successful(await put(sandbox, path))
        assert is_successful(await put(sandbox, f"{workdir}/{name}"))
        assert (await get(sandbox, path)).unwrap() == b"new"
        command = Command(("cat", "--", name), cwd=f"{sandbox.description.session_root}/d")
        return (await sandbox.exec(command, timeout_s=BOUND_S)).unwrap().stdout

    assert within(start, containment, workdir, scenario) == b"new"


def test_parents_are_made_private_and_the_mode_is_the_callers(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario(sandbox: LocalSandbox) -> bytes:
        root = sandbox.description.session_root
        assert is_successful(await put(sandbox, f"{root}/p/q/private"))
        shown = await sandbox.upload(
            f"{root}/p/q/tool", b"#!/bin/sh\necho ran", mode=0o755, timeout_s=BOUND_S
        )
        assert is_successful(shown)
        return await sh(
            sandbox, f"cd {root}; stat -c %a . p p/q p/q/private p/q/tool | tr '\\n' ' '; p/q/tool"
        )

    assert within(start, containment, workdir, scenario) == b"700 700 700 600 755 ran\n"


def test_an_upload_replaces_the_whole_file_at_once_and_leaves_no_other(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario(sandbox: LocalSandbox) -> bytes:
        path = f"{sandbox.description.session_root}/x/file"
        assert is_successful(await put(sandbox, path, b"a much longer old content"))
        held = asyncio.create_task(
            sh(sandbox, f"exec 3<{path}; touch open; until test -e go; do :; done; cat <&3")
        )
        while not (workdir / "open").exists():  # noqa: ASYNC110 - a file of another process
            await asyncio.sleep(0.01)
        assert is_successful(await put(sandbox, path, b"short"))
        (workdir / "go").touch()
        assert await held == b"a much longer old content"
        return await sh(sandbox, f"cat {path}; ls -A {sandbox.description.session_root}/x")

    assert within(start, containment, workdir, scenario) == b"shortfile\n"


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [(0, 4, b"0123"), (3, 4, b"3456"), (8, 4, b"89"), (10, 4, b""), (99, 4, b""), (0, 0, b"")],
)
def test_a_part_of_a_file_can_be_read(
    start: Start, containment: ContainmentChoice, workdir: Path, *, offset: int, limit: int, expected: bytes
) -> None:
    (workdir / "file").write_bytes(b"0123456789")

    async def scenario(sandbox: LocalSandbox) -> bytes:
        path = str(workdir / "file")
        part = await sandbox.download(path, offset_bytes=offset, limit_bytes=limit, timeout_s=BOUND_S)
        return part.unwrap()

    assert within(start, containment, workdir, scenario) == expected


@pytest.mark.parametrize(
    "plant", ["ln -s {out}/secret l", "ln -s {out} d; ln -s d/secret l", "ln -s l l", "ln -s . l"]
)
def test_a_planted_symlink_is_never_followed(
    start: Start, containment: ContainmentChoice, workdir: Path, tmp_path: Path, plant: str
) -> None:
    (tmp_path / "secret").write_text("host")

    async def scenario(sandbox: LocalSandbox) -> list[SandboxTrouble]:
        await sh(sandbox, plant.format(out=tmp_path))
        targets = [f"{workdir}/l", f"{workdir}/l/secret", f"{workdir}/l/new/file"]
        written = [(await put(sandbox, each)).failure().trouble for each in targets]
        read = [(await get(sandbox, each)).failure().trouble for each in targets]
        return written + read

    assert set(within(start, containment, workdir, scenario)) == {SandboxTrouble.BAD_REQUEST}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret", "task"]
    assert (tmp_path / "secret").read_text() == "host"


def test_a_directory_turned_into_a_symlink_leads_nowhere(
    start: Start, containment: ContainmentChoice, workdir: Path, tmp_path: Path
) -> None:
    (workdir / "d").mkdir()

    async def scenario(sandbox: LocalSandbox) -> SandboxTrouble:
        await sh(sandbox, f"rmdir d; ln -s {tmp_path} d")
        return (await put(sandbox, f"{workdir}/d/file")).failure().trouble

    assert within(start, containment, workdir, scenario) is SandboxTrouble.BAD_REQUEST
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("kind", ["mkfifo x", "mkdir x", "ln -s /dev/zero x", "ln -s /dev/null x"])
def test_what_is_no_regular_file_is_refused_and_never_blocks(
    start: Start, containment: ContainmentChoice, workdir: Path, kind: str
) -> None:
    async def scenario(sandbox: LocalSandbox) -> list[SandboxTrouble]:
        await sh(sandbox, kind)
        failures = [
            (await put(sandbox, f"{workdir}/x")).failure(),
            (await get(sandbox, f"{workdir}/x")).failure(),
        ]
        assert all("x is a" in each.message for each in failures)
        return [each.trouble for each in failures]

    assert within(start, containment, workdir, scenario) == [SandboxTrouble.BAD_REQUEST] * 2


def test_a_socket_is_refused(start: Start, containment: ContainmentChoice, workdir: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(workdir / "s"))

        async def scenario(sandbox: LocalSandbox) -> str:
            return (await get(sandbox, f"{workdir}/s")).failure().message

        assert "a socket" in within(start, containment, workdir, scenario)


def test_a_missing_file_is_not_found(start: Start, containment: ContainmentChoice, workdir: Path) -> None:
    async def scenario(sandbox: LocalSandbox) -> list[SandboxTrouble]:
        missing = [f"{workdir}/no", f"{workdir}/no/such/file", f"{sandbox.description.session_root}/no"]
        return [(await get(sandbox, each)).failure().trouble for each in missing]

    assert within(start, containment, workdir, scenario) == [SandboxTrouble.NOT_FOUND] * 3


@pytest.mark.parametrize(
    "path", ["relative", "", "/etc/passwd", "/usr/new", "{w}/../x", "{w}/a\0b", "{w}", "/"]
)
def test_a_path_outside_of_the_sandboxs_own_places_is_not_written(
    start: Start, containment: ContainmentChoice, workdir: Path, path: str
) -> None:
    before = Path("/etc/passwd").read_bytes()

    async def scenario(sandbox: LocalSandbox) -> SandboxTrouble:
        return (await put(sandbox, path.format(w=workdir))).failure().trouble

    assert within(start, containment, workdir, scenario) is SandboxTrouble.BAD_REQUEST
    assert Path("/etc/passwd").read_bytes() == before


def test_the_systems_files_can_be_read(start: Start, containment: ContainmentChoice, workdir: Path) -> None:
    async def scenario(sandbox: LocalSandbox) -> bytes:
        return (await get(sandbox, "/etc/passwd")).unwrap()

    assert within(start, containment, workdir, scenario) == Path("/etc/passwd").read_bytes()


def test_the_logs_directory_is_private_and_is_where_the_description_says(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario(sandbox: LocalSandbox) -> bytes:
        logs = sandbox.description.logs_dir
        await sh(sandbox, f"mkdir {logs}/verifier; echo 1.0 >{logs}/verifier/reward.txt")
        return (await get(sandbox, f"{logs}/verifier/reward.txt")).unwrap()

    existed = Path("/logs").exists()
    assert within(start, containment, workdir, scenario) == b"1.0\n"
    assert Path("/logs").exists() is existed


def test_files_are_the_users_own(start: Start, containment: ContainmentChoice, workdir: Path) -> None:
    async def scenario(sandbox: LocalSandbox) -> None:
        await sh(sandbox, "echo made >made")
        assert is_successful(await put(sandbox, f"{workdir}/sent"))

    within(start, containment, workdir, scenario)
    assert {(workdir / name).stat().st_uid for name in ("made", "sent")} == {os.geteuid()}
    assert stat.S_IMODE((workdir / "sent").stat().st_mode) == 0o600


def test_a_negative_offset_or_limit_is_refused(start: Start, workdir: Path) -> None:
    async def scenario(sandbox: LocalSandbox) -> list[SandboxTrouble]:
        asked = [(-1, 1), (0, -1)]
        return [
            (await sandbox.download("/etc/passwd", offset_bytes=offset, limit_bytes=limit, timeout_s=5))
            .failure()
            .trouble
            for offset, limit in asked
        ]

    assert within(start, "plain", workdir, scenario) == [SandboxTrouble.BAD_REQUEST] * 2
