"""Whether the gateway answers from inside a sandbox: asked there, by what every sandbox has (SPEC §11)."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.domain.one_line import excerpt
from clinebox.domain.ports import Command, ExecResult, Sandbox

MARKER_LINE: Final = b"x-clinebox-gateway: health"
SHOWN_CHARS: Final = 200
_EXEC_MARGIN_S: Final = 5.0

ASK_BY_BASH: Final = """\
exec 3<>"/dev/tcp/$1/$2" || exit 7
printf 'GET /health HTTP/1.1\\r\\nHost: %s:%s\\r\\nConnection: close\\r\\n\\r\\n' "$1" "$2" >&3
IFS= read -r -d '' -n 4096 -t "$3" answer <&3
printf '%s' "$answer"
"""
"""bash(1), REDIRECTION: it opens /dev/tcp itself; no curl, no wget, no python."""
ASK_BY_CURL: Final = 'exec curl -sS -i --http1.1 -m "$3" "https://$1:$2/health"'


async def reachable_from_inside(sandbox: Sandbox, url: str, *, timeout_s: float) -> Result[None, str]:
    """Ask `GET <url>/health` from inside the sandbox; the answer must be the gateway's own.

    `url` is `http://host:port`, or https where the sandbox has curl. Failure with one sentence: what was
    asked from where, and what came. Within `timeout_s` and 5 s for the command itself.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    ask = ASK_BY_CURL if parts.scheme == "https" else ASK_BY_BASH
    seconds = str(max(1, round(timeout_s)))
    command = Command(("bash", "-c", ask, "ask-the-gateway", host, str(port), seconds))
    asked = await sandbox.exec(command, timeout_s=timeout_s + _EXEC_MARGIN_S)
    where = f"The gateway at {parts.scheme}://{host}:{port}"
    if not is_successful(asked):
        return Failure(f"{where} could not be asked from inside the sandbox: {asked.failure().message}")
    problem = _problem(asked.unwrap(), timeout_s)
    if problem is None:
        return Success(None)
    box = f"{sandbox.description.provider}/{sandbox.description.containment}"
    return Failure(f"{where} cannot be reached from inside the sandbox ({box}): {problem}")


def _problem(result: ExecResult, timeout_s: float) -> str | None:
    head = result.stdout.partition(b"\r\n\r\n")[0].lower()
    if head.startswith(b"http/1.1 200") and MARKER_LINE in head.split(b"\r\n"):
        return None
    if result.stdout:
        first = result.stdout.split(b"\r\n", 1)[0].decode("utf-8", "replace")
        return f"another service answered there, with {excerpt(first, SHOWN_CHARS)!r}."
    words = result.stderr.decode("utf-8", "replace").strip()
    if words:
        return f"{excerpt(words, SHOWN_CHARS)}."
    return f"no answer came within {timeout_s:g} s."
