"""MCP grants as Cline's settings file: what its schema takes, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.cline.mcp import McpConnection, McpGrant, Stdio, StreamableHttp, mcp_settings


def test_both_transports_are_written_as_clines_schema_wants_them() -> None:
    grants = (
        McpGrant("docs", StreamableHttp("https://host/mcp", {"Authorization": "Bearer secret-0123"})),
        McpGrant("files", Stdio("npx", ("-y", "server"), {"TOKEN": "secret-4567"}, "/srv")),
        McpGrant("bare", Stdio("server")),
    )
    assert json.loads(mcp_settings(grants).unwrap()) == {
        "mcpServers": {
            "docs": {
                "transport": {
                    "type": "streamableHttp",
                    "url": "https://host/mcp",
                    "headers": {"Authorization": "Bearer secret-0123"},
                }
            },
            "files": {
                "transport": {
                    "type": "stdio",
                    "command": "npx",
                    "args": ["-y", "server"],
                    "env": {"TOKEN": "secret-4567"},
                    "cwd": "/srv",
                }
            },
            "bare": {"transport": {"type": "stdio", "command": "server"}},
        }
    }


def test_no_grant_is_an_empty_list_of_servers() -> None:
    assert mcp_settings(()).unwrap() == b'{"mcpServers":{}}'


@pytest.mark.parametrize(
    ("connection", "sentence"),
    [
        (StreamableHttp("ftp://host"), "no http or https address"),
        (StreamableHttp("http://user:pass@host/"), "no http or https address"),
        (StreamableHttp("http://host/", {"X": "a\r\nInjected: b"}), "cannot stand in an HTTP request"),
        (StreamableHttp("http://host/", {"a b": "c"}), "cannot stand in an HTTP request"),
        (Stdio(" "), "its command is empty"),
        (Stdio("server", ("a\0b",)), "holds a NUL"),
        (Stdio("server", cwd="here"), "is not absolute"),
        (Stdio("server", env={"A=B": "c"}), "a variable's name"),
    ],
)
def test_what_cline_would_leave_out_without_a_word_is_refused_with_one(
    connection: McpConnection, sentence: str
) -> None:
    assert sentence in mcp_settings((McpGrant("it", connection),)).failure()


def test_a_name_twice_or_no_name_is_refused() -> None:
    assert "twice" in mcp_settings((McpGrant("a", Stdio("x")), McpGrant("a", Stdio("y")))).failure()
    assert "name" in mcp_settings((McpGrant("-a", Stdio("x")),)).failure()


@given(st.text(), st.text(), st.dictionaries(st.text(), st.text(), max_size=2))
def test_no_value_raises_and_no_secret_is_quoted(name: str, text: str, pairs: dict[str, str]) -> None:
    """Never an exception; what is refused quotes no header and no variable."""
    for connection in (StreamableHttp(text, pairs), Stdio(text, (text,), pairs, text)):
        result = mcp_settings((McpGrant(name, connection),))
        refused = result.swap().value_or("")
        assert all(value not in refused for value in pairs.values() if len(value) > 7)
