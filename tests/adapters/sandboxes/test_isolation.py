"""What a command in a local sandbox can see and reach, and what it cannot."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from clinebox.adapters.sandboxes.local import LocalSandboxProvider
from clinebox.domain.ports import (
    Command,
    NetworkMode,
    ReadOnlyMount,
    SandboxDescription,
    SandboxSpec,
    SandboxTrouble,
)

if TYPE_CHECKING:
    from tests.adapters.sandboxes.conftest import Start

    from clinebox.adapters.sandboxes.local import ContainmentChoice

BOUND_S = 30.0
HERE = Path(__file__).parent


def output(
    start: Start, containment: ContainmentChoice, workdir: Path, script: str, **spec: object
) -> tuple[int | None, str]:
    """Exit code and stdout of one script in a fresh sandbox."""

    async def scenario() -> tuple[int | None, str]:
        async with start(containment, workdir, **spec) as sandbox:
            result = (await sandbox.exec(Command(("bash", "-c", script)), timeout_s=BOUND_S)).unwrap()
            return result.exit_code, result.stdout.decode()

    return asyncio.run(scenario())


def test_the_hosts_own_variables_never_get_in(containment: ContainmentChoice, workdir: Path) -> None:
    secret = "sk-not-a-real-key-0123456789"  # noqa: S105 - what must not be seen inside
    host = {
        **os.environ,
        "OPENAI_API_KEY": secret,
        "XDG_CONFIG_HOME": "/x",
        "LD_LIBRARY_PATH": "/x",
        "BASH_ENV": "/x",
    }
    script = "tr '\\0' '\\n' </proc/$$/environ"
    if containment != "plain":  # which sees the host's processes, and says so
        script += "; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c not-a-real"
    program = [sys.executable, str(HERE / "controller_program.py"), containment, str(workdir), script]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=host) as process:
        lines, _ = process.communicate(b"", timeout=60)
    environment = str(json.loads(lines.splitlines()[1])["stdout"])
    names = {line.partition("=")[0] for line in environment.splitlines()} - {"0"}
    allowed = {"PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ"}
    toolchains = {"PYENV_ROOT", "RUSTUP_HOME"}
    assert names - {"CLINEBOX_EXEC"} <= allowed | toolchains | {
        name for name in names if name.startswith("LC_")
    }
    assert secret not in environment


def test_the_specs_variables_are_over_the_base_and_the_commands_over_both(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> bytes:
        async with start(containment, workdir, env={"A": "spec", "B": "spec", "TERM": "spec"}) as sandbox:
            command = Command(("bash", "-c", 'echo "$A $B $TERM"'), env={"B": "command"})
            return (await sandbox.exec(command, timeout_s=BOUND_S)).unwrap().stdout

    assert asyncio.run(scenario()) == b"spec command spec\n"


def test_clinebox_own_virtual_environment_is_not_on_the_path(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    _, path = output(start, containment, workdir, "echo $PATH")
    assert str(Path(sys.prefix, "bin")) not in path.strip().split(":")


def test_home_and_temporary_directory_are_private_writable_and_empty(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    script = "ls -A ~ $TMPDIR; touch ~/x $TMPDIR/y && stat -c %a ~ && echo $HOME"
    code, shown = output(start, containment, workdir, script)
    assert code == 0
    mode, home = shown.splitlines()[-2:]
    assert mode == "700"
    assert home.startswith("/tmp/cbx-")
    assert not Path(home).exists()


def test_the_workdir_is_worked_on_in_place(
    start: Start, containment: ContainmentChoice, workdir: Path
) -> None:
    (workdir / "given").write_text("given")
    code, shown = output(start, containment, workdir, f"cat {workdir}/given; echo made >made; mkdir d; pwd")
    assert (code, shown) == (0, f"given{workdir}\n")
    assert (workdir / "made").read_text() == "made\n"


def test_a_workdir_named_by_a_symlink_is_the_real_one(
    start: Start, containment: ContainmentChoice, workdir: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(workdir)
    code, shown = output(start, containment, tmp_path / "link", "pwd -P; touch x")
    assert (code, shown) == (0, f"{workdir}\n")


def test_a_command_sees_only_its_own_namespaces_processes(
    start: Start, namespaces: ContainmentChoice, workdir: Path
) -> None:
    script = (
        "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; echo; done | grep -c . ; echo $$"
    )
    _, shown = output(start, namespaces, workdir, script)
    count, own_pid = (int(each) for each in shown.split())
    assert count <= 5
    assert own_pid < 20


def test_no_signal_from_inside_reaches_the_first_process_and_it_reaps_orphans(
    start: Start, namespaces: ContainmentChoice, workdir: Path
) -> None:
    orphans = "(sleep 0.05 &); (sleep 0.05 &); "
    attack = orphans + "for s in TERM INT HUP KILL STOP SEGV; do kill -$s 1; done; kill -9 -1; sleep 0.3"
    look = "for p in /proc/[0-9]*; do grep -E '^State' $p/status 2>/dev/null; done | grep -c zombie"

    async def scenario() -> tuple[bytes, int | None]:
        async with start(namespaces, workdir) as sandbox:
            await sandbox.exec(Command(("bash", "-c", attack)), timeout_s=BOUND_S)
            result = (await sandbox.exec(Command(("bash", "-c", look)), timeout_s=BOUND_S)).unwrap()
            return result.stdout, result.exit_code

    assert asyncio.run(scenario()) == (b"0\n", 1)  # grep counts none


def test_an_agent_cannot_end_the_sandbox_by_a_common_name(
    start: Start, namespaces: ContainmentChoice, workdir: Path
) -> None:
    async def scenario() -> int | None:
        async with start(namespaces, workdir) as sandbox:
            for name in ("python", "node", "cline", "bash", "bwrap"):
                await sandbox.exec(Command(("pkill", "-9", "-f", name)), timeout_s=BOUND_S)
            return (await sandbox.exec(Command(("true",)), timeout_s=BOUND_S)).unwrap().exit_code

    assert asyncio.run(scenario()) == 0


@pytest.mark.parametrize("word", ["python", "node", "cline"])
def test_no_private_path_holds_a_word_that_agents_kill_by(
    start: Start, containment: ContainmentChoice, workdir: Path, word: str
) -> None:
    async def scenario() -> SandboxDescription:
        async with start(containment, workdir) as sandbox:
            return sandbox.description

    description = asyncio.run(scenario())
    assert word not in description.session_root
    assert word not in description.logs_dir


def test_without_network_there_is_only_a_loopback_and_it_works(
    start: Start, namespaces: ContainmentChoice, workdir: Path
) -> None:
    script = (
        "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; tail -n +2 /proc/net/route | grep -c .; "
        f"{sys.base_prefix}/bin/python3 -I -c \"import socket; s = socket.create_server(('127.0.0.1', 0)); "
        "socket.create_connection(s.getsockname()); print('connected')\""
    )
    _, shown = output(start, namespaces, workdir, script, network=NetworkMode.NONE)
    assert shown.split() == ["lo", "0", "connected"]


def test_the_hosts_loopback_is_reached_with_the_full_network_and_not_without(
    start: Start, namespaces: ContainmentChoice, workdir: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        full, _ = output(start, namespaces, workdir, script, network=NetworkMode.FULL)
        none, _ = output(start, namespaces, workdir, script, network=NetworkMode.NONE)
    assert (full, none) == (0, 1)


@pytest.mark.bubblewrap
def test_bubblewraps_system_is_read_only_and_its_private_places_are_not(start: Start, workdir: Path) -> None:
    script = (
        "for d in /usr /etc /opt /var /sys /boot; do touch $d/x 2>/dev/null && echo WROTE $d; done; "
        "for d in /tmp /var/tmp /logs ~ /dev/shm /; do touch $d/x || echo CANNOT $d; done; "
        "mount -o remount,rw /usr 2>/dev/null && echo REMOUNTED; echo $TMPDIR; ls -A /tmp"
    )
    _, shown = output(start, "bubblewrap", workdir, script)
    assert shown.split()[0] == "/tmp"
    assert not Path("/tmp/x").exists()
    assert not Path("/logs").exists()
    assert "x" in shown.split()


@pytest.mark.bubblewrap
def test_bubblewrap_hides_homes_and_daemons_sockets(start: Start, workdir: Path) -> None:
    home = Path.home()
    before = {path.name for path in home.iterdir()}
    script = f"ls -A {home}; ls -A /home /run /var/run | grep -v :"
    _, shown = output(start, "bubblewrap", workdir, script)
    toolchains = {".pyenv", ".nvm", ".rustup", ".cargo", ".local", ".npm"}
    assert (before - toolchains) & set(shown.split()) == set()
    assert "docker.sock" not in shown


@pytest.mark.bubblewrap
def test_bubblewrap_works_in_a_directory_below_home(start: Start, tmp_path: Path) -> None:
    script = "echo $PWD; touch made; ls -A .. | sort | tr '\\n' ' '"
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    (home / ".ssh").mkdir()
    program = [
        sys.executable,
        str(HERE / "controller_program.py"),
        "bubblewrap",
        str(home / "project"),
        script,
    ]
    host = {**os.environ, "HOME": str(home)}
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=host) as process:
        lines, _ = process.communicate(b"", timeout=60)
    shown = cast("str", json.loads(lines.splitlines()[1])["stdout"])
    assert shown == f"{home}/project\nproject "
    assert (home / "project" / "made").exists()


@pytest.mark.bubblewrap
def test_bubblewrap_takes_uploads_beside_the_system_and_mounts_read_only(
    start: Start, workdir: Path, tmp_path: Path
) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho tool")
    (tmp_path / "tool").chmod(0o755)
    mounts = (ReadOnlyMount(str(tmp_path / "tool"), "/opt-of-ours/bin/tool"),)

    async def scenario() -> bytes:
        async with start("bubblewrap", workdir, mounts=mounts) as sandbox:
            await sandbox.upload("/tests/test.sh", b"cat /tests/data", mode=0o755, timeout_s=BOUND_S)
            await sandbox.upload("/tests/data", b"data\n", timeout_s=BOUND_S)
            script = "bash /tests/test.sh; /opt-of-ours/bin/tool; echo >>/opt-of-ours/bin/tool"
            return (await sandbox.exec(Command(("bash", "-c", script)), timeout_s=BOUND_S)).unwrap().stdout

    assert asyncio.run(scenario()) == b"data\ntool\n"
    assert not Path("/tests").exists()
    assert (tmp_path / "tool").read_text() == "#!/bin/sh\necho tool"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has no capabilities to begin with")
def test_root_keeps_few_capabilities_inside(
    start: Start, namespaces: ContainmentChoice, workdir: Path
) -> None:
    _, shown = output(start, namespaces, workdir, "grep CapEff /proc/self/status")
    effective = int(shown.split()[1], 16)
    forbidden = {
        12: "net_admin",
        16: "sys_module",
        17: "sys_rawio",
        19: "sys_ptrace",
        21: "sys_admin",
        27: "mknod",
    }
    assert [name for bit, name in forbidden.items() if effective >> bit & 1] == []


@pytest.mark.bubblewrap
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot become another")
def test_root_inside_can_run_something_as_another_user(start: Start, workdir: Path) -> None:
    script = "setpriv --reuid 65534 --clear-groups bash -c 'id -u; touch /tmp/x /var/tmp/x'"
    code, shown = output(start, "bubblewrap", workdir, f"cd /; {script}")
    assert (code, shown) == (0, "65534\n")


@pytest.mark.parametrize(
    ("mount", "word"),
    [
        (ReadOnlyMount("/no/such", "/no/such"), "does not exist"),
        (ReadOnlyMount("etc", "/etc"), "absolute"),
        (ReadOnlyMount("/etc", "etc"), "absolute"),
    ],
)
def test_a_mount_that_cannot_be_is_the_callers_fault(
    containment: ContainmentChoice, workdir: Path, mount: ReadOnlyMount, word: str
) -> None:
    async def scenario() -> tuple[SandboxTrouble, str]:
        spec = SandboxSpec(workdir=str(workdir), mounts=(mount,))
        failure = (await LocalSandboxProvider(containment).start(spec, timeout_s=BOUND_S)).failure()
        return failure.trouble, failure.message

    trouble, message = asyncio.run(scenario())
    assert trouble is SandboxTrouble.BAD_REQUEST
    assert word in message


def test_auto_takes_the_strongest_and_says_which(start: Start, workdir: Path) -> None:
    async def scenario() -> SandboxDescription:
        async with start("auto", workdir) as sandbox:
            return sandbox.description

    description = asyncio.run(scenario())
    assert (description.provider, description.containment) == ("local", "bubblewrap")
    assert "read-only system" in description.note


def test_auto_says_why_the_stronger_ones_were_not_used(workdir: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "env", "setsid", "nsenter", "setpriv", "unshare", "touch"):
        found = subprocess.run(["which", name], check=True, capture_output=True, text=True).stdout.strip()
        (programs / name).symlink_to(found)
    (programs / "unshare").unlink()
    (programs / "unshare").write_text("#!/bin/sh\necho 'unshare: Operation not permitted' >&2\nexit 1\n")
    (programs / "unshare").chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(HERE / "describe_program.py"), str(workdir)],
        env={"PATH": str(programs)},
        check=True,
        capture_output=True,
        text=True,
    )
    containment, note = done.stdout.splitlines()
    assert containment == "plain"
    assert "bubblewrap was not used: bwrap not found on this host" in note
    assert "unshare was not used: unshare: Operation not permitted" in note
    assert "no isolation" in note
