"""Whether the gateway can be reached from inside a sandbox, asked before a launch (SPEC §11)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never
from urllib.parse import SplitResult, urlsplit

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.bash_dial import (
    CannotDial,
    Connected,
    Dialled,
    NotConnected,
    dial,
    shown_bytes,
)
from clinebox.adapters.gateway.app import HEALTHY
from clinebox.adapters.gateway.headers import MARKER
from clinebox.adapters.gateway.targets import HEALTH_PATH
from clinebox.domain.ports import Sandbox, SandboxFailure
from clinebox.domain.preflight import shown_url

REACH_TIMEOUT_S: Final = 10.0
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r?\n")
_ANSWER_SHARE: Final = 0.8
"""Of the whole time; the rest is left to tell what came of it."""

# `read` keeps what came when its time is up (bash 4.0); it ends at a NUL, which no answer of ours has.
_ASK: Final = """
printf '%s' "$1" >&3
IFS= read -r -d '' -n 4096 -t "$2" answer <&3
printf '%s' "$answer"
"""


@dataclass(frozen=True, slots=True)
class Reached:
    """The gateway itself answered from inside."""


@dataclass(frozen=True, slots=True)
class NotTried:
    """Nothing speaks against it, and nothing is proved; `reason` is half a sentence."""

    reason: str


Reachability: TypeAlias = Reached | NotTried


@dataclass(frozen=True, slots=True)
class GatewayUnreachable:
    """Where the gateway was asked for, from where, and what came instead of it."""

    url: str
    where: str
    seen: str

    def __str__(self) -> str:
        return (
            f"The gateway cannot be reached at {self.url} from inside {self.where}: {self.seen}. Its public "
            "address must be one by which that sandbox reaches this host."
        )


async def reachable_from_inside(
    sandbox: Sandbox, url: str, *, timeout_s: float = REACH_TIMEOUT_S
) -> Result[Reachability, GatewayUnreachable | SandboxFailure]:
    """Ask for `<url>/health` from inside, with bash and nothing else; only the gateway's own answer counts.

    `url` is the gateway's address without a session, such as `http://host:40123`. Success(NotTried) where
    bash cannot tell: it speaks no TLS, so of an https address only that its port takes connections is seen;
    or it was built without `/dev/tcp`. Failure(GatewayUnreachable) within `timeout_s`;
    Failure(SandboxFailure) when the sandbox could not run the question.
    """
    where = f"the {sandbox.description.provider} sandbox ({sandbox.description.containment})"
    parts = _parts(url)
    if parts is None:
        return Failure(GatewayUnreachable(shown_url(url), where, "this is no http address of a host"))
    asked = await _ask(sandbox, parts, timeout_s)
    if not is_successful(asked):
        return Failure(asked.failure())
    judged = _judged(asked.unwrap(), tls=parts.scheme == "https")
    if isinstance(judged, str):
        return Failure(GatewayUnreachable(shown_url(url), where, judged))
    return Success(judged)


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable and "@" not in parts.netloc else None


async def _ask(sandbox: Sandbox, parts: SplitResult, timeout_s: float) -> Result[Dialled, SandboxFailure]:
    host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]
    path = parts.path.rstrip("/") + HEALTH_PATH.decode("ascii")
    request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n"
    script = _ASK if parts.scheme == "http" else ""
    patience = f"{timeout_s * _ANSWER_SHARE:.3f}"
    return await dial(sandbox, host, port, script, request, patience, timeout_s=timeout_s)


def _judged(dialled: Dialled, *, tls: bool) -> Reachability | str:
    """What was learnt, or what came instead of the gateway."""
    match dialled:
        case Connected() if tls:
            return NotTried("the port takes connections, and bash speaks no TLS to ask who listens there")
        case Connected(printed=answer):
            return _answer(answer)
        case NotConnected(reason=reason):
            return f"no connection came about ({reason})"
        case CannotDial(reason=reason):
            return NotTried(reason)
        case _:
            assert_never(dialled)


def _answer(answer: bytes) -> Reachability | str:
    if not answer:
        return "the port took the connection, and no answer came"
    status = _STATUS_LINE.match(answer)
    if status is None:
        return f"something else listens there, which speaks no HTTP and sent {shown_bytes(answer)!r}"
    head, _, body = answer.partition(b"\r\n\r\n")
    if int(status[1]) != 200:  # noqa: PLR2004 - RFC 9110 §15.3.1
        return f"the answer was {shown_bytes(status[0])!r}"
    if MARKER + b": health" not in head.lower().split(b"\r\n") or HEALTHY not in body:
        return "another server than the gateway answered with HTTP 200"
    return Reached()
