"""The cleanup receipt: what the supervisor swears about the end of a run (SPEC §4)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeVar

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.domain.json_value import JsonValue, as_bool, as_int, as_text, parse_json
from clinebox.domain.outcome.model import StoppedBy

RECEIPT_LIMIT_BYTES: Final = 64 * 1024
"""A larger payload is no receipt. Every bound below keeps a rendered receipt under it."""
ERROR_LIMIT_CHARS: Final = 2_000
COMMAND_LIMIT_CHARS: Final = 160
NONCE_LIMIT_CHARS: Final = 128
SURVIVORS_LIMIT: Final = 32
NOTES_LIMIT: Final = 20
NOTE_LIMIT_CHARS: Final = 120
MAX_EXACT_INT: Final = 2**53
"""Integers above are no pid, size or time of ours."""

_Value = TypeVar("_Value")


class ReceiptTrouble(StrEnum):
    """Why a payload is no receipt at all."""

    TOO_LARGE = "too_large"
    NOT_JSON = "not_json"
    """Also what was cut in the middle."""
    NOT_A_MAPPING = "not_a_mapping"
    WRONG_NONCE = "wrong_nonce"
    """No nonce, or another one, where one is expected: somebody else wrote it."""


@dataclass(frozen=True, slots=True)
class ReceiptFailure:
    """Why a payload was refused, in a sentence for people; it never quotes a nonce."""

    trouble: ReceiptTrouble
    message: str


@dataclass(frozen=True, slots=True)
class Survivor:
    """A process that outlived the harness: `age_s` from its own start, `command` bounded, or None."""

    pid: int
    age_s: float | None
    command: str


@dataclass(frozen=True, slots=True)
class CleanupReceipt:
    """How a run ended, by the one that ended it.

    `return_code` is 0..255 (128+N is signal N, 126 and 127 are "could not be run"), None when the harness
    never ran or its status is lost. `timed_out` is true exactly when our deadline ended the run.
    `started_at` and `ended_at` are epoch seconds. `notes` holds what the supervisor remarked, and which
    malformed fields were dropped.
    """

    cleanup_confirmed: bool
    return_code: int | None = None
    timed_out: bool = False
    error: str | None = None
    nonce: str | None = None
    stopped_by: StoppedBy | None = None
    survivors: tuple[Survivor, ...] = ()
    output_bytes: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Fields:
    """The payload's members, and a note for each that was dropped."""

    members: dict[str, JsonValue]
    notes: list[str] = field(default_factory=list)

    def read(self, name: str, convert: Callable[[JsonValue], _Value | None]) -> _Value | None:
        """The member as `convert` reads it; absent and null are None, malformed is None with a note."""
        value = self.members.get(name)
        if value is None:
            return None
        converted = convert(value)
        if converted is None:
            self.notes.append(f"{name} dropped: malformed")
        return converted


def parse_cleanup_receipt(
    payload: bytes, *, expected_nonce: str | None = None
) -> Result[CleanupReceipt, ReceiptFailure]:
    r"""Read a receipt; only `cleanup_confirmed is True` is positive evidence.

    Malformed optional fields are dropped with a note. Failure when the payload is larger than 64 KiB, no
    JSON, no mapping, or, where a nonce is expected, carries none or another (SPEC §4).

    >>> parse_cleanup_receipt(b'{"cleanup_confirmed": 1, "error": null}').unwrap().cleanup_confirmed
    False
    """
    if len(payload) > RECEIPT_LIMIT_BYTES:
        size = f"{len(payload):,} bytes, more than {RECEIPT_LIMIT_BYTES:,}"
        return _refused(ReceiptTrouble.TOO_LARGE, f"the cleanup receipt is too large: {size}")
    parsed = parse_json(payload)
    if not is_successful(parsed):
        return _refused(
            ReceiptTrouble.NOT_JSON, f"the cleanup receipt is no whole JSON text: {parsed.failure()}"
        )
    value = parsed.unwrap()
    if not isinstance(value, dict):
        return _refused(
            ReceiptTrouble.NOT_A_MAPPING, f"the cleanup receipt is no object but a {_kind(value)}"
        )
    return _checked(_receipt(_Fields(value)), expected_nonce)


def render_cleanup_receipt(receipt: CleanupReceipt) -> bytes:
    """The receipt as one line of JSON; parsing it gives the same receipt, bounds applied."""
    survivors = [{"pid": s.pid, "age_s": s.age_s, "command": s.command} for s in receipt.survivors]
    members = {
        "cleanup_confirmed": receipt.cleanup_confirmed,
        "return_code": receipt.return_code,
        "timed_out": receipt.timed_out,
        "error": receipt.error,
        "nonce": receipt.nonce,
        "stopped_by": receipt.stopped_by,
        "survivors": survivors,
        "output_bytes": receipt.output_bytes,
        "started_at": receipt.started_at,
        "ended_at": receipt.ended_at,
        "notes": list(receipt.notes),
    }
    text = json.dumps(members, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace") + b"\n"


class HarnessTerminationFailure(Exception):  # noqa: N818 - SPEC §4 names it; it is built, chained, then read
    """The end of a harness could not be confirmed. Its text names the harness alone.

    The receipt's own text is foreign (it may quote command lines), so it stays on `receipt_error` and never
    in the message that events and logs carry.
    """

    def __init__(self, harness: str, receipt_error: str | None) -> None:
        super().__init__(f"the end of {harness} was not confirmed: processes of the run may still be alive")
        self.harness = harness
        self.receipt_error = receipt_error


def harness_termination_failure(harness: str, receipt: CleanupReceipt) -> HarnessTerminationFailure | None:
    """The failure that a negative receipt proves; None for a positive one."""
    if receipt.cleanup_confirmed:
        return None
    return HarnessTerminationFailure(harness, receipt.error)


def is_harness_termination_failure(error: BaseException) -> bool:
    """Whether the error, or one of its explicit causes (`raise … from …`), is an unconfirmed end."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, HarnessTerminationFailure):
            return True
        seen.add(id(current))
        current = current.__cause__
    return False


def _receipt(fields: _Fields) -> CleanupReceipt:
    """Every field of the payload that is well formed; the legacy two-key form has no others."""
    confirmed = fields.members.get("cleanup_confirmed")
    if as_bool(confirmed) is None:
        fields.notes.append("cleanup_confirmed is neither true nor false: taken as false")
    written = fields.read("notes", _notes) or ()
    receipt = CleanupReceipt(
        cleanup_confirmed=confirmed is True,
        return_code=fields.read("return_code", _return_code),
        timed_out=fields.read("timed_out", as_bool) is True,
        error=fields.read("error", lambda value: _text(value, ERROR_LIMIT_CHARS)),
        nonce=fields.read("nonce", _nonce),
        stopped_by=fields.read("stopped_by", _stopped_by),
        survivors=fields.read("survivors", lambda value: _survivors(value, fields.notes)) or (),
        output_bytes=fields.read("output_bytes", _count),
        started_at=fields.read("started_at", _seconds),
        ended_at=fields.read("ended_at", _seconds),
    )
    return replace(receipt, notes=(*written, *fields.notes)[:NOTES_LIMIT])


def _checked(receipt: CleanupReceipt, expected_nonce: str | None) -> Result[CleanupReceipt, ReceiptFailure]:
    if expected_nonce is None or receipt.nonce == expected_nonce:
        return Success(receipt)
    found = "no nonce" if receipt.nonce is None else "another nonce than this session's"
    return _refused(
        ReceiptTrouble.WRONG_NONCE, f"the cleanup receipt carries {found}: the supervisor did not write it"
    )


def _refused(trouble: ReceiptTrouble, message: str) -> Result[CleanupReceipt, ReceiptFailure]:
    return Failure(ReceiptFailure(trouble, message))


def _kind(value: JsonValue) -> str:
    return "null" if value is None else type(value).__name__


def _text(value: JsonValue, limit_chars: int) -> str | None:
    """A bounded string that can always be encoded: JSON may smuggle lone surrogates in."""
    text = as_text(value)
    return None if text is None else text[:limit_chars].encode("utf-8", "replace").decode()


def _nonce(value: JsonValue) -> str | None:
    text = as_text(value)
    return text if text is not None and 0 < len(text) <= NONCE_LIMIT_CHARS and text.isascii() else None


def _return_code(value: JsonValue) -> int | None:
    code = as_int(value)
    return code if code is not None and 0 <= code <= 255 else None  # noqa: PLR2004 - a wait status' low byte


def _count(value: JsonValue) -> int | None:
    count = as_int(value)
    return count if count is not None and 0 <= count <= MAX_EXACT_INT else None


def _seconds(value: JsonValue) -> float | None:
    """A finite number of seconds from 0; `json` lets NaN, Infinity and huge integers through."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MAX_EXACT_INT else None  # false for NaN too


def _stopped_by(value: JsonValue) -> StoppedBy | None:
    return next((member for member in StoppedBy if member.value == value), None)


def _survivors(value: JsonValue, notes: list[str]) -> tuple[Survivor, ...] | None:
    """The first 32 well-formed entries; what is left out is noted."""
    if not isinstance(value, list):
        return None
    read = tuple(survivor for entry in value[:SURVIVORS_LIMIT] if (survivor := _survivor(entry)) is not None)
    if len(read) < len(value):
        notes.append(f"{len(value) - len(read)} survivors not listed: malformed, or over {SURVIVORS_LIMIT}")
    return read


def _survivor(entry: JsonValue) -> Survivor | None:
    if not isinstance(entry, dict):
        return None
    pid = _count(entry.get("pid"))
    if not pid:
        return None
    command = _text(entry.get("command"), COMMAND_LIMIT_CHARS) or ""
    return Survivor(pid=pid, age_s=_seconds(entry.get("age_s")), command=command)


def _notes(value: JsonValue) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    texts = (_text(entry, NOTE_LIMIT_CHARS) for entry in value[:NOTES_LIMIT])
    return tuple(text for text in texts if text is not None)
