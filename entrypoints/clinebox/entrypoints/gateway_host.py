"""The gateway inside this process: served where a sandbox reaches it, one session a run."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from clinebox.adapters.gateway import Gateway, SessionOptions, Upstream, new_session_token, serve_gateway
from clinebox.domain.ports import GatewayRoute, HostPort
from clinebox.entrypoints.model_access import GatewayAccess
from clinebox.entrypoints.proxies import by_proxy
from clinebox.entrypoints.run_request import ModelEndpoint

LOOPBACK: Final = GatewayRoute("127.0.0.1", "127.0.0.1")
"""For a sandbox on this host's own network."""

__all__ = ["GatewayHost", "new_session_token", "serving_gateway"]


@dataclass(frozen=True, slots=True)
class GatewayHost:
    """A gateway that is being served, and its address as sandboxes call it."""

    gateway: Gateway = field(repr=False)
    inside_url: str
    listens_at: HostPort

    def open(self, token: str | None = None, options: SessionOptions | None = None) -> GatewayAccess:
        """A session for one run. `token` as of `new_session_token`, where it must be masked before."""
        session = self.gateway.open_session(options, token=token)
        return GatewayAccess(session, self.inside_url, session.token, self.listens_at)


@contextlib.asynccontextmanager
async def serving_gateway(model: ModelEndpoint, route: GatewayRoute = LOOPBACK) -> AsyncIterator[GatewayHost]:
    """A gateway before this model server, on a free port, for as long as the context lasts.

    `route` is what the provider says of the network mode. OSError when it cannot listen there.
    """
    upstream = Upstream(model.base_url, model.api_key, trust_env=by_proxy(model.base_url))
    async with serve_gateway(gateway := Gateway(upstream), route.listen_host) as address:
        inside = f"[{route.inside_host}]" if ":" in route.inside_host else route.inside_host
        at = HostPort(route.listen_host, address.port)
        yield GatewayHost(gateway, f"http://{inside}:{address.port}", at)
