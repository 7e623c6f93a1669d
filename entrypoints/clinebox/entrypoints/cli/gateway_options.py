"""The words of `gateway` and `preflight` as checked values; each mistake is one sentence and exit code 2."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from returns.pipeline import is_successful

from clinebox.domain.cline.launch import checked_model_name, checked_model_url
from clinebox.domain.preflight import shown_url
from clinebox.entrypoints.cli import run_options
from clinebox.entrypoints.cli.errors import CliError
from clinebox.entrypoints.proxies import by_proxy

TOKEN_CHARS: Final = (16, 128)
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
_LISTEN: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/]+):([0-9]{1,5})", re.ASCII)
_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A checked model server; the key is shown nowhere."""

    url: str
    model: str
    key: str | None = field(repr=False)
    key_variable: str | None

    @property
    def by_proxy(self) -> bool:
        """Whether the environment's proxies count."""
        return by_proxy(self.url)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Who may use a gateway that runs alone."""

    operator: str | None = field(repr=False)
    operator_variable: str | None
    session: str | None = field(repr=False)
    session_variable: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gateway listens, and how it is called."""

    listen: str
    host: str
    port: int
    public_url: str | None


def model_server(
    option: str, url: str, model: str, key_variable: str | None, environment: Mapping[str, str]
) -> ModelServer:
    """The server that an option names, with the key from the environment."""
    base_url = run_options.usable(checked_model_url(url), lambda sentence: f"{option}: {sentence}")
    name = run_options.usable(checked_model_name(model), lambda sentence: f"--model: {sentence}")
    key = run_options.api_key(key_variable, environment)
    if key is not None and " " in key:
        raise CliError(f"--api-key-env: what {key_variable!r} holds cannot stand in an HTTP header")
    return ModelServer(base_url, name, key, key_variable)


def tokens(
    operator_variable: str | None,
    session_variable: str | None,
    key: str | None,
    environment: Mapping[str, str],
) -> Tokens:
    """The operator's token, or one session's, or both; they differ from each other and from the key."""
    if operator_variable is None and session_variable is None:
        raise CliError(
            "nobody could use this gateway: give --operator-token-env VAR to open sessions at /sessions, or "
            "--session-token-env VAR for one lasting session"
        )
    operator = _token("--operator-token-env", operator_variable, environment)
    session = _token("--session-token-env", session_variable, environment)
    if session is not None and session == operator:
        raise CliError(
            "--session-token-env: it is the operator's token, with which a sandbox could open sessions: "
            "give another"
        )
    if key is not None and key in (operator, session):
        raise CliError("--api-key-env: the model server's key must not be one of the gateway's own tokens")
    return Tokens(operator, operator_variable, session, session_variable)


def listen_place(listen: str, public_url: str | None) -> Place:
    """Where to listen, and an address by which others reach it."""
    found = _LISTEN.fullmatch(listen)
    if found is None or int(found[2]) > _LAST_PORT:
        raise CliError(f"--listen: {listen!r} is no HOST:PORT such as 127.0.0.1:8787 or [::1]:8787")
    host = found[1].strip("[]")
    if public_url is not None:
        return Place(listen, host, int(found[2]), _public_url(public_url))
    address = _address(host)
    if address is not None and address.is_unspecified:
        raise CliError(
            f"--listen: {listen} is every address of this host, and none that a sandbox can call: give "
            "--public-url URL too, such as http://this-host:8787"
        )
    return Place(listen, host, int(found[2]), None)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def calls_path(path: Path | None) -> Path | None:
    """A directory for records, made and tried."""
    if path is None:
        return None
    from clinebox.adapters.gateway.calls_directory import CallsDirectory  # noqa: PLC0415 - brings httpx

    try:
        return CallsDirectory.create(path.absolute()).path
    except OSError as error:
        reason = error.strerror or error
        raise CliError(f"--calls-dir: {str(path)!r} cannot be written: {reason}") from error


def _public_url(url: str) -> str:
    checked = checked_model_url(url)
    if not is_successful(checked):
        raise CliError(
            f"--public-url: {shown_url(url)!r} is no address of a gateway: give one such as "
            "http://this-host:8787, without a user, a query or a fragment"
        )
    return checked.unwrap()


def _token(option: str, variable: str | None, environment: Mapping[str, str]) -> str | None:
    if variable is None:
        return None
    token = environment.get(variable, "").strip()
    if not token:
        raise CliError(f"{option}: the environment variable {variable!r} is not set, or is empty")
    least, most = TOKEN_CHARS
    if not (_TOKEN.fullmatch(token) and least <= len(token) <= most):
        raise CliError(
            f"{option}: what {variable!r} holds is no token: it must be {least} to {most} letters, digits, "
            "- and _ (openssl rand -hex 32 makes one)"
        )
    return token
