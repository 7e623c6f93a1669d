"""Bad options of `gateway` and `preflight`: one sentence and exit code 2, before anything is asked."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from clinebox.entrypoints.cli.main import run

ENVIRONMENT = {
    "MODEL_KEY": "sk-the-real-key-0123456789",
    "OPERATOR": "operator-token-0123456789",
    "LASTING": "lasting-token-0123456789",
    "SHORT": "short",
    "STRANGE": "not a token, however long",
    "SPACED": "sk-with space-0123456789",
    "EMPTY": " ",
}
GATEWAY = {
    "--upstream": "http://127.0.0.1:9/v1",
    "--model": "m",
    "--api-key-env": "MODEL_KEY",
    "--listen": "127.0.0.1:0",
    "--operator-token-env": "OPERATOR",
}
PREFLIGHT = {"--base-url": "http://127.0.0.1:9/v1", "--model": "m", "--api-key-env": "MODEL_KEY"}
Call = Callable[..., tuple[int, str, str]]

BAD_GATEWAYS: dict[str, dict[str, str]] = {
    "no upstream": {"--upstream": ""},
    "upstream no url": {"--upstream": "host:8000/v1"},
    "upstream with credentials": {"--upstream": "http://user:sk-pass-0123456789@host/v1"},
    "upstream with a query": {"--upstream": "http://host/v1?key=sk-pass-0123456789"},
    "upstream port": {"--upstream": "http://host:99999/v1"},
    "no model": {"--model": ""},
    "model blank": {"--model": " "},
    "key variable unset": {"--api-key-env": "NO_SUCH_KEY"},
    "key variable empty": {"--api-key-env": "EMPTY"},
    "key no header word": {"--api-key-env": "SPACED"},
    "nobody may use it": {"--operator-token-env": ""},
    "operator variable unset": {"--operator-token-env": "NO_SUCH_TOKEN"},
    "operator token too short": {"--operator-token-env": "SHORT"},
    "operator token no token": {"--operator-token-env": "STRANGE"},
    "session variable unset": {"--session-token-env": "NO_SUCH_TOKEN"},
    "session token is the operator's": {"--session-token-env": "OPERATOR"},
    "session token is the key": {"--session-token-env": "MODEL_KEY"},
    "listen no port": {"--listen": "127.0.0.1"},
    "listen no host": {"--listen": ":8787"},
    "listen bad port": {"--listen": "127.0.0.1:65536"},
    "listen bare ipv6": {"--listen": "::1:8787"},
    "listen a url": {"--listen": "http://127.0.0.1:8787"},
    "listen everywhere": {"--listen": "0.0.0.0:8787"},
    "listen everywhere ipv6": {"--listen": "[::]:8787"},
    "listen elsewhere": {"--listen": "203.0.113.7:8787", "--no-preflight": ""},
    "public url no url": {"--public-url": "this-host:8787"},
    "public url with credentials": {"--public-url": "http://user:sk-pass-0123456789@host"},
    "calls dir a file": {"--calls-dir": "a-file"},
    "calls dir below a file": {"--calls-dir": "a-file/calls"},
    "drain negative": {"--drain": "-1"},
    "drain no number": {"--drain": "soon"},
}
BAD_PREFLIGHTS: dict[str, dict[str, str]] = {
    "no base url": {"--base-url": ""},
    "base url no url": {"--base-url": "host:8000/v1"},
    "base url with credentials": {"--base-url": "http://user:sk-pass-0123456789@host/v1"},
    "no model": {"--model": ""},
    "model blank": {"--model": " "},
    "key variable unset": {"--api-key-env": "NO_SUCH_KEY"},
    "key variable empty": {"--api-key-env": "EMPTY"},
    "key no header word": {"--api-key-env": "SPACED"},
    "sandbox without its option": {"auto": ""},
    "unknown sandbox": {"--from-sandbox": "", "moon": ""},
}


@pytest.fixture
def clinebox(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run a command line in this process: its exit code, stdout and stderr."""
    (tmp_path / "a-file").write_text("")
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def words(good: dict[str, str], case: dict[str, str]) -> list[str]:
    """The options; an empty value leaves one of the good ones out, and is a word alone for another."""
    chosen = {option: value for option, value in good.items() if option not in case}
    pairs = [word for option, value in chosen.items() for word in (option, value)]
    for option, value in case.items():
        pairs += [option, value] if value else [option] if option not in good else []
    return pairs


@pytest.mark.parametrize("flags", [(), ("--json",)])
@pytest.mark.parametrize("case", BAD_GATEWAYS)
def test_a_gateway_that_cannot_be_is_one_sentence(
    clinebox: Call, case: str, flags: tuple[str, ...], snapshot: SnapshotAssertion
) -> None:
    _refused(clinebox("gateway", *words(GATEWAY, BAD_GATEWAYS[case]), *flags), flags, snapshot)


@pytest.mark.parametrize("flags", [(), ("--json",)])
@pytest.mark.parametrize("case", BAD_PREFLIGHTS)
def test_a_preflight_that_cannot_be_is_one_sentence(
    clinebox: Call, case: str, flags: tuple[str, ...], snapshot: SnapshotAssertion
) -> None:
    _refused(clinebox("preflight", *flags, *words(PREFLIGHT, BAD_PREFLIGHTS[case])), flags, snapshot)


def _refused(ended: tuple[int, str, str], flags: tuple[str, ...], snapshot: SnapshotAssertion) -> None:
    code, stdout, stderr = ended
    assert code == 2, stdout + stderr
    for secret in (*(value for value in ENVIRONMENT.values() if value.strip()), "sk-pass"):
        assert secret not in stdout + stderr
    if flags:
        assert json.loads(stdout)["error"]["message"]
        return
    assert stdout == ""
    assert stderr == snapshot


def test_a_variable_that_is_unset_is_named(clinebox: Call) -> None:
    _, _, stderr = clinebox("preflight", *words(PREFLIGHT, {"--api-key-env": "NO_SUCH_KEY"}))
    assert "'NO_SUCH_KEY' is not set" in stderr


def test_a_port_in_use_is_named(clinebox: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, stderr = clinebox("gateway", *words(GATEWAY, {"--listen": place}), "--no-preflight")
    assert code == 2
    assert f"--listen: {place} cannot be had: Address already in use" in stderr


LOADED = """
import sys
from clinebox.entrypoints.cli.main import run
code = run(sys.argv[1:])
print(code, sorted({"uvicorn", "httpx", "prometheus_client", "anyio", "h11"} & sys.modules.keys()))
"""


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_neither_command_costs_the_others_an_import(argument: str) -> None:
    command = [sys.executable, "-c", LOADED, argument]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.splitlines()[-1] == "0 []"
