"""`clinebox preflight` as a user runs it, from this host and from inside a sandbox."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from clinebox.adapters.scripted_model import Script, Turn, running_scripted_model

KEY = "sk-the-real-key-0123456789"
WHERE = [
    pytest.param((), "this host", id="host"),
    pytest.param(("--from-sandbox", "local"), "inside the local sandbox (plain)", id="plain"),
    pytest.param(
        ("--from-sandbox",),
        "inside the local sandbox (bubblewrap)",
        id="bubblewrap",
        marks=pytest.mark.bubblewrap,
    ),
]


def preflight(
    base_url: str, *options: str, key: bool = True, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "clinebox.entrypoints.cli.main", "preflight", "--base-url", base_url]
    command += ["--model", "some-model", *(("--api-key-env", "MODEL_KEY") if key else ()), *options]
    whole = {**os.environ, "MODEL_KEY": KEY, **(env or {})}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=whole)


def told(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert KEY not in ended.stdout + ended.stderr
    [line] = ended.stdout.splitlines()
    value: dict[str, Any] = json.loads(line)
    return value


@pytest.mark.parametrize(("options", "where"), WHERE)
def test_an_answer_is_a_conclusive_go(options: tuple[str, ...], where: str) -> None:
    with running_scripted_model(Script(turns=(Turn(text="x"),)), require_key=KEY) as served:
        ended = preflight(served.base_url, "--json", *options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert told(ended) == {
        "verdict": "proceed",
        "conclusive": True,
        "sentence": f"The probe was answered with HTTP 200 by {served.base_url} for model some-model.",
        "base_url": served.base_url,
        "model": "some-model",
        "key_variable": "MODEL_KEY",
        "asked_from": where,
    }


@pytest.mark.parametrize(("options", "where"), WHERE)
def test_a_rejected_key_refuses_and_names_endpoint_model_and_variable(
    options: tuple[str, ...], where: str
) -> None:
    with running_scripted_model(Script(turns=(Turn(text="x"),)), require_key="another") as served:
        ended = preflight(served.base_url, "--json", *options)
        shown = preflight(served.base_url, *options)
    assert (ended.returncode, shown.returncode) == (1, 1)
    assert (told(ended)["verdict"], told(ended)["asked_from"]) == ("refuse", where)
    sentence = (
        f"The model server rejected the credential (HTTP 401) at {served.base_url} for model some-model. "
        "Rotate the key in the environment variable MODEL_KEY, then start again."
    )
    assert told(ended)["sentence"] == sentence
    assert shown.stdout == f"refused: {sentence} Asked from {where}.\n"
    assert KEY not in shown.stdout + shown.stderr


@pytest.mark.parametrize("status", [403, 404, 429, 500, 307])
def test_what_proves_nothing_goes_on_and_says_so(status: int) -> None:
    with running_scripted_model(Script(turns=(Turn.model_validate({"status": status}),))) as served:
        ended = preflight(served.base_url, "--json")
        shown = preflight(served.base_url)
    assert (ended.returncode, shown.returncode) == (0, 0)
    assert (told(ended)["verdict"], told(ended)["conclusive"]) == ("proceed", False)
    assert f"inconclusive: it answered HTTP {status}" in told(ended)["sentence"]
    assert shown.stdout.startswith("proceed, inconclusive: Preflight of ")


@pytest.mark.parametrize(("options", "where"), WHERE)
def test_a_port_without_a_listener_is_inconclusive(options: tuple[str, ...], where: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        ended = preflight(f"http://127.0.0.1:{held.getsockname()[1]}/v1", "--json", *options)
    assert ended.returncode == 0
    assert (told(ended)["conclusive"], told(ended)["asked_from"]) == (False, where)
    assert "the connection was refused" in told(ended)["sentence"]


def test_a_server_that_wants_a_key_when_none_was_given_says_how_to_give_one() -> None:
    with running_scripted_model(Script(turns=(Turn(text="x"),)), require_key=KEY) as served:
        ended = preflight(served.base_url, "--json", key=False)
    assert ended.returncode == 1
    assert told(ended)["sentence"] == (
        f"The model server wants a credential (HTTP 401) at {served.base_url} for model some-model, and none "
        "was sent. Give --api-key-env VAR: the environment variable with the key."
    )
    assert told(ended)["key_variable"] is None


def test_a_server_without_a_key_may_be_asked_too() -> None:
    with running_scripted_model(Script(turns=(Turn(text="x"),))) as served:
        assert preflight(served.base_url, key=False).returncode == 0


def test_a_proxy_is_not_asked_for_this_very_host() -> None:
    with socket.socket() as dead, running_scripted_model(Script(turns=(Turn(text="x"),))) as served:
        dead.bind(("127.0.0.1", 0))
        proxy = {"HTTP_PROXY": f"http://127.0.0.1:{dead.getsockname()[1]}", "NO_PROXY": ""}
        here = preflight(served.base_url, "--json", env=proxy)
        elsewhere = preflight("http://192.0.2.7/v1", "--json", env=proxy)
    assert told(here)["conclusive"]
    assert "the connection was refused" in told(elsewhere)["sentence"], (
        "the proxy, not 192.0.2.7 (TEST-NET-1)"
    )
