"""Which of a seed's tool grants Cline can be given (SPEC §10; WIRE.md, Seed).

Cline 3.0.57 to 3.0.65 speaks MCP and nothing else to a tool server. A grant that cannot be served is skipped
with a gap where it is optional; where it is required the seed is refused, and no retry can help.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.domain.cline.mcp import McpConnection, McpGrant, Stdio, StreamableHttp, connection_problem
from clinebox.domain.episode import parse_tool_names
from clinebox.domain.ports import NetworkMode
from clinebox.domain.session_model import SetupRefused
from clinebox.domain.session_refusal import shown_name

_LOOPBACK: Final = re.compile(
    r"https?://(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?(?:[/?#].*)?", re.IGNORECASE
)
"""Inside the sandbox, whatever its network."""
SHOWN_GRANTS: Final = 3
"""Of those that a refusal names; the others are counted."""


@dataclass(frozen=True, slots=True)
class DirectHttp:
    """A plain HTTP tool server. Its cookies and headers are not kept: Cline cannot use them."""

    base_url: str


ToolConnection: TypeAlias = McpConnection | DirectHttp


@dataclass(frozen=True, slots=True)
class ToolAccess:
    """One of a seed's `tool_accesses`; `required`: without it the task cannot be done."""

    name: str
    connection: ToolConnection
    required: bool = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class SkippedGrant:
    """An optional grant that the agent runs without; `detail` goes into the gap of the observations."""

    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class ServedGrants:
    """What Cline is given, in the seed's order, and what it is not."""

    mcp: tuple[McpGrant, ...] = ()
    skipped: tuple[SkippedGrant, ...] = ()


def serve_grants(
    accesses: Sequence[ToolAccess], network: NetworkMode = NetworkMode.FULL
) -> Result[ServedGrants, SetupRefused]:
    """What of a seed's grants is served in a sandbox with this network. Total.

    Failure(SetupRefused), which `session.step` answers with 422, when a required grant cannot be served, or
    a name is none or stands there twice. No header, variable or argument is quoted: they may be secrets.

    >>> serve_grants([ToolAccess("api", DirectHttp("http://host"), required=True)]).failure().reason[:78]
    "Required tool grant 'api' cannot be served: Cline speaks MCP, not direct_http."
    >>> serve_grants([ToolAccess("api", DirectHttp("http://host"), required=False)]).unwrap().skipped[0].name
    'api'
    """
    names = parse_tool_names([access.name for access in accesses])
    if not is_successful(names):
        return Failure(SetupRefused(names.failure().message))
    problems = {access.name: why_not_served(access.connection, network) for access in accesses}
    lacking = [
        f"{shown_name(a.name)} cannot be served: {problems[a.name]}"
        for a in accesses
        if a.required and problems[a.name]
    ]
    if lacking:
        return Failure(SetupRefused(_refusal(lacking)))
    skipped = (
        SkippedGrant(name, f"optional tool grant {shown_name(name)} was skipped: {problem}")
        for name, problem in problems.items()
        if problem is not None
    )
    return Success(ServedGrants(tuple(_served(accesses, problems)), tuple(skipped)))


def why_not_served(connection: ToolConnection, network: NetworkMode) -> str | None:
    """Why Cline cannot use this connection from a sandbox with this network, or None where it can."""
    match connection:
        case DirectHttp():
            return "Cline speaks MCP, not direct_http"
        case StreamableHttp(url) if network is not NetworkMode.FULL and not _LOOPBACK.fullmatch(url):
            return (
                connection_problem(connection)
                or f"the sandbox's network is {network.value!r}, and it is outside"
            )
        case StreamableHttp() | Stdio():
            return connection_problem(connection)
        case _:
            assert_never(connection)


def _served(accesses: Sequence[ToolAccess], problems: dict[str, str | None]) -> Iterator[McpGrant]:
    for access in accesses:
        if problems[access.name] is None and not isinstance(access.connection, DirectHttp):
            yield McpGrant(access.name, access.connection)


def _refusal(lacking: list[str]) -> str:
    more = len(lacking) - SHOWN_GRANTS
    others = f"; {more} more cannot either" if more > 0 else ""
    return f"Required tool grant {'; '.join(lacking[:SHOWN_GRANTS])}{others}. Make it optional, or drop it."
