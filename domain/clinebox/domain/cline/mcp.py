"""MCP grants as Cline's own settings file (SPEC §10). Pure: values in, bytes out.

`{"mcpServers": {NAME: {"transport": {"type": "stdio" | "streamableHttp", …}}}}`: the schema that 3.0.57 and
3.0.65 check; an entry that does not fit it is left out by Cline without a word, so it is checked here. Cline
asks each server before its first model call; one that does not answer within 3 s, twice, is skipped with a
line in cline.log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from returns.result import Failure, Result, Success

from clinebox.domain.episode import parse_tool_names
from clinebox.domain.json_value import JsonValue
from clinebox.domain.one_line import excerpt

SHOWN_CHARS: Final = 120
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token (RFC 9110, section 5.6.2)."""
_HTTP_URL: Final = re.compile(r"https?://[^\s/?#@]+(?:[/?#][^\s]*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StreamableHttp:
    """An MCP server at a URL. Headers may hold a secret, so they are never printed."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Stdio:
    """An MCP server that Cline starts in the sandbox. Its variables may hold a secret."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None


McpConnection: TypeAlias = StreamableHttp | Stdio


@dataclass(frozen=True, slots=True)
class McpGrant:
    """A tool server that the agent may use, by a name that is unique in the session (WIRE.md, Seed)."""

    name: str
    connection: McpConnection


def mcp_settings(grants: tuple[McpGrant, ...]) -> Result[bytes, str]:
    """The bytes of cline_mcp_settings.json; to be written with mode 0600.

    Failure(sentence) when a name is no name or not unique, a URL is no http(s) address, a command is empty, a
    working directory is not absolute, or a value could not stand where it belongs. No value is quoted that
    may be a secret.

    >>> mcp_settings((McpGrant("docs", StreamableHttp("http://127.0.0.1:9/mcp")),)).unwrap()
    b'{"mcpServers":{"docs":{"transport":{"type":"streamableHttp","url":"http://127.0.0.1:9/mcp"}}}}'
    """
    names = parse_tool_names([grant.name for grant in grants])
    return names.alt(lambda failure: failure.message).bind(lambda _: _settings(grants))


def _settings(grants: tuple[McpGrant, ...]) -> Result[bytes, str]:
    for grant in grants:
        problem = connection_problem(grant.connection)
        if problem is not None:
            return Failure(f"the MCP server {grant.name!r}: {problem}")
    servers: JsonValue = {grant.name: {"transport": _transport(grant.connection)} for grant in grants}
    document = json.dumps({"mcpServers": servers}, ensure_ascii=True, separators=(",", ":"))
    return Success(document.encode("ascii"))


def connection_problem(connection: McpConnection) -> str | None:
    """Why Cline would leave this server out, or None; quotes nothing that may be secret."""
    return next(_problems(connection), None)


def _problems(connection: McpConnection) -> Iterator[str]:
    match connection:
        case StreamableHttp(url, headers):
            if not _HTTP_URL.fullmatch(url) or not url.isprintable():
                shown = excerpt(url.partition("?")[0], SHOWN_CHARS)
                yield f"{shown!r} is no http or https address without credentials"
            if not all(
                _HEADER_NAME.fullmatch(name) and _on_one_line(value) for name, value in headers.items()
            ):
                yield "a header's name or value cannot stand in an HTTP request"
        case Stdio(command, args, env, cwd):
            if not command.strip():
                yield "its command is empty: name a program"
            if any("\0" in text for text in (command, *args, cwd or "")):
                yield "its command, an argument or its working directory holds a NUL"
            if cwd is not None and not cwd.startswith("/"):
                yield f"its working directory {excerpt(cwd, SHOWN_CHARS)!r} is not absolute"
            if not all(name and "=" not in name and "\0" not in name + value for name, value in env.items()):
                yield "a variable's name is empty or holds '=', or a NUL stands in it"
        case _:
            assert_never(connection)


def _on_one_line(value: str) -> bool:
    return not any(sign in value for sign in "\0\r\n")


def _transport(connection: McpConnection) -> JsonValue:
    """Absent members stay absent: Cline's schema refuses a null."""
    match connection:
        case StreamableHttp(url, headers):
            some: dict[str, JsonValue] = {"headers": dict(headers)} if headers else {}
            return {"type": "streamableHttp", "url": url, **some}
        case Stdio(command, args, env, cwd):
            more: dict[str, JsonValue] = {"args": [*args]} if args else {}
            more |= {"env": dict(env)} if env else {}
            more |= {} if cwd is None else {"cwd": cwd}
            return {"type": "stdio", "command": command, **more}
        case _:
            assert_never(connection)
