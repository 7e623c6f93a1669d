"""Which values of an environment are secrets (SPEC §6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from clinebox.domain.secrets.masker import NotMasked, sentence_for, why_not_masked

_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|PRIVATE", re.IGNORECASE)

_HARMLESS_NAME: Final = re.compile(
    r"GIT_AUTHOR_\w+|(?:\w+_)?AUTHORS?(?:_NAME|_EMAIL|_DATE)?"  # AUTHor
    r"|SSH_AUTH_SOCK|XAUTHORITY|(?:GIT|SSH|SUDO)_ASKPASS"  # addresses of helpers
    r"|GPG_KEY"  # the public fingerprint in the official Python images
    r"|TOKENIZERS_PARALLELISM|(?:\w+_)?MAX(?:_\w+)?_TOKENS|(?:\w+_)?KEY(?:BOARD|MAP|TIMEOUT)(?:_\w+)?"
    r"|(?:NO|HTTPS?|FTP|ALL)_PROXY_BYPASS|(?:\w+_)?(?:BYPASS|PASSENGER)(?:_\w+)?",
    re.IGNORECASE,
)
"""Names that match by accident, or name what is public."""

_PATH: Final = re.compile(r"(?:~[\w.-]*|\.{1,2})?/|file:///|[A-Za-z]:[\\/]")
_KEY_LIKE: Final = re.compile(r"(?=.*[0-9])(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9+/]{16,}={0,2}")
"""base64 has `/` in its alphabet: one key in 64 begins with it. In doubt it is a secret."""


@dataclass(frozen=True, slots=True)
class EnvironmentSecrets:
    """What to mask, and what was left out though its name says secret."""

    values: tuple[str, ...]
    notes: tuple[str, ...]
    """One sentence a variable that is not masked; names the variable, never its value."""


def secrets_from_environment(env: Mapping[str, str], *, model_key: str | None = None) -> EnvironmentSecrets:
    """The values whose names say secret, and the resolved model key wherever it came from.

    Left out: harmless names (GIT_AUTHOR_NAME, SSH_AUTH_SOCK, …), paths, empty values. Left out and
    reported: values shorter than 8 characters and words of Cline's own records.

    >>> secrets_from_environment({"API_KEY": "sk-0123456789", "PASS_FILE": "/run/pass", "PASSWORD": "x"})
    ... # doctest: +NORMALIZE_WHITESPACE
    EnvironmentSecrets(values=('sk-0123456789',),
      notes=('PASSWORD: shorter than 8 characters: not masked where it stands alone; use a longer value',))
    """
    named = {name: value for name, value in sorted(env.items()) if _is_secret(name, value)}
    if model_key is not None and model_key.strip():
        named["model key"] = model_key
    reasons = {name: why_not_masked(value) for name, value in named.items()}
    values = {value for name, value in named.items() if reasons[name] is None}
    notes = (_note(name, reason) for name, reason in reasons.items() if reason is not None)
    return EnvironmentSecrets(tuple(sorted(values)), tuple(notes))


def is_path(value: str) -> bool:
    """Whether a value only says where something lies; a base64 key that begins with `/` is no path."""
    return _PATH.match(value) is not None and "\n" not in value.strip() and not _KEY_LIKE.fullmatch(value)


def _is_secret(name: str, value: str) -> bool:
    if not _SECRET_NAME.search(name) or _HARMLESS_NAME.fullmatch(name):
        return False
    return bool(value.strip()) and not is_path(value.strip())


def _note(name: str, reason: NotMasked) -> str:
    return f"{name}: {sentence_for(reason)}"
