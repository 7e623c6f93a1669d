"""How Cline reaches its model, and who saw its calls: directly, or through a session of the gateway."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from clinebox.domain.ports import HostPort
from clinebox.entrypoints.run_request import ModelEndpoint

if TYPE_CHECKING:  # the gateway brings uvicorn and httpx, which a direct run need not import
    from clinebox.adapters.gateway.session import GatewaySession
    from clinebox.domain.model_calls.record import ModelCall


class ModelAccess(Protocol):
    """One run's way to its model."""

    @property
    def base_url(self) -> str:
        """What Cline is given, as it is called inside the sandbox."""
        ...

    @property
    def api_key(self) -> str | None:
        """The key that Cline is given."""
        ...

    @property
    def gateway_url(self) -> str | None:
        """The gateway that must answer from inside the sandbox before the launch; None: there is none."""
        ...

    @property
    def listens_at(self) -> HostPort | None:
        """The same as this host reaches it, for a sandbox that may reach nothing else."""
        ...

    def end(self) -> tuple[ModelCall, ...] | None:
        """Close the way, and tell each call that went over it; None where nobody watched. Safe twice."""
        ...


@dataclass(frozen=True, slots=True)
class DirectAccess:
    """Cline calls the model server itself, with the key in the sandbox; nobody sees its calls."""

    model: ModelEndpoint

    @property
    def base_url(self) -> str:
        """The server's own."""
        return self.model.base_url

    @property
    def api_key(self) -> str | None:
        """The real one."""
        return self.model.api_key

    @property
    def gateway_url(self) -> str | None:
        """None."""
        return None

    @property
    def listens_at(self) -> HostPort | None:
        """None."""
        return None

    def end(self) -> tuple[ModelCall, ...] | None:
        """Nothing is known."""
        return None


@dataclass(frozen=True, slots=True)
class GatewayAccess:
    """Cline calls the gateway with a token of this session's; the real key stays outside the sandbox."""

    session: GatewaySession
    gateway_url: str
    """`http://host:port`, as it is called inside the sandbox."""
    token: str = field(repr=False)
    listens_at: HostPort

    @property
    def base_url(self) -> str:
        """The session's address: a secret as long as the session lives, for the token stands in it."""
        return self.session.base_url(self.gateway_url)

    @property
    def api_key(self) -> str | None:
        """The session's token."""
        return self.token

    def end(self) -> tuple[ModelCall, ...] | None:
        """End the token, cut what is under way, and tell every call."""
        self.session.close()
        return self.session.records()
