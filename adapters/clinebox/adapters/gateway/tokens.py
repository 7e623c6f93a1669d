"""Session tokens: who may call, and on whose account."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final, Generic, TypeVar

TOKEN_BYTES: Final = 32

T = TypeVar("T")


def new_session_token() -> str:
    """A random token of 32 bytes, in URL-safe base64 without padding."""
    return secrets.token_urlsafe(TOKEN_BYTES)


class TokenTable(Generic[T]):
    """Live tokens, each with what it stands for.

    Tokens are found by their SHA-256, so the time of a look-up tells nothing of a token; the one found is
    then compared in constant time. A thousand sessions cost no more than one.
    """

    def __init__(self) -> None:
        self._holders: dict[bytes, tuple[str, T]] = {}

    def add(self, token: str, holder: T) -> None:
        """Let the token stand for `holder` from now on."""
        self._holders[_digest(token)] = (token, holder)

    def find(self, token: str) -> T | None:
        """Who holds this token; None for a wrong or ended one. Total."""
        found = self._holders.get(_digest(token))
        if found is None or not hmac.compare_digest(_encoded(found[0]), _encoded(token)):
            return None
        return found[1]

    def end(self, token: str) -> None:
        """Let the token stand for nothing; safe to call twice."""
        self._holders.pop(_digest(token), None)

    def holders(self) -> list[T]:
        """Everybody who holds a live token."""
        return [holder for _, holder in self._holders.values()]

    def __len__(self) -> int:
        return len(self._holders)


def _digest(token: str) -> bytes:
    return hashlib.sha256(_encoded(token)).digest()


def _encoded(token: str) -> bytes:
    return token.encode("utf-8", "surrogateescape")
