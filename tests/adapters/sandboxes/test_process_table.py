"""Whom a tree consists of, and that no stranger is ever signalled."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from clinebox.adapters.sandboxes.process_table import (
    Process,
    end_tree,
    find_tree,
    is_living,
    read_process,
    send_signal,
)

if TYPE_CHECKING:
    from tests.adapters.sandboxes.conftest import Until


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def seen(pid: int) -> Process:
    process = read_process(pid)
    assert process is not None
    return process


def test_a_later_process_of_the_same_pid_is_not_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    stranger = seen(sleeper.pid)
    recycled = replace(stranger, start_ticks=stranger.start_ticks - 1)
    assert not is_living(recycled)
    send_signal(recycled, signal.SIGKILL)
    assert find_tree(roots=[recycled]) == []
    assert is_living(stranger)


def test_a_signal_to_one_that_is_gone_is_no_trouble(sleeper: subprocess.Popen[bytes]) -> None:
    gone = seen(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    send_signal(gone, signal.SIGKILL)
    assert read_process(sleeper.pid) is None


def test_a_zombie_does_not_live(sleeper: subprocess.Popen[bytes], until: Until) -> None:
    process = seen(sleeper.pid)
    sleeper.kill()
    asyncio.run(until(lambda: seen(sleeper.pid).state == "Z", "it is a zombie"))
    assert not is_living(process)
    assert find_tree(roots=[process]) == []


@pytest.mark.parametrize("name", ["a) S 1 1", "((", "a b c d", ") Z 0 0 0"])
def test_a_name_cannot_pretend_to_be_other_fields(name: str) -> None:
    script = 'printf %s "$1" >/proc/$$/comm; echo ready; read -r _'
    with subprocess.Popen(
        ["bash", "-c", script, "bash", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert seen(process.pid).parent_pid == os.getpid()
        assert seen(process.pid).state in {"R", "S"}
        process.communicate(b"\n")


def test_the_caller_is_never_part_of_a_tree() -> None:
    assert os.getpid() not in {each.pid for each in find_tree(roots=[seen(os.getpid())])}


def test_a_marker_is_found_at_the_beginning_of_an_entry_only() -> None:
    env = {"CLINEBOX_TEST": "m.1.", "OTHER": "CLINEBOX_TEST=m.2."}
    with subprocess.Popen(["/bin/sleep", "1000"], env=env) as process:
        first, longer, other = (
            [each.pid for each in find_tree(markers=(marker,))]
            for marker in (b"CLINEBOX_TEST=m.1.", b"CLINEBOX_TEST=m.11.", b"CLINEBOX_TEST=m.2.")
        )
        process.kill()
    assert (first, longer, other) == ([process.pid], [], [])


def test_a_tree_that_forks_all_the_time_is_ended(until: Until) -> None:
    script = (
        "ulimit -u 2000; setsid bash -c 'while :; do setsid sleep 0.2 & sleep 0.02; done' & "
        "f() { sleep 1000 & sleep 0.05; test $SECONDS -gt 20 || (f) & }; f; wait"
    )
    marker = b"CLINEBOX_TEST=forks."

    def tree() -> list[Process]:
        return find_tree(markers=(marker,))

    async def scenario() -> list[Process]:
        await until(lambda: len(tree()) > 10, "it forks")
        return await end_tree(tree, within_s=30)

    env = {"CLINEBOX_TEST": "forks.", "PATH": os.environ["PATH"]}
    with subprocess.Popen(["bash", "-c", script], env=env, stderr=subprocess.DEVNULL):
        left = asyncio.run(scenario())
    assert left == []
    assert tree() == []


def test_what_cannot_be_ended_in_time_is_returned(sleeper: subprocess.Popen[bytes]) -> None:
    stubborn = seen(sleeper.pid)
    select: Callable[[], list[Process]] = lambda: [stubborn]  # noqa: E731 - names the type
    assert asyncio.run(end_tree(select, within_s=0.05)) == [stubborn]
