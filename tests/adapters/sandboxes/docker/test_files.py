"""Files of a container, on the host's places and elsewhere: whole or not at all, never by a symlink."""

from __future__ import annotations

import asyncio
import stat
from typing import TYPE_CHECKING, Any

import pytest

from clinebox.domain.ports import SandboxTrouble

if TYPE_CHECKING:
    from conftest import Bench

    from clinebox.adapters.sandboxes.docker.sandbox import DockerSandbox

BOUND_S = 120.0
PLACES = ("session", "workdir", "inside")


def _place(sandbox: DockerSandbox, bench: Bench, place: str) -> str:
    roots = {"session": sandbox.description.session_root, "workdir": str(bench.workdir), "inside": "/srv"}
    return roots[place]


@pytest.mark.parametrize("place", PLACES)
def test_a_file_goes_in_whole_with_its_mode_and_comes_out_in_parts(
    bench: Bench, run: Any, place: str
) -> None:
    async def story() -> None:
        content = bytes(range(256)) * 4096
        async with bench.started() as sandbox:
            path = f"{_place(sandbox, bench, place)}/new/deep/a b'\"$x\u00e9\n"
            put = await sandbox.upload(path, content, mode=0o755, timeout_s=BOUND_S)
            assert put.value_or("failed") is None, put
            whole = await sandbox.download(path, limit_bytes=1 << 30, timeout_s=BOUND_S)
            assert whole.unwrap() == content
            part = await sandbox.download(path, offset_bytes=1000, limit_bytes=10, timeout_s=BOUND_S)
            assert part.unwrap() == content[1000:1010]
            beyond = await sandbox.download(path, offset_bytes=1 << 40, limit_bytes=10, timeout_s=BOUND_S)
            assert beyond.unwrap() == b""
            modes = await run(sandbox, 'stat -c %a "$P" "${P%/*}"', env={"P": path})
            assert modes.stdout.split() == [b"755", b"700"]

    asyncio.run(story())


@pytest.mark.parametrize("place", PLACES)
def test_an_empty_file_and_one_that_replaces_another(bench: Bench, place: str) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            path = f"{_place(sandbox, bench, place)}/x"
            for content in (b"first, and longer", b""):
                assert (await sandbox.upload(path, content, timeout_s=BOUND_S)).value_or("failed") is None
                assert (await sandbox.download(path, limit_bytes=99, timeout_s=BOUND_S)).unwrap() == content

    asyncio.run(story())


@pytest.mark.parametrize("place", PLACES)
def test_no_symlink_is_followed_and_nothing_odd_is_opened(bench: Bench, run: Any, place: str) -> None:
    outside = bench.path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")

    async def story() -> None:
        async with bench.started() as sandbox:
            top = _place(sandbox, bench, place)
            links = f"ln -s {outside} d; ln -s {outside}/secret f; ln -s / r"
            await run(sandbox, f"mkdir -p {top} && cd {top} && mkfifo p && mkdir e; {links}")
            for name in ("d/secret", "f", "p", "e", "r/etc/passwd", "d/new"):
                path = f"{top}/{name}"
                read = (await sandbox.download(path, limit_bytes=9, timeout_s=BOUND_S)).failure()
                assert read.trouble in {SandboxTrouble.BAD_REQUEST, SandboxTrouble.NOT_FOUND}, path
                written = (await sandbox.upload(path, b"evil", timeout_s=BOUND_S)).failure()
                assert written.trouble is SandboxTrouble.BAD_REQUEST, path

    asyncio.run(story())
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret"


@pytest.mark.parametrize("path", ["relative", "/../etc/x", "/a\0b", "/", "/srv/"])
def test_a_path_that_is_none_is_refused(bench: Bench, path: str) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            refused = (await sandbox.upload(path, b"", timeout_s=BOUND_S)).failure()
            assert refused.trouble is SandboxTrouble.BAD_REQUEST
            refused = (await sandbox.download(path, limit_bytes=1, timeout_s=BOUND_S)).failure()
            assert refused.trouble is SandboxTrouble.BAD_REQUEST

    asyncio.run(story())


@pytest.mark.parametrize("place", PLACES)
def test_a_file_that_is_not_there_is_not_found(bench: Bench, place: str) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            path = f"{_place(sandbox, bench, place)}/no/such"
            found = (await sandbox.download(path, limit_bytes=1, timeout_s=BOUND_S)).failure()
            assert found.trouble is SandboxTrouble.NOT_FOUND

    asyncio.run(story())


def test_a_full_file_system_is_told_and_the_old_file_stays(bench: Bench) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:  # /dev/shm has 64 MiB
            path = "/dev/shm/x"
            assert (await sandbox.upload(path, b"old", timeout_s=BOUND_S)).value_or("failed") is None
            full = (await sandbox.upload(path, bytes(70 << 20), timeout_s=BOUND_S)).failure()
            assert full.trouble is SandboxTrouble.DISK_FULL
            assert (await sandbox.download(path, limit_bytes=9, timeout_s=BOUND_S)).unwrap() == b"old"

    asyncio.run(story())


def test_sixty_four_mebibytes_go_in_and_out(bench: Bench) -> None:
    async def story() -> None:
        content = bytes(range(256)) * (1 << 18)
        async with bench.started(output_limit_bytes=1 << 20) as sandbox:
            for path in (f"{sandbox.description.session_root}/x", "/srv/x"):
                assert (await sandbox.upload(path, content, timeout_s=BOUND_S)).value_or("failed") is None
                read = await sandbox.download(path, limit_bytes=1 << 30, timeout_s=BOUND_S)
                assert read.unwrap() == content

    asyncio.run(story())


def test_the_session_root_is_private(bench: Bench) -> None:
    async def story() -> None:
        async with bench.started() as sandbox:
            assert stat.S_IMODE(sandbox.root.sessions.stat().st_mode) == 0o700
            assert stat.S_IMODE(sandbox.root.path.stat().st_mode) == 0o700

    asyncio.run(story())
