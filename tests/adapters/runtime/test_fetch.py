"""npm as a real program on PATH: what it is asked, what becomes of its failures, and that it is ended."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from clinebox.adapters.runtime.cache import RuntimeCache
from clinebox.adapters.runtime.failure import RuntimeFailure, RuntimeTrouble
from clinebox.adapters.runtime.fetch import find_npm

VERSION = "9.9.9"
CacheOf = Callable[..., RuntimeCache]
WaitFor = Callable[[Callable[[], bool]], None]

CUT_OFF = """npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to (somewhere) failed, reason: connect ECONNREFUSED
npm error     at ClientRequest.<anonymous> (index.js:130:14)
npm error   code: 'ECONNREFUSED',
npm error }
"""
SAID = {
    "refused connection": CUT_OFF,
    "unresolved name": "npm ERR! code ENOTFOUND\nnpm ERR! network request to (somewhere) failed: getaddrinfo",
    "no such version": "npm error code ETARGET\nnpm error notarget No matching version found for x@9.9.9.\n",
    "not allowed": "npm error code E403\nnpm error 403 403 Forbidden - GET (somewhere)\n",
    "full disk": "npm error code ENOSPC\nnpm error nospc There appears to be insufficient space\n",
    "wrong checksum": "npm error code EINTEGRITY\nnpm error sha512-A integrity checksum failed\n",
    "silence": "",
    "noise": "\x1b[31mboom\x1b[0m \xff\u202e " + "x" * 1000,
}


def refused(cache: RuntimeCache, **options: Any) -> RuntimeFailure:
    return cache.ensure(VERSION, **options).failure()


def test_each_failure_of_npm_is_typed_and_has_its_sentence(
    cache_of: CacheOf, npm: Any, tarball: Path, snapshot: SnapshotAssertion
) -> None:
    cache, told = cache_of(tarball), {}
    for name, text in SAID.items():
        (npm.home / "says").write_text(text)
        npm.does('cat "$FAKE_NPM/says" >&2; exit 1')
        failure = refused(cache)
        told[name] = (failure.trouble.value, str(failure))
    assert all(sentence.isprintable() for _, sentence in told.values())
    assert told == snapshot


def test_an_npm_that_leaves_nothing_is_a_failure(cache_of: CacheOf, npm: Any, tarball: Path) -> None:
    npm.does("exit 0")
    failure = refused(cache_of(tarball))
    assert (failure.trouble, failure.message) == (
        RuntimeTrouble.REFUSED,
        f"npm pack @cline/cli-linux-x64@{VERSION} left 0 tarballs",
    )


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


HANGS = 'echo "npm http fetch GET (somewhere)"; sleep 1000 & echo $! >"$FAKE_NPM/child"; wait'


def test_an_npm_that_hangs_is_killed_with_its_tree_and_its_last_words_are_kept(
    cache_of: CacheOf, npm: Any, tarball: Path, wait_for: WaitFor
) -> None:
    npm.does(HANGS)
    failure = refused(cache_of(tarball, fetch_timeout_s=1.5))
    assert failure.trouble is RuntimeTrouble.TIMED_OUT
    assert failure.message == (
        f"npm pack @cline/cli-linux-x64@{VERSION} took longer than 1.5 s and was killed; "
        "its last words: npm http fetch GET (somewhere)"
    )
    assert not alive(int((npm.home / "pid").read_text()))
    wait_for(lambda: not alive(int((npm.home / "child").read_text())))


def test_a_fetch_can_be_given_up_and_leaves_no_process(
    cache_of: CacheOf, npm: Any, tarball: Path, wait_for: WaitFor
) -> None:
    npm.does(HANGS)
    child = npm.home / "child"
    failure = refused(cache_of(tarball), stopped=lambda: child.exists() and bool(child.read_text().strip()))
    assert failure.trouble is RuntimeTrouble.STOPPED
    wait_for(lambda: not alive(int(child.read_text())))


def test_what_npm_left_running_is_ended_too(
    cache_of: CacheOf, npm: Any, tarball: Path, wait_for: WaitFor
) -> None:
    npm.does(f'sleep 1000 & echo $! >"$FAKE_NPM/child"; cp {tarball} $into/x.tgz')
    assert cache_of(tarball).ensure(VERSION).unwrap().fetched
    wait_for(lambda: not alive(int((npm.home / "child").read_text())))


def test_npm_sees_the_environment_that_was_given_and_no_terminal(
    cache_of: CacheOf, npm: Any, tarball: Path
) -> None:
    npm.does(f"[[ $npm_config_registry == there && ! -t 0 ]] && cp {tarball} $into/x.tgz")
    assert cache_of(tarball, env={**npm.env, "npm_config_registry": "there"}).ensure(VERSION).unwrap().fetched


def test_without_any_npm_the_choices_are_named(snapshot: SnapshotAssertion) -> None:
    failure = find_npm({"PATH": "/nowhere"}, wheel_module="no_such_module").failure()
    assert failure.trouble is RuntimeTrouble.NO_FETCHER
    assert str(failure) == snapshot


@pytest.mark.parametrize("env", [{}, {"PATH": ""}, {"PATH": "/nowhere"}])
def test_npm_from_a_python_package_is_taken_where_none_is_on_the_path(env: dict[str, str]) -> None:
    npm = find_npm(env, wheel_module="json").unwrap()
    assert npm.argv[0] == sys.executable


def test_npm_on_the_path_comes_first(npm: Any) -> None:
    assert find_npm(npm.env, wheel_module="json").unwrap().argv == (str(npm.home / "bin" / "npm"),)
