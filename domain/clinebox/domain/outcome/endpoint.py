"""Whether Cline called the model server that it was configured with (SURPRISES.md D, "invalid providers").

With a missing or invalid providers.json Cline does not complain and calls a public address (3.0.57).
"""

from __future__ import annotations

import re
from typing import Final

_URL: Final = re.compile(r"(https?)://([^/?#\s]+)([^?#\s]*)", re.IGNORECASE)
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}


def is_url(text: str) -> bool:
    """Whether the text is an absolute http or https address."""
    return _URL.match(text) is not None


def is_below(url: str, base_url: str) -> bool:
    """Whether a called address lies at or below the configured one.

    >>> is_below("http://Host:80/v1/chat/completions", "http://host/v1/")
    True
    >>> is_below("https://api.openai.com/v1/chat/completions", "http://host/v1")
    False
    """
    called, base = _parts(url), _parts(base_url)
    if called is None or base is None:
        return False
    return called[:2] == base[:2] and (called[2] == base[2] or called[2].startswith(f"{base[2]}/"))


def _parts(url: str) -> tuple[str, str, str] | None:
    match = _URL.match(url)
    if match is None:
        return None
    scheme, authority = match[1].lower(), match[2].lower()
    host = authority.rpartition("@")[2].removesuffix(_DEFAULT_PORTS[scheme])
    return scheme, host, match[3].rstrip("/")
