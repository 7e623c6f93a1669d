"""Whether the environment's proxies count for an address."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def by_proxy(url: str) -> bool:
    """Whether a call goes by HTTP_PROXY and the like: not to this very host, which no proxy reaches."""
    host = (urlsplit(url).hostname or "").lower()
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"
