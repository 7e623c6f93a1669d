"""A harness that says what it received: signals, environment, descriptors, arguments, prompt."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from returns.pipeline import is_successful

from clinebox.adapters.supervisor.plan import SupervisedPlan, SurvivorPolicy, plan_files
from clinebox.adapters.supervisor.scripts import runner_script

if TYPE_CHECKING:
    from tests.adapters.supervisor.conftest import Bench

REPORTER = r"""
import json, os, sys
status = dict(line.split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
stdin = sys.stdin.buffer.read()
numbers = [n for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")]
fds = {n: os.fstat(int(n)).st_mode for n in numbers}
print(json.dumps({
    "argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "stdin": stdin.decode("latin-1"),
    "fds": fds, "ignored": status["SigIgn"], "blocked": status["SigBlk"],
    "pgid": os.getpgrp(), "pid": os.getpid(), "ppid_comm": open(f"/proc/{os.getppid()}/comm").read().strip(),
}))
"""
HOSTILE = [
    "a b",
    "",
    "-n",
    "--",
    "'\"\\",
    "$(touch X) `id` ${HOME}",
    "line\nend\n",
    "é\u2028\U0001f600",
    "*",
    "~",
]


def report(bench: Bench, python: str, *arguments: str, leader: bool = True, **plan: Any) -> dict[str, Any]:
    session = bench.session(leader=leader)
    finished = session.run(python, "-S", "-c", REPORTER, *arguments, **plan)
    assert finished.receipt.return_code == 0, session.read("stderr.txt")
    told: dict[str, Any] = json.loads(session.stdout)
    told["marker"] = session.client.marker
    return told


@pytest.mark.parametrize("leader", [True, False])
def test_no_signal_is_ignored_or_blocked(bench: Bench, python: str, leader: bool) -> None:  # noqa: FBT001
    told = report(bench, python, leader=leader)
    # Python itself ignores SIGPIPE (13) and SIGXFSZ (25) once it runs.
    assert (int(told["ignored"], 16) & ~(1 << 12 | 1 << 24), int(told["blocked"], 16)) == (0, 0)


def test_a_plain_program_starts_with_every_disposition_at_its_default(bench: Bench) -> None:
    session = bench.session()
    session.run("cat", "/proc/self/status")
    masks = dict(line.split(":\t") for line in session.stdout.splitlines() if line.startswith("Sig"))
    assert (masks["SigIgn"], masks["SigBlk"], masks["SigCgt"]) == ("0" * 16, "0" * 16, "0" * 16)


def test_a_tool_behind_the_harness_can_be_interrupted_and_quit(bench: Bench) -> None:
    finished = bench.session().bash("sh -c 'kill -INT $$'; [ $? = 130 ] && sh -c 'kill -QUIT $$'; exit $?")
    assert finished.receipt.return_code == 128 + 3


def test_arguments_arrive_byte_for_byte(bench: Bench, python: str) -> None:
    assert report(bench, python, *HOSTILE)["argv"] == HOSTILE


def test_the_environment_is_the_sandboxs_with_ours_laid_over(bench: Bench, python: str) -> None:
    values = {f"V{i}": value for i, value in enumerate(HOSTILE)} | {
        "LC_ALL": "POSIX",
        "IFS": "/",
        "PATH": "/nowhere",
    }
    told = report(bench, python, env=values)
    env = told["env"]
    assert {name: env.pop(name) for name in values} == values
    assert env.pop("CLINEBOX_SUPERVISOR") == told["marker"]
    for set_by_bash in ("_", "SHLVL"):
        env.pop(set_by_bash, None)
    home = env["HOME"]
    assert env == {"HOME": home, "LANG": "C.UTF-8", "PWD": home}


def test_only_three_descriptors_are_open_and_their_kinds_are_right(bench: Bench, python: str) -> None:
    told = report(bench, python, prompt=b"hello")
    kinds = {number: stat.S_IFMT(mode) for number, mode in told["fds"].items()}
    assert kinds == {"0": stat.S_IFIFO, "1": stat.S_IFREG, "2": stat.S_IFREG}


def test_without_a_prompt_stdin_is_the_null_device(bench: Bench, python: str) -> None:
    told = report(bench, python)
    assert (told["stdin"], stat.S_IFMT(told["fds"]["0"])) == ("", stat.S_IFCHR)


@pytest.mark.parametrize("size", [0, 1, 60_000, 65_535, 65_536, 65_537, 300 * 1024])
def test_a_prompt_of_any_size_arrives_through_a_pipe(bench: Bench, python: str, size: int) -> None:
    prompt = (bytes(range(256)) * (size // 256 + 1))[:size]
    told = report(bench, python, prompt=prompt)
    assert told["stdin"].encode("latin-1") == prompt
    assert stat.S_ISFIFO(told["fds"]["0"])


def test_the_harness_is_a_direct_child_of_the_runner_in_a_group_without_it(bench: Bench, python: str) -> None:
    told = report(bench, python)
    assert told["ppid_comm"] == "cb-runner"
    assert told["pgid"] == told["pid"]


def test_kill_9_of_the_parent_by_a_tool_hits_the_harness(bench: Bench) -> None:
    finished = bench.session().bash("bash -c 'kill -9 $PPID'; exit 5", prompt=b"x")
    assert (finished.receipt.return_code, finished.receipt.cleanup_confirmed) == (137, True)
    assert finished.receipt.error is None


def test_the_working_directory_may_be_named_as_it_likes(bench: Bench, python: str, tmp_path: Path) -> None:
    where = tmp_path / "a b'\n$(x)\"é"
    where.mkdir()
    told = report(bench, python, cwd=str(where))
    assert (told["cwd"], told["env"]["PWD"]) == (str(where), str(where))


def test_every_exit_code_comes_through_the_runner(tmp_path: Path) -> None:
    (tmp_path / "harness_runner.sh").write_bytes(runner_script())
    (tmp_path / "harness.env").write_bytes(b"")
    (tmp_path / "harness.cwd").write_text(str(tmp_path))
    seen = []
    for code in range(256):
        (tmp_path / "harness.argv").write_bytes(f"bash\0-c\0exit {code}\0".encode())
        text = "exec 3> out 4> err 9> report; exec bash -p ./harness_runner.sh . 12345678"
        seen.append(subprocess.run(["bash", "-c", text], cwd=tmp_path, check=False).returncode)
        assert (tmp_path / "report").read_text().splitlines()[-1] == f"exited {code}"
    assert seen == list(range(256))


@pytest.mark.parametrize("code", [0, 1, 2, 125, 128, 130, 255])
def test_an_exit_code_stands_in_the_receipt(bench: Bench, code: int) -> None:
    receipt = bench.session().bash(f"exit {code}").receipt
    assert (receipt.return_code, receipt.stopped_by, receipt.timed_out) == (code, None, False)


@pytest.mark.parametrize("number", [1, 2, 3, 6, 9, 11, 13, 15])
def test_a_signal_is_128_and_its_number(bench: Bench, number: int) -> None:
    assert bench.session().run("sh", "-c", f"kill -{number} $$").receipt.return_code == 128 + number


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        (("/nowhere/program",), 127, b"/nowhere/program"),
        (("no-such-program-here",), 127, b"not found"),
        (("/etc/passwd",), 126, b"ermission denied"),
        (("/",), 126, b"irectory"),
    ],
)
def test_a_program_that_cannot_be_run_is_126_or_127_with_a_sentence(
    bench: Bench, argv: tuple[str, ...], code: int, sentence: bytes
) -> None:
    session = bench.session()
    assert session.run(*argv).receipt.return_code == code
    assert sentence in session.read("stderr.txt")


def test_a_missing_working_directory_is_126(bench: Bench) -> None:
    session = bench.session()
    assert session.run("true", cwd="/nowhere/at/all").receipt.return_code == 126
    assert b"/nowhere/at/all" in session.read("stderr.txt")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"argv": ()}, "argv is empty"),
        ({"argv": ("",)}, "argv is empty"),
        ({"argv": ("a\0b",)}, "NUL"),
        ({"cwd": "relative"}, "'relative'"),
        ({"env": {"A-B": "x"}}, "'A-B'"),
        ({"env": {"": "x"}}, "''"),
        ({"env": {"UID": "7"}}, "'UID'"),
        ({"env": {"X": "s3cret\0"}}, "'X'"),
        ({"watched_files": ("/a\nmarker=1",)}, "watched"),
        ({"watched_files": ("log",)}, "watched"),
        ({"output_limit_bytes": 0}, "0 bytes"),
        ({"run_timeout_s": 0.0}, "run timeout is 0.0"),
        ({"run_timeout_s": float("nan")}, "nan"),
        ({"cleanup_timeout_s": float("inf")}, "cleanup timeout is inf"),
    ],
)
def test_what_cannot_be_handed_over_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    whole: dict[str, Any] = {"argv": ("true",), "cwd": "/", "run_timeout_s": 1.0, **fields}
    refused = plan_files(SupervisedPlan(**whole), marker="0" * 32)
    assert not is_successful(refused)
    assert named in refused.failure()
    assert "s3cret" not in refused.failure()


def test_the_configuration_is_lines_of_fixed_point_and_words() -> None:
    plan = SupervisedPlan(("true",), "/", 900, survivors=SurvivorPolicy.KILL, watched_files=("/l/cline.log",))
    config = plan_files(plan, marker="ab" * 16).unwrap()["supervisor.conf"]
    assert config.decode().splitlines() == [
        "run_timeout_s=900.00",
        "cleanup_timeout_s=10.00",
        "output_limit_bytes=268435456",
        "survivors=kill",
        "marker=" + "ab" * 16,
        "watch=/l/cline.log",
    ]
