"""The shell texts that act on a session directory from outside: launch, stop, expire, remove (SPEC §5).

Pure builders for `bash -p -c TEXT` (bash 4 or newer). Every foreign value is quoted; none is ever code.
"""

from __future__ import annotations

import shlex
from enum import IntEnum, StrEnum
from typing import Final, NewType

from returns.result import Failure, Result, Success

from clinebox.domain import session_files as names
from clinebox.domain.outcome.model import StoppedBy

SessionDirectory = NewType("SessionDirectory", str)
"""An absolute path in the sandbox, without a trailing slash, that a removal may delete."""


class ShellExit(IntEnum):
    """What the texts exit with when they did not do their work (sysexits.h where it has a word)."""

    BAD_BOOTSTRAP = 65
    """bash is too old, or cannot parse the supervisor."""
    CANNOT_WRITE = 73
    """The session directory is missing or cannot be written."""
    FENCED = 75
    """A stop, or another launch, made the claim first: nothing was started."""


class StopAnswer(StrEnum):
    """The one word that a stop prints."""

    FENCED = "fenced"
    """The stop came before the launch; it wrote the receipt, and nothing can be launched any more."""
    REQUESTED = "requested"
    """A supervisor is there, or was: its receipt will follow."""
    FINISHED = "finished"
    """A receipt was there already."""


def session_directory(path: str) -> Result[SessionDirectory, str]:
    """The path if it can be a session directory.

    Failure(reason) when it is relative, the root, holds NUL, or a `.` or `..` that would make a removal hit
    another place.
    """
    trimmed = path.rstrip("/")
    if not path.startswith("/") or not trimmed:
        return Failure(f"session directory {path!r}: give an absolute path below /")
    if "\0" in path or {".", ".."} & set(trimmed.split("/")):
        return Failure(f"session directory {path!r}: it may hold neither NUL nor `.` or `..`")
    return Success(SessionDirectory(trimmed))


def launch_text(directory: SessionDirectory) -> str:
    """Check, claim, record the pid, become the supervisor.

    bash is first asked whether it can parse the scripts: a failed bootstrap could write no receipt. The
    claim is made by its absolute path, so that a launch delayed past a removal finds nothing to claim. No
    path stays in any argv, so that an agent's `pkill -f` finds nothing of ours by its directory.
    """
    return f"""{_head(directory)}
if [[ ${{BASH_VERSINFO[0]-0}} -lt 4 ]]; then
  echo "bash 4 or newer is needed" >&2
  exit {ShellExit.BAD_BOOTSTRAP}
fi
for script in {names.SUPERVISOR_SCRIPT} {names.RUNNER_SCRIPT}; do
  bash -n "$dir/$script" || exit {ShellExit.BAD_BOOTSTRAP}
done
set -C
if ! {{ printf 'launch %s\\n' "$$" > "$dir/{names.LAUNCH_CLAIM}"; }} 2> /dev/null; then
  [[ -e $dir/{names.LAUNCH_CLAIM} ]] && exit {ShellExit.FENCED}
  echo "the session directory cannot be written" >&2
  exit {ShellExit.CANNOT_WRITE}
fi
set +C
cd -- "$dir" || exit {ShellExit.CANNOT_WRITE}
exec 2>> {names.OUTPUT_LOG} || exec 2> /dev/null
unset OLDPWD
read -r stat < "/proc/$$/stat" && set -- ${{stat##*)}}
printf '%s %s\\n' "$$" "${{20}}" > {names.SUPERVISOR_PID}
exec -a cb-supervisor bash -p ./{names.SUPERVISOR_SCRIPT} .
"""


def stop_text(directory: SessionDirectory, by: StoppedBy) -> str:
    """Stop now, whatever state the launch is in; prints one word of `StopAnswer`.

    The request is left in any case: what else lies in the directory may be the agent's work. Before the
    launch the stop then makes the claim, so that no launch can win any more, and writes the receipt itself.
    The nonce proves that it is before: a supervisor removes it first of all.
    """
    return f"""{_head(directory)}
by={shlex.quote(by.value)}
umask 077
mkdir -p -- "$dir" && cd -- "$dir" || exit {ShellExit.CANNOT_WRITE}
{_request(names.STOP_REQUEST)}
[[ -e {names.RECEIPT} ]] && {{ echo {StopAnswer.FINISHED}; exit 0; }}
set -C
{{ printf 'stop\\n' > "$dir/{names.LAUNCH_CLAIM}"; }} 2> /dev/null
set +C
nonce=
read -r owner _ 2> /dev/null < {names.LAUNCH_CLAIM}
read -r nonce 2> /dev/null < {names.NONCE}
[[ $owner == stop && $nonce =~ ^[A-Za-z0-9_-]+$ ]] || {{ echo {StopAnswer.REQUESTED}; exit 0; }}
printf '{{"cleanup_confirmed":true,"error":null,"nonce":"%s","stopped_by":"%s"}}\\n' "$nonce" "$by" \\
  > {names.RECEIPT}.new && mv -f {names.RECEIPT}.new {names.RECEIPT} || exit {ShellExit.CANNOT_WRITE}
rm -f {names.NONCE}
echo {StopAnswer.FENCED}
"""


def expire_text(directory: SessionDirectory) -> str:
    """Time the run out now, as its deadline would."""
    return f"""{_head(directory)}
by=deadline
umask 077
cd -- "$dir" || exit {ShellExit.CANNOT_WRITE}
{_request(names.EXPIRE_REQUEST)}
"""


def remove_text(directory: SessionDirectory) -> str:
    """Retire the session directory by one rename, then delete it; also what earlier tries left retired.

    A launch that was delayed finds no directory to claim while the deletion goes on. Exits with CANNOT_WRITE
    when something was left, under `<directory>.retired.<n>`, for the next try.
    """
    return f"""{_head(directory)}
if [[ -e $dir || -L $dir ]]; then
  n=0
  while [[ -e $dir.retired.$n || -L $dir.retired.$n ]]; do n=$((n + 1)); done
  mv -- "$dir" "$dir.retired.$n" || exit {ShellExit.CANNOT_WRITE}
fi
for retired in "$dir".retired.*; do
  [[ -e $retired || -L $retired ]] || continue
  rm -rf -- "$retired" || status={ShellExit.CANNOT_WRITE}
done
exit "${{status-0}}"
"""


def wake_text(directory: SessionDirectory) -> str:
    """Let a supervisor go on that somebody stopped (SIGSTOP); does nothing to any other."""
    return f"""{_head(directory)}
cd -- "$dir" || exit {ShellExit.CANNOT_WRITE}
{_WAKE}
exit 0
"""


_WAKE: Final = f"""{{ read -r pid start < {names.SUPERVISOR_PID} && read -r stat < "/proc/$pid/stat" \\
  && set -- ${{stat##*)}} && [[ $1 == T && ${{20}} == "$start" ]] \\
  && kill -s CONT "$pid"; }} 2> /dev/null || :"""


def _head(directory: SessionDirectory) -> str:
    return f"dir={shlex.quote(directory)}"


def _request(name: str) -> str:
    """Written aside and renamed, so that the supervisor never reads half a word."""
    aside = f"{name}.new.$$"
    written = f"printf '%s\\n' \"$by\" > {aside} && mv -f {aside} {name} || exit {ShellExit.CANNOT_WRITE}"
    return f"{written}\n{_WAKE}"
