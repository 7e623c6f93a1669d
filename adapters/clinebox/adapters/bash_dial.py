"""Bash as a TCP client inside a sandbox: the one that every sandbox is sure to have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from returns.result import Result

from clinebox.domain.one_line import excerpt
from clinebox.domain.ports import Command, ExecResult, Sandbox, SandboxFailure

SHOWN_CHARS: Final = 120
_CONNECTED: Final = b"connected\n"
_CONNECT_FAILED: Final = 3

# bash(1), "REDIRECTION": `/dev/tcp/host/port`. A peer that resets must not end bash by SIGPIPE.
_DIAL: Final = """
trap '' PIPE
exec 3<>"/dev/tcp/$1/$2" || exit 3
shift 2
echo connected
"""


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection came about; this is what the script printed."""

    printed: bytes


@dataclass(frozen=True, slots=True)
class NotConnected:
    """None came about; the reason is half a sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class CannotDial:
    """Bash itself could not be asked; the reason is half a sentence."""

    reason: str


Dialled: TypeAlias = Connected | NotConnected | CannotDial


async def dial(
    sandbox: Sandbox,
    host: str,
    port: int,
    script: str,
    *words: str,
    stdin: bytes = b"",
    timeout_s: float,
) -> Result[Dialled, SandboxFailure]:
    """Connect from inside, and run a script with the connection as descriptor 3 and the words as `$1`….

    The words stand in the process list there: a secret goes in by `stdin`. `timeout_s` bounds all of it;
    what the script printed until then is kept.
    """
    # The C locale: bash's own words for what failed are read below, and bytes are counted as bytes.
    argv = ("bash", "-p", "-c", _DIAL + script, "bash", host, str(port), *words)
    ran = await sandbox.exec(Command(argv, env={"LC_ALL": "C"}, stdin=stdin), timeout_s=timeout_s)
    return ran.map(lambda result: _dialled(result, timeout_s))


def _dialled(ran: ExecResult, timeout_s: float) -> Dialled:
    if ran.stdout.startswith(_CONNECTED):
        return Connected(ran.stdout[len(_CONNECTED) :])
    if ran.timed_out:
        return NotConnected(f"none within {timeout_s:g} s")
    reason = _reason(ran.stderr)
    if ran.exit_code != _CONNECT_FAILED:
        return CannotDial(f"bash could not be asked there (exit code {ran.exit_code}: {reason})")
    if reason == "No such file or directory":
        return CannotDial("the bash there was built without /dev/tcp")
    return NotConnected(reason)


def _reason(stderr: bytes) -> str:
    """`bash: connect: Connection refused`: its last part says why; the lines after it say it again."""
    first = stderr.lstrip().partition(b"\n")[0]
    return shown_bytes(first.rpartition(b": ")[2]) or "no reason given"


def shown_bytes(data: bytes) -> str:
    """Foreign bytes for one line of a message, at most `SHOWN_CHARS` characters."""
    return excerpt(data[: 4 * SHOWN_CHARS].decode("utf-8", "replace"), SHOWN_CHARS)
