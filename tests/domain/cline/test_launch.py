"""What Cline is started with."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful
from syrupy.assertion import SnapshotAssertion

from clinebox.domain.cline.launch import (
    LaunchPlan,
    LaunchRequest,
    checked_model_name,
    checked_model_url,
    model_hosts,
    plan_launch,
)
from clinebox.domain.cline.prompt import PreparedPrompt
from clinebox.domain.cline.settings import ProviderSettings

KEY = "sk-very-secret-0123456789"
REQUEST = LaunchRequest(
    cline_path="/opt/cline/bin/cline",
    session_dir="/tmp/s-1",
    workdir="/srv/work dir",
    provider=ProviderSettings("http://model.example:8000/v1", "m", "session-1", api_key=KEY),
    prompt=PreparedPrompt("do it", ()),
)


def planned(request: LaunchRequest = REQUEST) -> LaunchPlan:
    return plan_launch(request).unwrap()


def test_the_whole_plan(snapshot: SnapshotAssertion) -> None:
    plan = planned(replace(REQUEST, system_text="Be brief.", disabled_tools=("spawn_agent",)))
    files = [(file.path, oct(file.mode), file.content.decode().replace(KEY, "<key>")) for file in plan.files]
    assert (plan.argv, dict(plan.env), files, plan.prompt) == snapshot


def test_the_url_is_written_as_it_was_checked() -> None:
    provider = replace(REQUEST.provider, base_url=" http://model.example:8000/v1/\n")
    assert planned(replace(REQUEST, provider=provider)) == planned()


def test_the_prompt_is_in_no_argument() -> None:
    assert planned().prompt == b"do it"
    assert planned().argv[-2:] == ("--", " ")


def test_without_a_system_text_there_is_no_rules_file() -> None:
    for text in (None, "", " \n"):
        names = [file.path for file in planned(replace(REQUEST, system_text=text)).files]
        assert names == [
            "/tmp/s-1/data/settings/providers.json",
            "/tmp/s-1/data/settings/global-settings.json",
        ]


def test_every_file_is_private() -> None:
    assert {file.mode for file in planned(replace(REQUEST, system_text="x")).files} == {0o600}


def test_the_model_host_joins_what_is_exempt_from_proxies_already() -> None:
    env = {"NO_PROXY": "a, b", "no_proxy": "b,,c", "HOME": "/root"}
    plan = planned(replace(REQUEST, sandbox_env=env))
    assert plan.env["NO_PROXY"] == plan.env["no_proxy"] == "a,b,c,model.example"
    assert "HOME" not in plan.env


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("http://[::1]:8/v1", ("::1", "[::1]")),
        ("HTTPS://Host/v1", ("host",)),
        ("http://10.0.0.1:8/v1", ("10.0.0.1",)),
        ("nothing", ()),
    ],
)
def test_the_host_is_named_as_proxies_are_told(url: str, hosts: tuple[str, ...]) -> None:
    assert model_hosts(url) == hosts


visible = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8, max_size=40)
anything = st.text(max_size=30)


@given(
    key=visible, path=anything, model=anything, host=anything, system=anything, tool=anything, proxy=anything
)
def test_the_key_is_in_no_argument_and_no_variable(
    *, key: str, path: str, model: str, host: str, system: str, tool: str, proxy: str
) -> None:
    """SPEC §6: "Never in any argv (a property test over every argv that we build)"."""
    for poisoned in ("", key):
        request = LaunchRequest(
            cline_path=f"/{path}",
            session_dir=f"/s{path}{poisoned}",
            workdir=f"/w{path}",
            provider=ProviderSettings(f"http://{host}{poisoned}/v1", f"{model}{poisoned}", "s", api_key=key),
            prompt=PreparedPrompt(key, ()),
            system_text=system + key,
            disabled_tools=(tool,),
            sandbox_env={"NO_PROXY": f"{proxy}{poisoned}"},
        )
        result = plan_launch(request)
        if is_successful(result):
            plan = result.unwrap()
            shown = " ".join((*plan.argv, *plan.env, *plan.env.values()))
            assert key not in shown
            assert key not in repr(plan)
            settings = json.loads(plan.files[0].content)["providers"]["openai-compatible"]["settings"]
            assert settings["apiKey"] == key
        else:
            # A host that happens to be the key is quoted as a host.
            assert poisoned or key in host or key not in result.failure()


def test_a_key_that_stands_elsewhere_too_is_refused_without_being_quoted() -> None:
    for request in (
        replace(REQUEST, workdir=f"/srv/{KEY}"),
        replace(REQUEST, provider=replace(REQUEST.provider, model=KEY)),
        replace(REQUEST, provider=replace(REQUEST.provider, base_url=f"http://{KEY}.example/v1")),
        replace(REQUEST, sandbox_env={"no_proxy": KEY}),
    ):
        sentence = plan_launch(request).failure()
        assert "the process list shows it" in sentence
        assert KEY not in sentence


@pytest.mark.parametrize("path", ["", "relative", "./x", "/nul\0"])
def test_a_path_that_is_not_absolute_is_refused(path: str) -> None:
    for request in (
        replace(REQUEST, cline_path=path),
        replace(REQUEST, session_dir=path),
        replace(REQUEST, workdir=path),
    ):
        assert "give an absolute path" in plan_launch(request).failure()


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("http://h:8000/v1", "http://h:8000/v1"),
        (" https://h/v1/// \n", "https://h/v1"),
        ("HTTP://h", "HTTP://h"),
        ("http://[2001:db8::1]:80/a/v1", "http://[2001:db8::1]:80/a/v1"),
        ("http://h/ng-rollout/a%20b/v1", "http://h/ng-rollout/a%20b/v1"),
        ("http://bücher.example/v1", "http://bücher.example/v1"),
    ],
)
def test_a_usable_model_url(url: str, checked: str) -> None:
    assert checked_model_url(url).unwrap() == checked


BAD_URLS = [
    "", "x", "h:8000/v1", "ftp://h/v1", "http:/h/v1", "http://", "http:///v1", "http://h:0/v1", "http://h:65536/v1",
    "http://h:port/v1", "http://u:sekret99@h/v1", "http://sekret99@h/v1", "http://h/v1?key=sekret99",
    "http://h/v1#sekret99", "http://h/v 1", "http://h h/v1", "http://[::1/v1", "http://h/v\n1", "http://h\0/v1",
    "ftp://u:sekret99@h/v1", "u:sekret99@h", "file:///etc/passwd",
]  # fmt: skip


def test_each_unusable_model_url_has_its_sentence(snapshot: SnapshotAssertion) -> None:
    sentences = {url: checked_model_url(url).failure() for url in BAD_URLS}
    assert all("sekret99" not in sentence for sentence in sentences.values())
    assert sentences == snapshot


@given(st.text() | st.text().map("http://{}".format))
def test_any_text_is_a_model_url_or_one_line(url: str) -> None:
    """STYLE: Failure is a value; nothing raises on input."""
    result = checked_model_url(url)
    text = result.unwrap() if is_successful(result) else result.failure()
    assert text.isprintable()


@pytest.mark.parametrize("name", ["m", "org/model-7b:latest", "a b", "模型", "m@1"])
def test_a_usable_model_name(name: str) -> None:
    assert checked_model_name(name).unwrap() == name


@pytest.mark.parametrize(
    "name", ["", " ", "-m", "--help", "a\nb", "a\0b", " m", "m ", "x" * 301, "\udcff", "\x1b[31m"]
)
def test_an_unusable_model_name(name: str) -> None:
    sentence = checked_model_name(name).failure()
    assert "the model name" in sentence
    assert sentence.isprintable()
