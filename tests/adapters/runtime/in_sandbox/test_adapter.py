"""The Python side, over real local sandboxes: what comes back, and that every exit code has its sentence."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.runtime.cache import never_stopped, no_progress
from clinebox.adapters.runtime.failure import RuntimeFailure, RuntimeTrouble
from clinebox.adapters.runtime.fetch import find_npm, npm_pack
from clinebox.adapters.runtime.in_sandbox.exits import MEANINGS, InstallExit
from clinebox.adapters.runtime.in_sandbox.install import (
    InstalledRuntime,
    default_directory,
    install_in_sandbox,
    install_script,
    last_lines,
)
from clinebox.adapters.runtime.in_sandbox.registry import checked_registry, host_registry
from clinebox.adapters.sandboxes.local import ContainmentChoice, LocalSandboxProvider
from clinebox.domain.cline.pins import NEWEST, PINS, Pin, Platform
from clinebox.domain.ports import Command, ExecResult, Sandbox, SandboxFailure, SandboxSpec, SandboxTrouble

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from conftest import Registry

CONTAINMENTS = [pytest.param("bubblewrap", marks=pytest.mark.bubblewrap), "plain"]


def pin_of(tarball: bytes) -> Pin:
    return Pin("9.9.9", Platform.LINUX_X64, base64.b64encode(hashlib.sha512(tarball).digest()).decode())


def in_sandbox(
    containment: ContainmentChoice, workdir: Path, use: Callable[[Sandbox], Awaitable[None]]
) -> None:
    async def scenario() -> None:
        started = await LocalSandboxProvider(containment).start(SandboxSpec(str(workdir)), timeout_s=60)
        sandbox = started.unwrap()
        try:
            await use(sandbox)
        finally:
            assert is_successful(await sandbox.stop(timeout_s=30))

    workdir.mkdir(exist_ok=True)
    asyncio.run(scenario())


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_runtime_is_installed_once_and_runs_there(
    registry: Registry, tmp_path: Path, containment: ContainmentChoice
) -> None:
    pin = pin_of(registry.tarball)
    directory = str(tmp_path / "work dir" / "cline") if containment == "plain" else None
    path = f"{directory or '/tmp/clinebox-cline-9.9.9'}/cline"

    async def use(sandbox: Sandbox) -> None:
        first = await install_in_sandbox(sandbox, pin, registry.url, directory=directory)
        assert first == Success(InstalledRuntime(path, "9.9.9", pin.integrity, downloaded=True))
        again = await install_in_sandbox(sandbox, pin, registry.url + "/", 30, directory=directory)
        assert again.map(lambda runtime: runtime.downloaded) == Success(False)  # noqa: FBT003 - the value
        ran = (await sandbox.exec(Command((path, "task")), timeout_s=30)).unwrap()
        assert ran.stdout == b"small cline\n"

    in_sandbox(containment, tmp_path / "work dir", use)
    assert len(registry.paths) == 1


def test_a_failure_has_its_trouble_a_sentence_ways_on_and_the_last_lines(
    registry: Registry, tmp_path: Path
) -> None:
    registry.status = 404

    async def use(sandbox: Sandbox) -> None:
        answer = await install_in_sandbox(
            sandbox, pin_of(registry.tarball), registry.url, 30, directory=str(tmp_path / "cline")
        )
        failure = answer.failure()
        assert failure.trouble is RuntimeTrouble.REFUSED
        assert failure.message == (
            f"Cline 9.9.9 is not installed in sandbox {sandbox.description.sandbox_id}: the registry said no "
            f"(the registry answered HTTP 404 to {registry.url}/@cline/cli-linux-x64)"
        )
        assert failure.ways_on
        assert failure.last_lines[0].startswith("downloading http://127.0.0.1:")
        assert len(failure.last_lines) == 3

    in_sandbox("plain", tmp_path / "work", use)


def test_a_hanging_registry_ends_within_the_timeout_with_the_reason(
    registry: Registry, tmp_path: Path
) -> None:
    registry.does = "hang"

    async def use(sandbox: Sandbox) -> None:
        answer = await install_in_sandbox(
            sandbox, pin_of(registry.tarball), registry.url, 2, directory=str(tmp_path / "cline")
        )
        assert answer.failure().trouble is RuntimeTrouble.TIMED_OUT
        assert "did not come in time" in answer.failure().message

    in_sandbox("plain", tmp_path / "work", use)
    assert not (tmp_path / "cline").exists()


@pytest.mark.cline
@pytest.mark.bubblewrap
def test_the_real_tarball_becomes_the_real_cline(
    registry: Registry, tmp_path: Path, cline_binary: Callable[[str], Path]
) -> None:
    pin = PINS[NEWEST][Platform.LINUX_X64]
    packing = tmp_path / "npm"
    packing.mkdir()
    npm = find_npm(os.environ).unwrap()
    tarball = npm_pack(
        npm, pin, packing, env=os.environ, timeout_s=200, progress=no_progress, stopped=never_stopped
    )
    registry.tarball = tarball.unwrap().read_bytes()

    async def use(sandbox: Sandbox) -> None:
        installed = (await install_in_sandbox(sandbox, pin, registry.url, 200)).unwrap()
        assert installed == InstalledRuntime(
            default_directory(NEWEST) + "/cline", NEWEST, pin.integrity, downloaded=True
        )
        digest = (await sandbox.exec(Command(("sha512sum", installed.path)), timeout_s=60)).unwrap()
        with cline_binary(NEWEST).open("rb") as expected:
            assert digest.stdout.split()[0].decode() == hashlib.file_digest(expected, "sha512").hexdigest()

    in_sandbox("bubblewrap", tmp_path / "work", use)


# --- answers of every kind, from a sandbox that says what it is told


class Told:
    """A sandbox whose exec answers what the test says; everything else is a real one's."""

    def __init__(self, real: Sandbox, answer: Result[ExecResult, SandboxFailure]) -> None:
        self._answer = answer
        self.description = real.description
        self.upload, self.download, self.stop = real.upload, real.download, real.stop

    async def exec(self, command: Command, *, timeout_s: float) -> Result[ExecResult, SandboxFailure]:
        assert command.stdin == install_script()
        assert timeout_s == 310
        return self._answer


def answered(tmp_path: Path, answer: Result[ExecResult, SandboxFailure]) -> RuntimeFailure:
    found: list[RuntimeFailure] = []

    async def use(sandbox: Sandbox) -> None:
        told: Sandbox = Told(sandbox, answer)
        found.append((await install_in_sandbox(told, pin_of(b""), "http://registry.invalid")).failure())

    in_sandbox("plain", tmp_path / "work", use)
    return found[0]


def result(
    exit_code: int | None, *, stdout: bytes = b"", stderr: bytes = b"", timed_out: bool = False
) -> Result[ExecResult, SandboxFailure]:
    return Success(ExecResult(exit_code, stdout, stderr, False, timed_out, 1.0))  # noqa: FBT003 - not truncated


@pytest.mark.parametrize("code", [*InstallExit, 126, 127])
def test_every_exit_code_has_a_trouble_a_sentence_and_a_way_on(tmp_path: Path, code: int) -> None:
    failure = answered(tmp_path, result(code, stderr=b"x\ninstall_cline_runtime: because\n"))
    assert failure.trouble is MEANINGS[code].trouble
    assert failure.message.endswith(f": {MEANINGS[code].sentence} (because)")
    assert failure.ways_on
    assert failure.last_lines == ("x", "install_cline_runtime: because")


def test_the_script_and_python_name_the_same_codes() -> None:
    named = dict(re.findall(r"\b([A-Z_]+)=(1\d|2\d)\b", install_script().decode()))
    assert {name: int(code) for name, code in named.items()} == {
        each.name: each.value for each in InstallExit
    }


@pytest.mark.parametrize("code", [0, 1, 2, 99, 137, 143, 255, None])
def test_an_answer_that_the_script_never_gives_is_the_sandboxs_trouble(
    tmp_path: Path, code: int | None
) -> None:
    for stdout in (b"", b"installed /elsewhere/cline\n", b"\xff" * 100, b"installed\n"):
        failure = answered(tmp_path, result(code, stdout=stdout))
        assert failure.trouble is RuntimeTrouble.SANDBOX
        assert "it said nothing" in failure.message


def test_an_exec_that_timed_out_is_a_timeout_with_the_last_words(tmp_path: Path) -> None:
    failure = answered(tmp_path, result(None, stderr=b"asking apt-get for curl\n", timed_out=True))
    assert failure.trouble is RuntimeTrouble.TIMED_OUT
    assert failure.last_lines == ("asking apt-get for curl",)


def test_a_sandbox_that_is_gone_is_the_sandboxs_trouble(tmp_path: Path) -> None:
    failure = answered(tmp_path, Failure(SandboxFailure(SandboxTrouble.LOST, "It is gone.")))
    assert failure.trouble is RuntimeTrouble.SANDBOX
    assert "the sandbox failed (lost): It is gone." in failure.message


@pytest.mark.parametrize("timeout_s", [0, 0.5, -1, float("nan"), float("inf"), 86_401])
def test_a_timeout_out_of_range_starts_nothing(tmp_path: Path, timeout_s: float) -> None:
    async def use(sandbox: Sandbox) -> None:
        answer = await install_in_sandbox(sandbox, pin_of(b""), "http://registry.invalid", timeout_s)
        assert "the install timeout must be 1 to 86400 s" in answer.failure().message

    in_sandbox("plain", tmp_path / "work", use)


@pytest.mark.parametrize(
    "directory", ["relative", "/", "/tmp/", "/tmp/../etc", "/a//b", "/tmp/a\nb", "/tmp/."]
)
def test_a_directory_that_is_not_plain_and_absolute_starts_nothing(tmp_path: Path, directory: str) -> None:
    async def use(sandbox: Sandbox) -> None:
        answer = await install_in_sandbox(
            sandbox, pin_of(b""), "http://registry.invalid", directory=directory
        )
        assert answer.failure().trouble is RuntimeTrouble.TARGET_UNUSABLE

    in_sandbox("plain", tmp_path / "work", use)


def test_last_lines_are_few_short_and_printable() -> None:
    log = b"\n".join([b"old"] * 100 + [b"\x1b[31mred\xff" + b"x" * 1000, b"", b"\r", b"end"])
    lines = last_lines(log)
    assert len(lines) == 12
    assert lines[-1] == "end"
    assert len(lines[-2]) == 300
    assert all(line.isprintable() for line in lines)


# --- which registry


@pytest.mark.parametrize(
    "url", ["https://registry.invalid/npm/", "http://127.0.0.1:4873", "http://[::1]:80/x"]
)
def test_an_address_loses_its_last_slash(url: str) -> None:
    assert checked_registry(url) == Success(url.removesuffix("/"))


@pytest.mark.parametrize(
    "url",
    ["", "registry.invalid", "ftp://x/", "file:///x", "https://", "https://a b/", "https://x/?a", "https://x/#a",
     "https://x/\n", "https://x/\0"],
)  # fmt: skip
def test_an_address_that_is_none_is_refused(url: str) -> None:
    assert checked_registry(url).failure().trouble is RuntimeTrouble.REFUSED


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    failure = checked_registry("https://me:verysecret@registry.invalid/").failure()
    assert "verysecret" not in str(failure)


def environment(home: Path, **more: str) -> Mapping[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), **more}


def test_the_variable_of_npm_names_the_registry(tmp_path: Path) -> None:
    env = environment(tmp_path, npm_config_registry="https://registry.invalid/a/")
    assert host_registry(env) == Success("https://registry.invalid/a")


@pytest.mark.parametrize(
    ("npmrc", "expected"),
    [
        ("registry=https://registry.invalid/a/\n", "https://registry.invalid/a"),
        (
            "registry=https://registry.invalid/a/\n@cline:registry=https://registry.invalid/b/\n",
            "https://registry.invalid/b",
        ),
    ],
)
def test_the_users_npm_configuration_names_the_registry(tmp_path: Path, npmrc: str, expected: str) -> None:
    assert shutil.which("npm"), "the tests need npm on this machine"
    (tmp_path / ".npmrc").write_text(npmrc)
    assert host_registry(environment(tmp_path)) == Success(expected)


def test_npm_that_fails_names_what_to_set(tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/bash\nexit 1\n")
    npm.chmod(0o755)
    failure = host_registry({"PATH": f"{tmp_path}:/bin", "HOME": str(tmp_path)}).failure()
    assert failure.ways_on == ("set npm_config_registry to the registry's address",)
