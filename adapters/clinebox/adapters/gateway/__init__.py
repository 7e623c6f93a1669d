"""The gateway: one HTTP hop of clinebox's own in front of the model server (SPEC §11)."""

from clinebox.adapters.gateway.app import Gateway
from clinebox.adapters.gateway.bodies import CapturedBodies
from clinebox.adapters.gateway.sampling import Sampling
from clinebox.adapters.gateway.server import GatewayAddress, serve_gateway
from clinebox.adapters.gateway.session import GatewaySession, SessionOptions
from clinebox.adapters.gateway.tokens import new_session_token
from clinebox.adapters.gateway.upstream import Bounds, Upstream

__all__ = [
    "Bounds",
    "CapturedBodies",
    "Gateway",
    "GatewayAddress",
    "GatewaySession",
    "Sampling",
    "SessionOptions",
    "Upstream",
    "new_session_token",
    "serve_gateway",
]
