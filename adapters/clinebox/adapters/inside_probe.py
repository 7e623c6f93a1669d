"""The probe of preflight, sent from inside a sandbox (SPEC §7): what Cline will meet there."""

from __future__ import annotations

import json
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from returns.pipeline import is_successful

from clinebox.adapters.bash_dial import CannotDial, Connected, Dialled, NotConnected, dial
from clinebox.adapters.gateway.headers import is_header_word
from clinebox.adapters.gateway.upstream import checked_base_url
from clinebox.adapters.preflight_probe import PROBE_TIMEOUT_S, probe_body
from clinebox.domain.ports import Command, ExecResult, Sandbox, SandboxFailure
from clinebox.domain.preflight import (
    Answered,
    CannotAsk,
    ConnectionRefused,
    Observation,
    ProbeBroke,
    Redirected,
    TimedOut,
    Unresolved,
)

EXEC_MARGIN_S: Final = 5.0
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r?\n")
_LOCATION: Final = re.compile(rb"(?im)^location:[ \t]*([^\r\n]+)")
_CURLED: Final = re.compile(rb"(\d{3}) (.*)", re.DOTALL)
_FIRST_REDIRECT, _FIRST_ERROR = 300, 400

# The request holds the key, so it comes by stdin: words would stand in the process list.
_ASK: Final = """
IFS= read -r -d '' request
printf '%s' "$request" >&3
while IFS= read -r -t "$1" line <&3; do
  printf '%s\\n' "$line"
  [ -n "${line%$'\\r'}" ] || break
done
"""
_CURL: Final = "command -v curl >/dev/null || exit 4; exec curl -q --config -"
_NO_CURL: Final = 4
_CURL_TIMED_OUT: Final = 28
_CURL_FAULTS: Final = {
    6: "no address for its name",
    7: "no connection",
    35: "no TLS",
    52: "an empty answer",
    56: "a reset connection",
    60: "a certificate that is not trusted there",
}
"""curl(1), EXIT CODES."""


async def probe_from_inside(
    sandbox: Sandbox,
    base_url: str,
    *,
    model: str,
    key: str | None,
    timeout_s: float = PROBE_TIMEOUT_S,
) -> Observation:
    """What one POST of a one-token completion sees from inside the sandbox; never raises.

    By bash alone for http, past every proxy; by curl for https, with the proxies of the sandbox's own
    environment; CannotAsk where it has none. The key goes in by stdin: in no argument, no variable, no file.
    """
    try:
        parts = urlsplit(checked_base_url(base_url).rstrip("/") + "/chat/completions")
    except ValueError as error:
        return Unresolved(str(error))
    if key is not None and not is_header_word(key):
        return Unresolved("the key has a character that no HTTP header can carry")
    if parts.scheme == "https":
        return await _by_curl(sandbox, parts, model, key, timeout_s)
    return await _by_bash(sandbox, parts, model, key, timeout_s)


async def _by_bash(
    sandbox: Sandbox, parts: SplitResult, model: str, key: str | None, timeout_s: float
) -> Observation:
    asked = await dial(
        sandbox,
        parts.hostname or "",
        parts.port or 80,
        _ASK,
        f"{timeout_s:.3f}",
        stdin=_request(parts, model, key),
        timeout_s=timeout_s,
    )
    return _sandbox_failed(asked.failure()) if not is_successful(asked) else _seen(asked.unwrap(), timeout_s)


def _request(parts: SplitResult, model: str, key: str | None) -> bytes:
    body = json.dumps(probe_body(model))
    lines = [
        f"POST {parts.path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *([] if key is None else [f"Authorization: Bearer {key}"]),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode("utf-8")


def _seen(dialled: Dialled, timeout_s: float) -> Observation:
    match dialled:
        case Connected(printed=b""):
            return TimedOut(timeout_s)
        case Connected(printed=head):
            return _answered(head)
        case NotConnected(reason="Connection refused"):
            return ConnectionRefused()
        case NotConnected(reason=reason):
            return ProbeBroke(f"no connection ({reason})")
        case CannotDial(reason=reason):
            return CannotAsk(reason)


def _answered(head: bytes) -> Observation:
    status = _STATUS_LINE.match(head)
    if status is None:
        return ProbeBroke("an answer that is no HTTP")
    location = _LOCATION.search(head)
    return _of_status(int(status[1]), b"" if location is None else location[1])


def _of_status(status: int, location: bytes) -> Observation:
    if location and _FIRST_REDIRECT <= status < _FIRST_ERROR:
        return Redirected(status, location.decode("utf-8", "replace").strip())
    return Answered(status)


async def _by_curl(
    sandbox: Sandbox, parts: SplitResult, model: str, key: str | None, timeout_s: float
) -> Observation:
    config = _curl_config(parts.geturl(), model, key, timeout_s)
    command = Command(("bash", "-p", "-c", _CURL), env={"LC_ALL": "C"}, stdin=config)
    ran = await sandbox.exec(command, timeout_s=timeout_s + EXEC_MARGIN_S)
    return _sandbox_failed(ran.failure()) if not is_successful(ran) else _curled(ran.unwrap(), timeout_s)


def _curl_config(url: str, model: str, key: str | None, timeout_s: float) -> bytes:
    """curl(1), `--config`: values in double quotes, where a backslash goes before a quote and itself."""
    options = [
        ("url", url),
        ("header", "Content-Type: application/json"),
        *([] if key is None else [("header", f"Authorization: Bearer {key}")]),
        ("data-raw", json.dumps(probe_body(model))),
        ("output", "/dev/null"),
        ("write-out", "%{http_code} %{redirect_url}"),
        ("max-time", f"{timeout_s:.3f}"),
    ]
    quoted = [(name, value.replace("\\", "\\\\").replace('"', '\\"')) for name, value in options]
    return ("silent\n" + "".join(f'{name} = "{value}"\n' for name, value in quoted)).encode("utf-8")


def _curled(ran: ExecResult, timeout_s: float) -> Observation:
    if ran.exit_code == _NO_CURL:
        return CannotAsk("an https address is asked by curl, and the sandbox has none")
    told = _CURLED.fullmatch(ran.stdout)
    if told is not None and int(told[1]):
        return _of_status(int(told[1]), told[2])
    if ran.timed_out or ran.exit_code == _CURL_TIMED_OUT:
        return TimedOut(timeout_s)
    reason = _CURL_FAULTS.get(ran.exit_code or 0, "a fault")
    return ProbeBroke(f"{reason} (exit code {ran.exit_code} of curl)")


def _sandbox_failed(failure: SandboxFailure) -> Observation:
    return CannotAsk(f"the sandbox failed: {failure.message}")
