"""What Cline is started with: arguments, environment, files, prompt (SPEC §10). Pure: values in, values out.

Measured with 3.0.57 and 3.0.65 (RUN.md). The key stands in one file and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from returns.result import Failure, Result, Success

from clinebox.domain import session_files as names
from clinebox.domain.cline.mcp import McpGrant, mcp_settings
from clinebox.domain.cline.prompt import PreparedPrompt
from clinebox.domain.cline.settings import (
    PROVIDER,
    ProviderSettings,
    global_settings,
    provider_settings,
    rules_file,
)
from clinebox.domain.one_line import excerpt

PROVIDERS_JSON: Final = f"{names.DATA_DIR}/settings/providers.json"
GLOBAL_SETTINGS_JSON: Final = f"{names.DATA_DIR}/settings/global-settings.json"
MCP_SETTINGS_JSON: Final = f"{names.DATA_DIR}/settings/cline_mcp_settings.json"
RULES_MD: Final = f"{names.CONFIG_DIR}/rules/clinebox.md"
CLINE_LOG: Final = f"{names.DATA_DIR}/logs/cline.log"

PRIVATE_MODE: Final = 0o600
STDIN_PROMPT_ARGUMENT: Final = " "
"""Cline sends `<argument>\\n\\n<stdin>`, trimmed; without an argument it refuses stdin (3.0.57, 3.0.65)."""
SECRET_SHORTEST_CHARS: Final = 8
"""As in masking: a shorter key may be part of any path by chance."""

_SHOWN_CHARS: Final = 120
_NAME_LIMIT_CHARS: Final = 300
_URL: Final = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.IGNORECASE | re.DOTALL)
_AUTHORITY: Final = re.compile(
    # RFC 3986, section 3.2: a bracketed IPv6 address or a name (not percent-encoded), and a port.
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]{2,})\]|(?P<name>[^\s\[\]@:/?#\\%<>\"^`{|}]+))(?::(?P<port>[0-9]{1,5}))?"
)
_PATH_TEXT: Final = re.compile(r"(?:/[^\s\\\"<>^`{|}]*)?")
_PORT_LIMIT: Final = 65_535


@dataclass(frozen=True, slots=True)
class UploadFile:
    """A file to write before the start; its content may hold the key, so it is never printed."""

    path: str
    content: bytes = field(repr=False)
    mode: int = PRIVATE_MODE


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What a run of Cline is made of. Paths are absolute, and as the sandbox sees them."""

    cline_path: str
    session_dir: str
    workdir: str
    provider: ProviderSettings
    prompt: PreparedPrompt
    system_text: str | None = None
    """Added to Cline's own system prompt."""
    disabled_tools: tuple[str, ...] = ()
    mcp: tuple[McpGrant, ...] = ()
    """Tool servers that are written to Cline's MCP settings; none of its values is put into argv or env."""
    sandbox_env: Mapping[str, str] = field(default_factory=dict)
    """The sandbox's own environment, as far as it is known: its NO_PROXY is kept."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How to start Cline: no part but `files` holds the key."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """Laid over the sandbox's own environment; the task's HOME and XDG variables are left alone."""
    files: tuple[UploadFile, ...]
    prompt: bytes = field(repr=False)
    """To be written into a pipe that is then closed: never a redirected file (SPEC §10)."""


def plan_launch(request: LaunchRequest) -> Result[LaunchPlan, str]:
    """How to start Cline for a request.

    Failure(sentence) when a path is not absolute or holds a NUL, the URL, model or key cannot be used, or the
    key also stands where the process list would show it. The key is never quoted.
    """
    return (
        checked_model_url(request.provider.base_url)
        .map(lambda url: replace(request, provider=replace(request.provider, base_url=url)))
        .bind(_planned)
    )


def _planned(request: LaunchRequest) -> Result[LaunchPlan, str]:
    return (
        checked_model_name(request.provider.model)
        .bind(lambda _: _checked_paths(request))
        .bind(lambda _: provider_settings(request.provider))
        .bind(lambda providers: mcp_settings(request.mcp).map(lambda mcp: _plan(request, providers, mcp)))
        .bind(lambda plan: _keyless(plan, request.provider.api_key))
    )


def checked_model_url(url: str) -> Result[str, str]:
    """The base URL, without blanks around it or slashes at its end, so that `/chat/completions` can follow.

    Failure(sentence) when it is no http(s) URL with a host, or holds credentials, a query or a fragment.
    What may be a secret in it is not quoted.

    >>> checked_model_url("http://127.0.0.1:8000/v1/").unwrap()
    'http://127.0.0.1:8000/v1'
    >>> checked_model_url("localhost:8000").failure()
    "the model URL 'localhost:8000' is no URL: give one such as http://host:8000/v1"
    """
    url = url.strip(" \t\r\n")
    parts = _URL.fullmatch(url)
    if parts is None or not parts[2]:
        return Failure(f"the model URL {_shown_url(url)!r} is no URL: give one such as http://host:8000/v1")
    if "@" in parts[2]:
        return Failure("the model URL holds credentials: give the key in an environment variable instead")
    if parts[4] is not None or parts[5] is not None:
        return Failure(
            "the model URL has a query or a fragment: it must end where /chat/completions can follow"
        )
    return _checked_parts(url, parts[2], parts[3])


def _checked_parts(url: str, authority: str, path: str) -> Result[str, str]:
    host = _AUTHORITY.fullmatch(authority)
    port = int(host["port"]) if host and host["port"] else 1
    if host is None or not authority.isprintable():
        return Failure(
            f"the model URL {_shown_url(url)!r} has no usable host: give one such as http://host:8000/v1"
        )
    if not 1 <= port <= _PORT_LIMIT:
        return Failure(
            f"the model URL {_shown_url(url)!r} has the port {port}: it must be 1 to {_PORT_LIMIT}"
        )
    if not _PATH_TEXT.fullmatch(path) or not path.isprintable():
        return Failure(
            f"the model URL {_shown_url(url)!r} holds a blank or a mark that must be percent-encoded"
        )
    return Success(url.rstrip("/"))


def _shown_url(url: str) -> str:
    """The URL up to a query, less what stands before an `@`: either may be a secret."""
    shown = url.partition("?")[0].partition("#")[0]
    return excerpt(f"…@{shown.rpartition('@')[2]}" if "@" in shown else shown, _SHOWN_CHARS)


def checked_model_name(name: str) -> Result[str, str]:
    """The name itself when it can stand in an argument list and in JSON.

    Failure(sentence) when it is blank, over 300 characters, starts with `-`, or holds a control character.

    >>> checked_model_name("-m").failure()
    "the model name '-m' starts with '-': Cline would take it for an option"
    """
    shown = excerpt(name, _SHOWN_CHARS)
    if not name.strip() or name != name.strip():
        return Failure(
            f"the model name {shown!r} is empty or has a blank at an end: give the server's name for it"
        )
    if name.startswith("-"):
        return Failure(f"the model name {shown!r} starts with '-': Cline would take it for an option")
    if len(name) > _NAME_LIMIT_CHARS or not name.isprintable():
        return Failure(
            f"the model name {shown!r} has a control character or over {_NAME_LIMIT_CHARS} characters: "
            "give the server's name for it"
        )
    return Success(name)


def _checked_paths(request: LaunchRequest) -> Result[None, str]:
    paths = {
        "Cline's path": request.cline_path,
        "the session directory": request.session_dir,
        "the work directory": request.workdir,
    }
    for what, path in paths.items():
        if not path.startswith("/") or "\0" in path:
            return Failure(f"{what} is {excerpt(path, _SHOWN_CHARS)!r}: give an absolute path without a NUL")
    return Success(None)


def _plan(request: LaunchRequest, providers: bytes, mcp: bytes) -> LaunchPlan:
    return LaunchPlan(
        argv=_argv(request),
        env=_env(request),
        files=tuple(_files(request, providers, mcp)),
        prompt=request.prompt.content,
    )


def _argv(request: LaunchRequest) -> tuple[str, ...]:
    # The blank comes last, after `--`: an argument without white space would be taken for a command.
    # fmt: off
    return (
        request.cline_path, "--json",
        "--auto-approve", "true",
        "--cwd", request.workdir,
        "--config", _in(request, names.CONFIG_DIR),
        "--data-dir", _in(request, names.DATA_DIR),
        "-P", PROVIDER,
        "-m", request.provider.model,
        "--", STDIN_PROMPT_ARGUMENT,
    )
    # fmt: on


def _env(request: LaunchRequest) -> dict[str, str]:
    data = _in(request, names.DATA_DIR)
    exempt = _no_proxy(request)
    return {
        "CLINE_DATA_DIR": data,
        "CLINE_PROVIDER_SETTINGS_PATH": _in(request, PROVIDERS_JSON),
        "CLINE_GLOBAL_SETTINGS_PATH": _in(request, GLOBAL_SETTINGS_JSON),
        "CLINE_MCP_SETTINGS_PATH": _in(request, MCP_SETTINGS_JSON),
        "CLINE_SESSION_DATA_DIR": f"{data}/sessions",
        "CLINE_DB_DATA_DIR": f"{data}/db",
        "CLINE_TEAM_DATA_DIR": f"{data}/teams",
        "CLINE_HOOKS_LOG_PATH": f"{data}/logs/hooks.jsonl",
        # Without it a `--cline-hub-daemon` stays behind, in a session of its own (3.0.57, 3.0.65).
        "CLINE_SESSION_BACKEND_MODE": "local",
        "CLINE_NO_AUTO_UPDATE": "1",
        # Shuts off data.cline.bot, whose feature flags could change a run's behaviour; the tools inherit it.
        "IS_TEST": "true",
        # Proxy variables apply to the model's calls too, loopback included; both spellings are read.
        "NO_PROXY": exempt,
        "no_proxy": exempt,
    }


def _no_proxy(request: LaunchRequest) -> str:
    known = (request.sandbox_env.get(name, "") for name in ("NO_PROXY", "no_proxy"))
    kept = [entry.strip() for value in known for entry in value.split(",") if entry.strip()]
    return ",".join(dict.fromkeys([*kept, *model_hosts(request.provider.base_url)]))


def model_hosts(base_url: str) -> tuple[str, ...]:
    """The host of a checked URL as NO_PROXY names it; an IPv6 address bare and in brackets (tools differ).

    >>> model_hosts("http://[::1]:8000/v1"), model_hosts("https://Models.example/v1")
    (('::1', '[::1]'), ('models.example',))
    """
    parts = _URL.fullmatch(base_url)
    host = _AUTHORITY.fullmatch(parts[2]) if parts else None
    if host is None:
        return ()
    ipv6 = host["ipv6"]
    return (ipv6, f"[{ipv6}]") if ipv6 else (host["name"].lower(),)


def _files(request: LaunchRequest, providers: bytes, mcp: bytes) -> Iterator[UploadFile]:
    yield UploadFile(_in(request, PROVIDERS_JSON), providers)
    yield UploadFile(_in(request, GLOBAL_SETTINGS_JSON), global_settings(request.disabled_tools))
    if request.mcp:
        yield UploadFile(_in(request, MCP_SETTINGS_JSON), mcp)
    if request.system_text is not None and request.system_text.strip():
        yield UploadFile(_in(request, RULES_MD), rules_file(request.system_text))


def _in(request: LaunchRequest, name: str) -> str:
    return f"{request.session_dir.rstrip('/')}/{name}"


def _keyless(plan: LaunchPlan, key: str | None) -> Result[LaunchPlan, str]:
    """SPEC §6: never in any argv. A key that is also the model's name or part of a path would be."""
    if key is None or len(key) < SECRET_SHORTEST_CHARS:
        return Success(plan)
    if any(key in text for text in (*plan.argv, *plan.env.values())):
        return Failure(
            "the model key is also part of a path, the model's name or its host, where the process list "
            "shows it: use another key, or keep it out of there"
        )
    return Success(plan)
