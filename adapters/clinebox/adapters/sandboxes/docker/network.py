"""The network of the mode `gateway`: internal, shared by our containers, which cannot see each other."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

import docker
from docker.errors import APIError
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.docker.engine import Engine
from clinebox.domain.ports import SandboxFailure, SandboxTrouble

LABEL: Final = "clinebox.gateway-network"
NO_CROSS_TALK: Final = {"com.docker.network.bridge.enable_icc": "false"}
CONFLICT: Final = 409
IPV4: Final = 4


async def gateway_network(engine: Engine, name: str, *, timeout_s: float) -> Result[str, SandboxFailure]:
    """Make it where it is not there; the host's own address on it."""
    found = await engine.call(
        "making the gateway's network", lambda api: _ensure(api, name), timeout_s=timeout_s
    )
    return found.bind(lambda network: _address(network, name))


async def bridge_address(engine: Engine, *, timeout_s: float) -> Result[str, SandboxFailure]:
    """The host's own address on the engine's default network."""
    name = "bridge" if engine.name == "Docker" else "podman"
    found = await engine.call(
        "looking at the bridge network", lambda api: api.inspect_network(name), timeout_s=timeout_s
    )
    return found.bind(lambda network: _address(network, name))


def _ensure(api: docker.APIClient, name: str) -> dict[str, Any]:
    known = _find(api, name)
    if known is None:
        try:
            api.create_network(
                name,
                driver="bridge",
                internal=True,
                check_duplicate=True,
                labels={LABEL: name},
                options=NO_CROSS_TALK,
            )
        except APIError as error:  # somebody else made it meanwhile
            if error.status_code != CONFLICT:
                raise
        known = _find(api, name)
    # Names are not unique: two that were made at once are both there, and the older one is taken by all.
    return dict(api.inspect_network(known["Id"] if known is not None else name))


def _find(api: docker.APIClient, name: str) -> dict[str, Any] | None:
    named = [each for each in api.networks(names=[name]) if each["Name"] == name]
    return min(named, key=lambda each: (str(each["Created"]), str(each["Id"])), default=None)


def _host_address(config: dict[str, Any]) -> str | None:
    """Docker 20.10 leaves it out where nobody chose it: it is the first of the subnet then."""
    if config.get("Gateway"):
        return str(config["Gateway"]).split("/")[0]
    subnet = ipaddress.ip_network(config["Subnet"]) if config.get("Subnet") else None
    return str(next(subnet.hosts())) if subnet is not None and subnet.version == IPV4 else None


def _address(network: dict[str, Any], name: str) -> Result[str, SandboxFailure]:
    configs = (network.get("IPAM") or {}).get("Config") or []
    address = next(filter(None, (_host_address(each) for each in configs)), None)
    if address is None:
        message = f"The network {name} has no address of this host. Remove it: docker network rm {name}"
        return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))
    return Success(address)
