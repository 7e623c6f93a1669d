"""The same run in each sandbox: one word is swapped, and everything else stays the same."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.cline

IMAGE = ("--image", "clinebox-test:base")
SANDBOXES = pytest.mark.parametrize(
    "sandbox",
    [
        ("local",),
        pytest.param(("bubblewrap",), marks=pytest.mark.bubblewrap),
        pytest.param(("docker", *IMAGE), marks=pytest.mark.docker),
    ],
    ids=lambda sandbox: sandbox[0],
)
CLOSED = SANDBOXES.args[1][1:]


def turns(command: str) -> list[dict[str, Any]]:
    call = {"tool_calls": [{"name": "run_commands", "arguments": {"commands": [command]}}]}
    return [call, {"text": "done"}]


@SANDBOXES
def test_a_run_is_judged_verified_and_cleaned_alike(start: Any, sandbox: tuple[str, ...]) -> None:
    options = ("--sandbox", *sandbox, "--verify", "grep -qx hello a.txt")
    run = start("Write.", *options, turns=turns("echo hello > a.txt; sleep 0.1 &")).finish()
    assert run.exit_code == 0, run.stderr
    assert (run.object["status"], run.object["reason"], run.object["reward"]) == (
        "completed",
        "finished",
        1.0,
    )
    assert run.object["receipt"]["cleanup_confirmed"] is True
    assert [run.object["usage"][name] for name in ("input_tokens", "output_tokens")] == [200, 20]
    assert (run.out.parent / "work" / "a.txt").read_text() == "hello\n"


@SANDBOXES
def test_a_deadline_ends_what_left_its_session(start: Any, sandbox: tuple[str, ...], long_s: str) -> None:
    hide = f"setsid sleep {long_s} & setsid sleep {long_s}"
    run = start("Go.", "--sandbox", *sandbox, "--timeout", "12", turns=turns(hide)).finish()
    assert (run.object["status"], run.object["reason"]) == ("incomplete", "deadline"), run.object
    assert run.object["receipt"]["cleanup_confirmed"] is True
    assert run.object["receipt"]["survivors"] == []


@pytest.mark.parametrize("sandbox", CLOSED, ids=["bubblewrap", "docker"])
def test_a_network_that_leads_to_the_gateway_alone_is_enough_for_a_run(
    start: Any, sandbox: tuple[str, ...]
) -> None:
    look = "(exec 3<>/dev/tcp/192.0.2.1/80) 2> reached.txt; true"
    run = start("Go.", "--sandbox", *sandbox, "--network", "gateway", turns=turns(look)).finish()
    assert run.object["status"] == "completed", run.object
    seen = (run.out.parent / "work" / "reached.txt").read_text()
    assert "unreachable" in seen or "refused" in seen


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--sandbox", "docker"), "--image"),
        (("--sandbox", "local", "--image", "x"), "--image"),
        (("--sandbox", "fake"), "fake"),
        (("--network", "none"), "--network gateway"),
        (("--network", "gateway", "--no-gateway"), "--no-gateway"),
        (("--capture-bodies", "--no-gateway"), "--no-gateway"),
    ],
)
def test_options_that_do_not_go_together_are_told(start: Any, options: tuple[str, ...], word: str) -> None:
    run = start("Go.", *options, turns=turns("true")).finish()
    assert run.exit_code == 2
    assert word in run.object["error"]["message"]


@pytest.mark.docker
def test_an_image_that_is_not_there_is_said_with_what_to_do(start: Any) -> None:
    options = ("--sandbox", "docker", "--image", "no-such-image:ever")
    run = start("Go.", *options, turns=turns("true")).finish()
    assert run.exit_code == 1
    assert run.object["reason"] == "sandbox"
    assert "docker pull no-such-image:ever" in run.object["text"]
