"""bash, /proc, and cat, mv, rm, mkdir: nothing else is needed, of coreutils or of busybox."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.receipt import CleanupReceipt

if TYPE_CHECKING:
    from tests.adapters.supervisor.conftest import Bench, Session

TOOLS = ("cat", "mv", "rm", "mkdir")
ODD = ["with space", "quote'and\"more", "line\nend\n", "$(touch pwned)`id`", "-n", "é\u2028", "*", "a\\b"]


def bare_path(root: Path, *, busybox: bool) -> str:
    tools = root / "tools"
    tools.mkdir()
    (tools / "bash").symlink_to("/bin/bash")
    for tool in TOOLS:
        found = shutil.which("busybox" if busybox else tool)
        assert found, "this test needs busybox: install Debian's package of that name"
        (tools / tool).symlink_to(found)
    return str(tools)


def whole_life(bench: Bench, session: Session, script: str) -> CleanupReceipt:
    async def story() -> CleanupReceipt:
        running = await session.start("bash", "-c", script, prompt=b"hello")
        await bench.until(session.made("up").exists)
        (await session.client.request_stop(StoppedBy.CALLER)).unwrap()
        receipt = (await running).receipt
        assert (await session.client.read_receipt()).unwrap() == receipt
        return receipt

    return asyncio.run(story())


@pytest.mark.parametrize("busybox", [False, True])
@pytest.mark.parametrize("leader", [False, True])
def test_a_run_is_stopped_and_removed_with_four_tools(bench: Bench, busybox: bool, leader: bool) -> None:  # noqa: FBT001
    session = bench.session(path=bare_path(bench.root, busybox=busybox), leader=leader)
    receipt = whole_life(
        bench, session, "cat; (/usr/bin/setsid /bin/sleep 2301 &); : > up; read < <(:); /bin/sleep 2302"
    )
    assert (receipt.cleanup_confirmed, receipt.return_code, receipt.error) == (True, 130, None)
    assert (session.stdout, session.marked()) == ("hello", [])
    assert receipt.output_bytes == 5
    asyncio.run(session.client.remove()).unwrap()
    assert not session.dir.exists()


def test_the_output_bound_holds_without_any_program_that_knows_sizes(bench: Bench) -> None:
    session = bench.session(path=bare_path(bench.root, busybox=False))
    receipt = session.bash("exec cat /dev/zero", output_limit_bytes=100_000).receipt
    assert (receipt.stopped_by, session.marked()) == (StoppedBy.OUTPUT_LIMIT, [])


@pytest.mark.parametrize("name", ODD)
def test_a_session_directory_may_be_named_as_it_likes(bench: Bench, name: str) -> None:
    session = bench.session(directory=f"{bench.root}/{name}/{name}")
    receipt = whole_life(bench, session, "touch up; sleep 2303")
    assert (receipt.cleanup_confirmed, receipt.stopped_by) == (True, StoppedBy.CALLER)
    asyncio.run(session.client.remove()).unwrap()
    assert list((bench.root / name).iterdir()) == []
    assert not list(bench.root.rglob("pwned"))


def test_what_the_image_lets_bash_read_at_its_start_is_not_read(bench: Bench) -> None:
    """BASH_ENV and exported functions are the task's: they reach the harness, not the supervisor."""
    session = bench.session()
    session.made("env.sh").write_text("touch sourced; exit 3")
    session.sandbox.env |= {
        "BASH_ENV": str(session.made("env.sh")),
        "BASH_FUNC_read%%": "() { exit 4; }",
        "SHELLOPTS": "errexit:nounset:xtrace",
        "LC_ALL": "C.UTF-8",
    }
    assert session.run("sh", "-c", 'echo "$BASH_ENV"; exit 8').receipt.return_code == 8
    assert session.stdout == f"{session.made('env.sh')}\n"
    assert not session.made("sourced").exists()
