"""The model server behind the gateway: one pooled client, and what its failures mean."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final, Self
from urllib.request import getproxies

import httpx

from clinebox.adapters.gateway.headers import Fields, is_header_word, request_fields
from clinebox.adapters.gateway.transport import OneServerTransport
from clinebox.domain.model_calls.faults import CLINE_SILENCE_LIMIT_S, SILENCE_TOLERANCE_S
from clinebox.domain.preflight import shown_url
from clinebox.domain.secrets.masker import Masker

KEEP_ALIVE_S: Final = 4.0
"""Idle upstream connections are dropped before the server's own 5 s (uvicorn, and so vLLM): a call sent
into a connection that is just being closed would fail for no fault of the server."""
_HTTPCORE_LOGGERS: Final = tuple(
    f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")
)
_PROXIED: Final = ("http", "https", "all")
"""Schemes that a proxy may be set for (httpx 0.28)."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where calls go. `base_url` is what a client would take (`http://host:8000/v1`); `key` is shown nowhere.

    ValueError for an address that is no http(s) URL, or has credentials, a query or a fragment in it, and
    for a key that no header can carry.
    """

    base_url: str
    key: str | None = field(default=None, repr=False)
    http2: bool = False
    """Offer HTTP/2 to an https upstream; needs the package h2."""
    trust_env: bool = True
    """Whether HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE count."""

    def __post_init__(self) -> None:
        checked_base_url(self.base_url)
        if self.key is not None and not is_header_word(self.key):
            raise ValueError("the model server's key has a character that no HTTP header can carry")

    def below_prefix(self, prefix: str) -> str:
        """The base URL with a path put before its own: `/ng-rollout/KEY` for one session's capture."""
        if not prefix:
            return self.base_url.rstrip("/")
        url = httpx.URL(self.base_url)
        path = "/" + prefix.strip("/") + url.raw_path.decode("ascii").rstrip("/")
        return str(url.copy_with(raw_path=path.encode("ascii")))


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a call may take; seconds and bytes."""

    connect_s: float = 10.0
    idle_s: float = 330.0
    """Without a byte from the upstream, or without the client taking one. Cline itself gives up after 300."""
    request_limit_bytes: int = 64 * 1024 * 1024
    client_patience_s: float = CLINE_SILENCE_LIMIT_S - SILENCE_TOLERANCE_S
    """A client that leaves after so long a silence gave up waiting: its call is recorded as a timeout."""
    keep_alive_s: float | None = None
    """Put an SSE comment into a stream that was silent for so long; None: never."""


class UpstreamClient:
    """One HTTP client for all sessions; `async with` opens and closes its pool.

    Redirects are never followed and cookies never kept: both would lend one session's call to another place.
    """

    def __init__(self, upstream: Upstream, bounds: Bounds) -> None:
        self.bounds = bounds
        self.masker = Masker([] if upstream.key is None else [upstream.key])
        """Covers the real key, should the server quote it in an error."""
        self._key = upstream.key
        self._cover = _KeyCover(self.masker)
        self._client = httpx.AsyncClient(
            follow_redirects=False,
            transport=_direct_transport(upstream),
            http2=upstream.http2,
            trust_env=upstream.trust_env,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            timeout=httpx.Timeout(None, connect=bounds.connect_s),  # silence is `Patience`'s
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEP_ALIVE_S
            ),
        )

    async def __aenter__(self) -> Self:
        for name in _HTTPCORE_LOGGERS:
            logging.getLogger(name).addFilter(self._cover)
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()
        for name in _HTTPCORE_LOGGERS:
            logging.getLogger(name).removeFilter(self._cover)

    async def send(
        self,
        method: str,
        url: str,
        received: Fields,
        content: AsyncIterable[bytes] | bytes,
        on_connected: Callable[[], None],
    ) -> httpx.Response:
        """Send a request; the response's head is there, its body not. Close the response in the end.

        The request is built by hand, so that httpx adds no field of its own but Host and the body's length.
        Raises httpx.TransportError; its text is not to be shown, since some quote a header and so the key.
        """

        async def trace(event: str, _info: object) -> None:
            # `http11.` or `http2.`: a connection, new or pooled, is this request's from here.
            if event.endswith(".send_request_headers.started"):
                on_connected()

        request = httpx.Request(
            method,
            url,
            headers=request_fields(received, self._key),
            content=content,
            extensions={"trace": trace, "timeout": self._client.timeout.as_dict()},
        )
        return await self._client.send(request, stream=True)


class _KeyCover(logging.Filter):
    """Covers the key where httpcore logs a response's fields (at DEBUG), and the server quoted it there."""

    def __init__(self, masker: Masker) -> None:
        super().__init__()
        self._masker = masker

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, its text covered."""
        record.msg, record.args = self._masker.mask_text(record.getMessage()), None
        return True


def _direct_transport(upstream: Upstream) -> httpx.AsyncBaseTransport | None:
    """The way for hundreds of connections; None (httpx's own) for HTTP/2, and where proxies are set."""
    proxied = upstream.trust_env and any(kind in getproxies() for kind in _PROXIED)
    if upstream.http2 or proxied:
        return None
    url = httpx.URL(upstream.base_url)
    return OneServerTransport(
        url,
        ssl_context=httpx.create_ssl_context(trust_env=upstream.trust_env) if url.scheme == "https" else None,
        keepalive_expiry_s=KEEP_ALIVE_S,
    )


def checked_base_url(base_url: str) -> str:
    """The URL itself. ValueError, without a credential in it, when it is none that calls can be sent to."""
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        raise ValueError("the base URL is no URL: give one such as http://host:8000/v1") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"the base URL {shown_url(base_url)!r} is no http or https address of a host")
    if url.userinfo or url.query or url.fragment:
        raise ValueError(
            f"the base URL of {url.host} has a user, a query or a fragment in it: leave these out, and give "
            "the key by its environment variable"
        )
    return base_url
