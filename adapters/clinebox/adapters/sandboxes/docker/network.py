"""The network of the mode `gateway`: internal, shared by our containers, which cannot see each other."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Any, Final

import docker
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.docker.engine import Engine
from clinebox.adapters.sandboxes.docker.troubles import EngineName
from clinebox.domain.ports import SandboxFailure, SandboxTrouble

LABEL: Final = "clinebox.gateway-network"
NO_CROSS_TALK: Final = {"com.docker.network.bridge.enable_icc": "false"}
IPV4: Final = 4


@dataclass(frozen=True, slots=True)
class GatewayNetwork:
    """A network: the engine's id of it (names are not unique), and the host's own address on it."""

    id: str
    host_address: str


async def gateway_network(
    engine: Engine, name: str, *, timeout_s: float
) -> Result[GatewayNetwork, SandboxFailure]:
    """Make it where it is not there."""
    found = await engine.call(
        "making the gateway's network", lambda api: _ensure(api, name), timeout_s=timeout_s
    )
    return found.bind(
        lambda network: _address(network, name).map(
            lambda address: GatewayNetwork(str(network["Id"]), address)
        )
    )


async def bridge_address(engine: Engine, *, timeout_s: float) -> Result[str, SandboxFailure]:
    """The host's own address on the engine's default network."""
    name = "bridge" if engine.name == "Docker" else "podman"
    found = await engine.call(
        "looking at the bridge network", lambda api: api.inspect_network(name), timeout_s=timeout_s
    )
    return found.bind(lambda network: _address(network, name))


def _ensure(api: docker.APIClient, name: str) -> dict[str, Any]:
    """The oldest of that name is taken by all; who made a younger one at the same time removes it."""
    known = _oldest(api, name)
    if known is None:
        made = str(
            api.create_network(
                name, driver="bridge", internal=True, labels={LABEL: name}, options=NO_CROSS_TALK
            )["Id"]
        )
        known = _oldest(api, name) or made
        if known != made:
            api.remove_network(made)
    return dict(api.inspect_network(known))


def _oldest(api: docker.APIClient, name: str) -> str | None:
    named = [each for each in api.networks(names=[name]) if each["Name"] == name]
    oldest = min(named, key=lambda each: (str(each["Created"]), str(each["Id"])), default=None)
    return None if oldest is None else str(oldest["Id"])


def _host_address(config: dict[str, Any]) -> str | None:
    """Docker 20.10 leaves it out where nobody chose it, Podman 4.3 says `<nil>`: the subnet's first then."""
    if config.get("Gateway", "<nil>") not in {"", "<nil>"}:
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


def bindable(name: EngineName, address: str) -> Result[str, SandboxFailure]:
    """The address, if this host has it. Podman 4.3 makes a network's bridge with its first container only."""
    with socket.socket() as trial:
        try:
            trial.bind((address, 0))
        except OSError as error:
            message = (
                f"This host cannot listen on {address}, {name}'s own address on that network "
                f"({error.strerror}). Podman makes it with the network's first container: start one there "
                "first, and keep it."
            )
            return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))
    return Success(address)
