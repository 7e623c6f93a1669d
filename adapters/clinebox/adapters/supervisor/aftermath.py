"""What is found when a supervisor brought no receipt, and the negative receipt that says so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.supervisor.scripts import reaper_script
from clinebox.domain.json_value import as_int, parse_json
from clinebox.domain.ports import Command
from clinebox.domain.receipt import (
    ERROR_LIMIT_CHARS,
    CleanupReceipt,
    Survivor,
    parse_cleanup_receipt,
)

_IDENTITY: Final = re.compile(rb"([0-9]{1,10}) ([0-9]{1,20})\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Aftermath:
    """The run seen from outside: was the supervisor alive, how many were ended, who is alive."""

    supervisor_alive: bool
    supervisor_known: bool
    """False when no readable supervisor.pid said which process it is."""
    ended: int
    left: tuple[Survivor, ...]


def reaper_command(mode: str, *, marker: str, bound_s: float, identity: bytes) -> Command:
    """`bash -s` with the reaper on stdin; `identity` is supervisor.pid's content, whatever it holds."""
    found = _IDENTITY.fullmatch(identity)
    process = tuple(part.decode() for part in found.groups()) if found else ()
    bound_cs = str(max(1, round(bound_s * 100)))
    return Command(argv=("bash", "-p", "-s", "--", mode, marker, bound_cs, *process), stdin=reaper_script())


def read_aftermath(output: bytes) -> Result[Aftermath, str]:
    """The reaper's answer. Failure(reason) when it is none."""
    parsed = parse_json(output)
    if not is_successful(parsed):
        return Failure(f"no answer: {parsed.failure()}")
    value = parsed.unwrap()
    if not isinstance(value, dict) or as_int(value.get("ended")) is None:
        return Failure("no answer: not the reaper's object")
    listed = parse_cleanup_receipt(output)  # the list has the receipt's form, and its bounds
    return Success(
        Aftermath(
            supervisor_alive=value.get("supervisor") == "alive",
            supervisor_known=value.get("supervisor") in {"alive", "dead"},
            ended=as_int(value.get("ended")) or 0,
            left=listed.map(lambda receipt: receipt.survivors).value_or(()),
        )
    )


def lost_receipt(found: Result[Aftermath, str], *, refused: str, nonce: str) -> CleanupReceipt:
    """A negative receipt: the supervisor wrote none (`refused` says what was there), and this was found."""
    error = f"the supervisor left no receipt ({refused}); {_sentence(found)}"
    left = found.map(lambda seen: seen.left).value_or(())
    return CleanupReceipt(
        cleanup_confirmed=False, error=error[:ERROR_LIMIT_CHARS], nonce=nonce, survivors=left
    )


def _sentence(found: Result[Aftermath, str]) -> str:
    if not is_successful(found):
        return f"what is left could not be seen: {found.failure()}"
    seen = found.unwrap()
    who = "was alive without answering" if seen.supervisor_alive else "was dead"
    if not seen.supervisor_known:
        who = "could not be identified"
    left = ", ".join(str(survivor.pid) for survivor in seen.left) or "none"
    return f"it {who}; processes of the run ended from outside: {seen.ended}, still alive: {left}"
