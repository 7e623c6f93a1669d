"""Which paths the gateway knows: `/s/<token>/v1/…`, and nothing that could mean another place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

HEALTH_PATH: Final = b"/health"
_TARGET: Final = re.compile(rb"/s/([A-Za-z0-9_-]{1,128})/v1((?:/[^/]+)*)", re.ASCII)
_SEGMENT: Final = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+", re.ASCII)
"""RFC 3986 §3.3 `segment-nz`."""
_HIDDEN: Final = re.compile(rb"%(?:2f|5c|2e|25|3b|[01][0-9a-f]|7f)", re.IGNORECASE)
"""Encoded `/`, `\\`, `.`, `%`, `;` and controls: a server behind may decode once more than we do."""


@dataclass(frozen=True, slots=True)
class Target:
    """Whose call it is, and where it leads below the upstream's base URL."""

    token: str
    below: str
    """`""` or a path such as `/chat/completions`, percent-encoded as it came."""


def parse_target(raw_path: bytes) -> Target | None:
    """The target of a request's path as it stood on the wire; None for every other path. Total.

    An absolute form (RFC 9112 §3.2.2), an empty or dot segment, and encoded separators are no target, since
    what a proxy and the server behind it read differently leads out of the upstream's base URL.

    >>> parse_target(b"/s/abc/v1/chat/completions")
    Target(token='abc', below='/chat/completions')
    >>> parse_target(b"/s/abc/v1/../admin") is None
    True
    """
    found = _TARGET.fullmatch(raw_path)
    if found is None or not all(map(_is_plain, found[2].split(b"/")[1:])):
        return None
    return Target(found[1].decode("ascii"), found[2].decode("ascii"))


def _is_plain(segment: bytes) -> bool:
    """Whether a segment is a name to every server; `..;a` is `..` to some (Tomcat, Spring)."""
    name = segment.partition(b";")[0]
    return (
        _SEGMENT.fullmatch(segment) is not None
        and _HIDDEN.search(segment) is None
        and name not in (b"", b".", b"..")
    )
