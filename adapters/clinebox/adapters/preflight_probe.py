"""The probe of preflight: one request to the model server, before anything expensive (SPEC §7)."""

from __future__ import annotations

import asyncio
from typing import Final

import httpx

from clinebox.adapters.gateway.failures import causes_of
from clinebox.adapters.gateway.headers import is_header_word
from clinebox.adapters.gateway.upstream import checked_base_url
from clinebox.domain.json_value import JsonValue
from clinebox.domain.preflight import (
    Answered,
    ConnectionRefused,
    Observation,
    ProbeBroke,
    Redirected,
    TimedOut,
    Unresolved,
)

PROBE_TIMEOUT_S: Final = 10.0
_FIRST_REDIRECT: Final = 300
_FIRST_ERROR: Final = 400


async def probe_model_server(
    base_url: str,
    *,
    model: str,
    key: str | None,
    timeout_s: float = PROBE_TIMEOUT_S,
    trust_env: bool = True,
) -> Observation:
    """What one POST of a one-token completion to `<base_url>/chat/completions` sees; never raises.

    `timeout_s` bounds the whole of it. Redirects are not followed, or the key would go where they lead; the
    proxies of the environment count where `trust_env`. Nothing of the answer is read but its head.
    """
    try:
        url = checked_base_url(base_url).rstrip("/") + "/chat/completions"
    except ValueError as error:
        return Unresolved(str(error))
    if key is not None and not is_header_word(key):
        return Unresolved("the key has a character that no HTTP header can carry")
    try:
        async with asyncio.timeout(timeout_s):
            return await _ask(url, model, key, trust_env=trust_env)
    except TimeoutError:
        return TimedOut(timeout_s)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return _broken(error)


def probe_body(model: str) -> dict[str, JsonValue]:
    """A completion of one token."""
    return {"model": model, "messages": [{"role": "user", "content": "ping"}], "max_tokens": 1}


async def _ask(url: str, model: str, key: str | None, *, trust_env: bool) -> Observation:
    body = probe_body(model)
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    # The bound is the caller's, over all of it: httpx would count each read anew.
    async with (
        httpx.AsyncClient(timeout=None, follow_redirects=False, trust_env=trust_env) as client,  # noqa: S113
        client.stream("POST", url, json=body, headers=headers) as response,
    ):
        location = response.headers.get("location")
        if location is not None and _FIRST_REDIRECT <= response.status_code < _FIRST_ERROR:
            return Redirected(response.status_code, location)
        return Answered(response.status_code)


def _broken(error: Exception) -> Observation:
    """By class alone, that of the first cause: its text may quote a header, and so the key."""
    causes = list(causes_of(error))
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return ConnectionRefused()
    return ProbeBroke(type(causes[-1]).__name__)
