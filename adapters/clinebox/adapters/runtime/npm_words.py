"""What npm printed when it failed, as a typed trouble and the one line that tells something."""

from __future__ import annotations

import re
from typing import Final

from clinebox.adapters.runtime.failure import TRY_AGAIN, USE_TARBALL, RuntimeFailure, RuntimeTrouble
from clinebox.domain.cline.pins import Pin
from clinebox.domain.one_line import excerpt

LINE_CHARS: Final = 200
LAST_LINES: Final = 3

_CODE: Final = re.compile(rb"^npm (?:error|ERR!) code (\w+)", re.MULTILINE)
"""npm 10 and 11 print `npm error`, older ones `npm ERR!`."""
_PREFIX: Final = re.compile(r"^npm (?:error|ERR!) ?(?:network |notarget |[0-9]{3} )?")
_NOISE: Final = re.compile(
    # npm 11.19: codes first, then the sentence, then a stack and the error's fields, then where its log is.
    r"(?:code|syscall|errno) |\s+(?:at|code|errno|syscall|address|port|type)\b|[\s{}]*$|A complete log"
)
_OFFLINE: Final = (
    b"ENOTFOUND", b"EAI_AGAIN", b"ECONNREFUSED", b"ECONNRESET", b"ETIMEDOUT", b"ENETUNREACH", b"EHOSTUNREACH",
    b"ERR_SOCKET_TIMEOUT", b"ENOTCACHED", b"EPIPE", b"FETCH_ERROR",
)  # fmt: skip
"""Node's and npm's own codes for a network that is not there."""
_TROUBLE_OF: Final = {
    **dict.fromkeys(_OFFLINE, RuntimeTrouble.OFFLINE),
    b"ENOSPC": RuntimeTrouble.DISK_FULL,
    b"EDQUOT": RuntimeTrouble.DISK_FULL,
    b"EINTEGRITY": RuntimeTrouble.DIGEST_MISMATCH,
}
CHECK_NPM: Final = "check npm's registry and credentials (npm config list)"
_FIRST_WAY: Final = {
    RuntimeTrouble.OFFLINE: TRY_AGAIN,
    RuntimeTrouble.DISK_FULL: "free some space, also where npm_config_cache lies",
}


def npm_failed(pin: Pin, exit_code: int, said: bytes) -> RuntimeFailure:
    """The failure of an npm that ended by itself; its own code tells a missing network from a refusal."""
    code = _CODE.search(said)
    trouble = _TROUBLE_OF.get(code[1] if code else b"", RuntimeTrouble.REFUSED)
    what = "could not reach the registry" if trouble is RuntimeTrouble.OFFLINE else "failed"
    named = code[1].decode("ascii", "replace") if code else f"exit {exit_code}"
    words = next(iter(_telling(said)), "npm said nothing")
    ways = (_FIRST_WAY.get(trouble, CHECK_NPM), USE_TARBALL)
    return RuntimeFailure(trouble, f"npm pack {pin.spec} {what} ({named}): {words}", ways)


def npm_overran(pin: Pin, timeout_s: float, said: bytes) -> RuntimeFailure:
    """The failure of an npm that had to be killed, with its last words."""
    words = " / ".join(_telling(said)[-LAST_LINES:]) or "nothing"
    message = f"npm pack {pin.spec} took longer than {timeout_s:g} s and was killed; its last words: {words}"
    return RuntimeFailure(RuntimeTrouble.TIMED_OUT, message, (TRY_AGAIN, USE_TARBALL))


def _telling(said: bytes) -> list[str]:
    lines = [_PREFIX.sub("", line) for line in said.decode("utf-8", "replace").splitlines()]
    return [excerpt(line, LINE_CHARS).rstrip(".") for line in lines if not _NOISE.match(line)]
