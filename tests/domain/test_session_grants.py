"""A seed's tool grants: served, skipped with a gap, or refused (SPEC §10, WIRE.md)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.domain.cline.mcp import McpGrant, Stdio, StreamableHttp, mcp_settings
from clinebox.domain.episode import EpisodeId
from clinebox.domain.ports import NetworkMode
from clinebox.domain.session import step
from clinebox.domain.session_grants import (
    DirectHttp,
    ServedGrants,
    ToolAccess,
    ToolConnection,
    serve_grants,
    why_not_served,
)
from clinebox.domain.session_model import Absent, Refusal, Seed, SeedRequested

HTTP = StreamableHttp("https://tools.example/mcp", {"Authorization": "Bearer secret-0123"})
STDIO = Stdio("npx", ("-y", "server"), {"TOKEN": "secret-4567"})
DIRECT = DirectHttp("https://tools.example/")

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
TEXTS = st.one_of(
    st.sampled_from(["https://h/mcp", "http://127.0.0.1:9/", "server", "", "ftp://x"]), st.text(max_size=8)
)
CONNECTIONS: st.SearchStrategy[ToolConnection] = st.one_of(
    st.builds(StreamableHttp, TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=1)),
    st.builds(Stdio, TEXTS, st.lists(TEXTS, max_size=2).map(tuple), cwd=st.none() | TEXTS),
    st.builds(DirectHttp, TEXTS),
)
ACCESSES = st.lists(st.builds(ToolAccess, NAMES, CONNECTIONS, required=st.booleans()), max_size=6)
NETWORKS = st.sampled_from(list(NetworkMode))


def refused(*accesses: ToolAccess, network: NetworkMode = NetworkMode.FULL) -> str:
    return serve_grants(accesses, network).failure().reason


def test_mcp_grants_are_served_in_the_seeds_order() -> None:
    served = serve_grants([ToolAccess("b", HTTP, required=True), ToolAccess("a", STDIO, required=False)])
    assert served.unwrap() == ServedGrants((McpGrant("b", HTTP), McpGrant("a", STDIO)))


def test_no_grant_is_served_as_none() -> None:
    assert serve_grants([]).unwrap() == ServedGrants()


def test_an_optional_grant_that_cannot_be_served_is_skipped_and_said() -> None:
    served = serve_grants(
        [ToolAccess("api", DIRECT, required=False), ToolAccess("files", STDIO, required=True)]
    ).unwrap()
    assert served.mcp == (McpGrant("files", STDIO),)
    assert [(gap.name, gap.detail) for gap in served.skipped] == [
        ("api", "optional tool grant 'api' was skipped: Cline speaks MCP, not direct_http")
    ]


@pytest.mark.parametrize(
    ("connection", "network", "sentence"),
    [
        (DIRECT, NetworkMode.FULL, "Cline speaks MCP, not direct_http"),
        (StreamableHttp("ftp://host"), NetworkMode.FULL, "no http or https address"),
        (Stdio(""), NetworkMode.FULL, "its command is empty"),
        (HTTP, NetworkMode.NONE, "the sandbox's network is 'none'"),
        (StreamableHttp("http://localhost.evil/"), NetworkMode.NONE, "the sandbox's network is 'none'"),
        (StreamableHttp("ftp://127.0.0.1/"), NetworkMode.NONE, "no http or https address"),
    ],
)
def test_a_required_grant_that_cannot_be_served_refuses_the_seed(
    connection: ToolConnection, network: NetworkMode, sentence: str
) -> None:
    message = refused(
        ToolAccess("ok", STDIO, required=True), ToolAccess("it", connection, required=True), network=network
    )
    assert message.startswith("Required tool grant 'it' cannot be served: ")
    assert sentence in message
    assert message.endswith("Make it optional, or drop it.")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/mcp", "http://LOCALHOST", "http://[::1]:80/?a"])
@pytest.mark.parametrize("network", list(NetworkMode))
def test_a_server_inside_the_sandbox_is_served_whatever_its_network(url: str, network: NetworkMode) -> None:
    assert why_not_served(StreamableHttp(url), network) is None


def test_many_that_cannot_be_served_are_counted() -> None:
    message = refused(*(ToolAccess(f"t{n}", DIRECT, required=True) for n in range(9)))
    assert message.count("cannot be served") == 3
    assert "6 more cannot either" in message


@pytest.mark.parametrize("required", [True, False])
def test_a_name_twice_or_no_name_is_refused_even_where_it_is_optional(*, required: bool) -> None:
    twice = ToolAccess("a", STDIO, required=required)
    assert "twice" in refused(twice, twice)
    assert "name" in refused(ToolAccess("-a", STDIO, required=required))


def test_the_refusal_is_the_seeds_422() -> None:
    seed = Seed("s-1", EpisodeId("task-7"), "body")
    seeding, _ = step(Absent(), SeedRequested(seed, 0.0))
    state, answer = step(seeding, serve_grants([ToolAccess("api", DIRECT, required=True)]).failure())
    assert isinstance(answer, Refusal)
    assert (state, answer.http_status, answer.code.value) == (Absent(), 422, "seed_rejected")
    assert answer.message.startswith("Required tool grant 'api'")


@given(ACCESSES, NETWORKS)
def test_every_grant_is_served_skipped_or_refuses_the_seed(
    accesses: list[ToolAccess], network: NetworkMode
) -> None:
    """Law: a required grant that cannot be served refuses; an optional one is skipped with a gap."""
    result = serve_grants(accesses, network)
    names = [access.name for access in accesses]
    unserved = [access for access in accesses if why_not_served(access.connection, network) is not None]
    legal = len(set(names)) == len(names) and not any(access.required for access in unserved)
    assert is_successful(result) == legal
    if legal:
        served = result.unwrap()
        assert [gap.name for gap in served.skipped] == [access.name for access in unserved]
        assert sorted([*(g.name for g in served.mcp), *(g.name for g in served.skipped)]) == sorted(names)


@given(ACCESSES, NETWORKS)
def test_what_is_served_can_be_written(accesses: list[ToolAccess], network: NetworkMode) -> None:
    """Law: Cline's settings take every grant that is served: nothing is found out after the seed."""
    served = serve_grants(accesses, network).value_or(ServedGrants())
    written = json.loads(mcp_settings(served.mcp).unwrap())
    assert list(written["mcpServers"]) == [grant.name for grant in served.mcp]


@given(secret=st.text(min_size=8), required=st.booleans(), network=NETWORKS)
def test_no_secret_stands_in_a_sentence(secret: str, *, required: bool, network: NetworkMode) -> None:
    """Law: what is refused or skipped quotes no header and no variable, and is no exception."""
    hidden = f"hidden-{secret}"
    for connection in (
        StreamableHttp("ftp://h", {"X": hidden}),
        Stdio("", (hidden,), {"X": hidden}),
        StreamableHttp("https://h/", {hidden: hidden}),
    ):
        result = serve_grants([ToolAccess("it", connection, required=required)], network)
        assert hidden not in str(result)
