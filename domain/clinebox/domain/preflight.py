"""The preflight verdict: may a run start, given what one probe of the model server saw (SPEC §7)?

Only a 401 refuses: it can mean nothing but a rejected credential. A 403 is as well an egress proxy, a
policy for one path or a quota, and the probe cannot tell which. To refuse a run that would have worked
cannot be made good; to let one through costs only the diagnosis.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from clinebox.domain.bounded_json import Mask
from clinebox.domain.one_line import excerpt

REJECTED_CREDENTIAL_STATUS: Final = 401
NAME_LIMIT_CHARS: Final = 300
"""Of an endpoint, a model or a reason in the sentence."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The endpoint answered with this HTTP status."""

    http_status: int


@dataclass(frozen=True, slots=True)
class Redirected:
    """It answered 3xx; not followed, since that would hand the key to whatever `location` names."""

    http_status: int
    location: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Nothing came within this time."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class ConnectionRefused:
    """Nobody listens there."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The probe could not be sent: the configuration has no certain value. `reason` names the setting."""

    reason: str


@dataclass(frozen=True, slots=True)
class ProbeBroke:
    """Any other exception, by its class alone: its text may quote a header, and so the key (h11 does)."""

    exception_class: str


@dataclass(frozen=True, slots=True)
class CannotAsk:
    """Nothing could be sent from where it was to be asked, a sandbox say; `reason` is half a sentence."""

    reason: str


Observation: TypeAlias = (
    Answered | Redirected | TimedOut | ConnectionRefused | Unresolved | ProbeBroke | CannotAsk
)


@dataclass(frozen=True, slots=True)
class Proceed:
    """Start; `note` is one line for the log. `conclusive` when the probe succeeded."""

    note: str
    conclusive: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """Do not start; `sentence` says which credential to rotate."""

    sentence: str


def verdict(
    observation: Observation, *, endpoint: str, model: str, key_variable: str | None, mask: Mask
) -> Proceed | Refuse:
    """Refuse on 401, proceed on everything else. Total; the key is in no sentence.

    `key_variable` is the environment variable that holds the key, None when the configuration itself does.
    Credentials in the endpoint and in a redirect's location are not shown; `mask` goes over every text.
    """
    asked = f"{shown_url(mask(endpoint))} for model {_shown(model, mask)}"
    match observation:
        case Answered(http_status=status) if status == REJECTED_CREDENTIAL_STATUS:
            return Refuse(_rejected(asked, None if key_variable is None else _shown(key_variable, mask)))
        case Answered(http_status=status) if 200 <= status < 300:  # noqa: PLR2004 - RFC 9110 §15.3
            return Proceed(f"The probe was answered with HTTP {status} by {asked}.", conclusive=True)
        case _:
            return Proceed(
                f"Preflight of {asked} is inconclusive: {_seen(observation, mask)}. The run goes on."
            )


def shown_url(url: str) -> str:
    """A URL on one line without what may be secret in it: user, password, query, fragment. Total.

    The user part ends at the last `@` before the path (RFC 3986 §3.2.1). Where no `host[:port]` is left then
    (a password with a bare `/` in it, a key in the port's place), less is shown, never more.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or not _SCHEME.fullmatch(scheme):
        scheme, separator, rest = "", "", url
    hierarchy = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority, slash, path = hierarchy.partition("/")
    host = authority.rpartition("@")[2]
    shown = f"{host}{slash}{path}" if _HOST.fullmatch(host) else _certain_part(rest)
    mark = "?…" if "?" in rest or "#" in rest else ""
    return excerpt(f"{scheme}{separator}{shown}", NAME_LIMIT_CHARS) + mark


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*", re.ASCII)
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]*\]|[^:@\[\]]*)(:[0-9]*)?", re.ASCII)


def _certain_part(rest: str) -> str:
    """What cannot be a password in a text that is no `[user@]host[:port]/path`."""
    if "@" in rest:
        return re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0].partition(":")[0]
    return rest.partition(":")[0] + ":…"


def _shown(text: str, mask: Mask) -> str:
    return excerpt(mask(text), NAME_LIMIT_CHARS)


def _rejected(asked: str, key_variable: str | None) -> str:
    refused = f"The model server rejected the credential (HTTP 401) at {asked}."
    if key_variable is None:
        return f"{refused} The key stands in the configuration itself: replace it there, then start again."
    return f"{refused} Rotate the key in the environment variable {key_variable}, then start again."


def _seen(observation: Observation, mask: Mask) -> str:
    match observation:
        case Answered(http_status=status):
            return f"it answered HTTP {status}"
        case Redirected(http_status=status, location=location):
            return (
                f"it answered HTTP {status} and points to {shown_url(mask(location))}, which was not followed"
            )
        case TimedOut(timeout_s=timeout_s):
            return f"no answer came within {timeout_s:g} s"
        case ConnectionRefused():
            return "the connection was refused"
        case Unresolved() | CannotAsk():
            return f"nothing was sent{_why_unsent(observation, mask)}"
        case ProbeBroke(exception_class=name):
            return f"the probe failed with {_shown(name, mask)}"
        case _:
            assert_never(observation)


def _why_unsent(observation: Unresolved | CannotAsk, mask: Mask) -> str:
    reason = _shown(observation.reason, mask)
    if isinstance(observation, CannotAsk):
        return f": {reason}"
    return f", for the configuration is unresolved ({reason})"
