"""Starts, finds and reaps containers, with Docker or Podman."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes import files
from clinebox.adapters.sandboxes.checks import refused
from clinebox.adapters.sandboxes.docker.container_files import ContainerFiles
from clinebox.adapters.sandboxes.docker.engine import Engine
from clinebox.adapters.sandboxes.docker.fence import can_fence, fence
from clinebox.adapters.sandboxes.docker.host_directory import (
    create_host_directory,
    open_host_directory,
    unowned_directories,
)
from clinebox.adapters.sandboxes.docker.network import (
    GatewayNetwork,
    bindable,
    bridge_address,
    gateway_network,
)
from clinebox.adapters.sandboxes.docker.plan import (
    LABEL,
    NOTE_LABEL,
    ROOT_LABEL,
    USER_LABEL,
    WORKDIR_LABEL,
    ContainerPlan,
    checked_request,
)
from clinebox.adapters.sandboxes.docker.reaper import reap
from clinebox.adapters.sandboxes.docker.removal import remove_container
from clinebox.adapters.sandboxes.docker.sandbox import Container, DockerSandbox
from clinebox.adapters.sandboxes.docker.starting import create_once, give_away, start_container
from clinebox.adapters.sandboxes.docker.troubles import EngineName
from clinebox.adapters.sandboxes.exec_bounds import OUTPUT_LIMIT_BYTES
from clinebox.adapters.sandboxes.jail import finished
from clinebox.adapters.sandboxes.private_root import PrivateRoot, base_directory, remove_private_root
from clinebox.domain.ports import (
    GatewayRoute,
    NetworkMode,
    Reaped,
    ReapRule,
    Sandbox,
    SandboxDescription,
    SandboxDescriptor,
    SandboxFailure,
    SandboxSpec,
    SandboxTrouble,
)

DISCARD_S: Final = 5.0
GATEWAY_NETWORK: Final = "clinebox-gateway"
SOCKETS: Final[Mapping[EngineName, tuple[str, str]]] = {
    "Docker": ("DOCKER_HOST", "unix:///var/run/docker.sock"),
    "Podman": ("CONTAINER_HOST", "unix:///run/podman/podman.sock"),
}
"""Where an engine listens: the variable that its own command follows, and the system's socket."""


class DockerSandboxProvider:
    """Starts containers by an engine's API. `close` it when it is no longer needed."""

    def __init__(
        self,
        engine: EngineName = "Docker",
        *,
        address: str | None = None,
        output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
        private_base: Path | None = None,
        gateway_network: str = GATEWAY_NETWORK,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """`address` (`unix://PATH`, `tcp://HOST:PORT`) comes before the engine's variable and socket.

        `labels` are put on every container, below the request's own. Private directories are made in
        `private_base` (default: TMPDIR or /tmp), which the engine must see at the same path.
        """
        variable, socket = SOCKETS[engine]
        self._engine = Engine(engine, address or os.environ.get(variable, socket))
        self._base = base_directory() if private_base is None else private_base
        self._output_limit_bytes = output_limit_bytes
        self._gateway_network = gateway_network
        self._labels = dict(labels or {})

    @property
    def name(self) -> str:
        """As the command line has it."""
        return self._engine.name.lower()

    def close(self) -> None:
        """Give back the threads and connections. Sandboxes live on."""
        self._engine.close()

    async def gateway_route(
        self, network: NetworkMode, *, timeout_s: float
    ) -> Result[GatewayRoute, SandboxFailure]:
        """The host's address on that mode's network; the gateway's network is made if it is not there."""
        if network is NetworkMode.NONE:
            return refused("Nothing can be reached in the network mode 'none'.")
        if network is NetworkMode.GATEWAY:
            made = await self._for_gateway(timeout_s)
            found = made.map(lambda network: network.host_address)
        else:
            found = await bridge_address(self._engine, timeout_s=timeout_s)
        return found.bind(lambda address: bindable(self._engine.name, address)).map(
            lambda address: GatewayRoute(address, address)
        )

    async def start(self, spec: SandboxSpec, *, timeout_s: float) -> Result[Sandbox, SandboxFailure]:
        """Start one, or leave nothing behind, also when cancelled half way.

        Failure(BAD_REQUEST) with the sentence of the check that failed; Failure(UNAVAILABLE) with what to
        do: no engine, no permission, no image, no bash in it; Failure(DISK_FULL); Failure(TIMED_OUT).
        """
        if (problem := self._problem_of_address()) is not None:
            return refused(problem)
        workdir = checked_request(spec, self._base)
        if not is_successful(workdir):
            return Failure(workdir.failure())
        try:
            async with asyncio.timeout(timeout_s):
                return await self._start(spec, workdir.unwrap(), time.monotonic() + timeout_s)
        except TimeoutError:
            message = f"The {self._engine.name} sandbox did not start within {timeout_s:g} s."
            return Failure(SandboxFailure(SandboxTrouble.TIMED_OUT, message))

    async def _start(
        self, spec: SandboxSpec, workdir: Path, deadline: float
    ) -> Result[Sandbox, SandboxFailure]:
        await self._remove_unowned(deadline)
        try:
            root = create_host_directory(self._base, self._engine.address)
        except OSError as error:
            return _no_root(self._base, error)
        sandbox: DockerSandbox | None = None
        try:
            made = await self._make(spec, workdir, root, deadline)
            sandbox = made.value_or(None)
            return made.map(_as_port)
        finally:
            if sandbox is None:
                await finished(self._discard(root))

    async def _make(
        self, spec: SandboxSpec, workdir: Path, root: PrivateRoot, deadline: float
    ) -> Result[DockerSandbox, SandboxFailure]:
        network = await self._network_of(spec, deadline)
        if not is_successful(network):
            return Failure(network.failure())
        labelled = replace(spec, labels={**self._labels, **spec.labels})
        plan = ContainerPlan(labelled, workdir, root, network.unwrap().id)
        # A create or start that is given up goes on in the engine: see it end, or it could not be removed.
        created = await finished(create_once(self._engine, plan, deadline))
        if not is_successful(created):
            return Failure(created.failure())
        started = await finished(start_container(self._engine, created.unwrap(), spec.image or "", deadline))
        if not is_successful(started):
            return Failure(started.failure())
        prepared = await self._prepare(plan, created.unwrap(), network.unwrap(), deadline)
        if not is_successful(prepared):
            return Failure(prepared.failure())
        inspected = await self._inspect(created.unwrap(), deadline)
        return inspected.bind(lambda seen: self._handle(seen, root))

    async def _prepare(
        self, plan: ContainerPlan, container_id: str, network: GatewayNetwork, deadline: float
    ) -> Result[None, SandboxFailure]:
        """What is done once it runs, and before anything of the caller's does."""
        left_s = max(0.1, deadline - time.monotonic())
        gateway = plan.spec.gateway
        if plan.spec.network is NetworkMode.GATEWAY and gateway is not None and can_fence():
            host = network.host_address
            fenced = await fence(self._engine, container_id, host, gateway.port, timeout_s=left_s)
            if not is_successful(fenced):
                return fenced
        if plan.is_foreign:
            return await give_away(self._engine, container_id, plan.root, deadline)
        return Success(None)

    async def _network_of(self, spec: SandboxSpec, deadline: float) -> Result[GatewayNetwork, SandboxFailure]:
        if spec.network is NetworkMode.GATEWAY:
            return await self._for_gateway(deadline - time.monotonic())
        return Success(GatewayNetwork("none" if spec.network is NetworkMode.NONE else "bridge", ""))

    async def _for_gateway(self, timeout_s: float) -> Result[GatewayNetwork, SandboxFailure]:
        """Podman 4.3 gives the host no address on an internal network (CNI): there the rules do it alone."""
        if self._engine.name == "Docker":
            return await gateway_network(self._engine, self._gateway_network, timeout_s=timeout_s)
        if not can_fence():
            message = "The network mode 'gateway' with Podman needs root, nsenter and iptables-restore."
            return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))
        address = await bridge_address(self._engine, timeout_s=timeout_s)
        return address.map(lambda found: GatewayNetwork("bridge", found))

    async def _inspect(self, name: str, deadline: float) -> Result[Mapping[str, Any], SandboxFailure]:
        return await self._engine.call(
            "looking at a sandbox",
            lambda api: api.inspect_container(name),
            timeout_s=deadline - time.monotonic(),
        )

    def _handle(self, seen: Mapping[str, Any], root: PrivateRoot) -> Result[DockerSandbox, SandboxFailure]:
        """A sandbox from what the engine says of its container."""
        labels: Mapping[str, str] = seen["Config"]["Labels"]
        container = Container(
            id=seen["Id"],
            name=root.sandbox_id,
            workdir=labels[WORKDIR_LABEL],
            labels=labels,
        )
        sandbox = DockerSandbox(
            description=self._description(container, root),
            engine=self._engine,
            container=container,
            root=root,
            output_limit_bytes=self._output_limit_bytes,
        )
        try:
            areas = files.open_areas(_binds(seen) if not labels[USER_LABEL] else ())
        except OSError as error:
            message = f"The sandbox's directories could not be opened: {error}"
            return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))
        sandbox.files = ContainerFiles(areas, sandbox._helper)  # noqa: SLF001 - the two are one
        return Success(sandbox)

    def _description(self, container: Container, root: PrivateRoot) -> SandboxDescription:
        return SandboxDescription(
            provider=self.name,
            sandbox_id=container.name,
            containment="container",
            note=container.labels[NOTE_LABEL],
            session_root=str(root.sessions),
            logs_dir="/logs",
        )

    async def _discard(self, root: PrivateRoot) -> None:
        """Remove what a start that came to nothing left. A container that resists ends by its own time."""
        await remove_container(self._engine, root.sandbox_id, timeout_s=DISCARD_S)
        await asyncio.to_thread(remove_private_root, root)

    async def _remove_unowned(self, deadline: float) -> None:
        """Private directories of containers that are no more: their controller was killed, or let go."""
        for unowned in unowned_directories(self._base, self._engine.address):
            found = await self._inspect(unowned.root.sandbox_id, deadline)
            if is_successful(found) or found.failure().trouble is not SandboxTrouble.NOT_FOUND:
                unowned.release()
            else:
                await asyncio.to_thread(remove_private_root, unowned.root)

    def serialize(self, sandbox: Sandbox) -> Result[SandboxDescriptor, SandboxFailure]:
        """The container's name; everything else stands on its labels. Failure(BAD_REQUEST) for another's."""
        if not isinstance(sandbox, DockerSandbox) or sandbox.description.provider != self.name:
            return refused(f"That sandbox is none of {self._engine.name}'s.")
        fields = {"name": sandbox.container.name, "id": sandbox.container.id, "engine": self._engine.address}
        return Success(SandboxDescriptor(self.name, fields))

    async def connect(
        self, descriptor: SandboxDescriptor, *, timeout_s: float
    ) -> Result[Sandbox, SandboxFailure]:
        """A handle on a running container. Failure(NOT_FOUND) when it is gone, or none of clinebox's."""
        name = descriptor.fields.get("id", "")
        if descriptor.provider != self.name or not name:
            return refused(f"A descriptor of {descriptor.provider!r} is not for {self.name}.")
        if (problem := self._problem_of_address()) is not None:
            return refused(problem)
        found = await self._inspect(name, time.monotonic() + timeout_s)
        if not is_successful(found):
            failure = found.failure()
            if failure.trouble is not SandboxTrouble.NOT_FOUND:
                return Failure(failure)
            return _gone(descriptor)
        labels: Mapping[str, str] = found.unwrap()["Config"]["Labels"] or {}
        root = open_host_directory(Path(labels.get(ROOT_LABEL, "")))
        if LABEL not in labels or not found.unwrap()["State"]["Running"] or root is None:
            return _gone(descriptor)
        handle = self._handle(found.unwrap(), root)
        if not is_successful(handle):
            os.close(root.lock_fd)
        return handle.map(_as_port)

    async def reap(self, rule: ReapRule, *, timeout_s: float) -> Result[tuple[Reaped, ...], SandboxFailure]:
        """Remove containers by label, and what they left on this host; with a problem, which one stayed."""
        if (problem := self._problem_of_address()) is not None:
            return refused(problem)
        return await reap(self._engine, rule, timeout_s=timeout_s)

    def _problem_of_address(self) -> str | None:
        if self._engine.address.startswith(("unix://", "tcp://")):
            return None
        return (
            f"The {self._engine.name} engine's address {self._engine.address!r} is neither unix://PATH nor "
            "tcp://HOST:PORT. The engine must be on this host: its directories are bound into containers."
        )


def _binds(seen: Mapping[str, Any]) -> list[tuple[Path, Path, bool]]:
    """What stands behind which path inside; shallow paths first."""
    mounts = [each for each in seen["Mounts"] if each["Type"] == "bind"]
    binds = [(Path(each["Destination"]), Path(each["Source"]), bool(each["RW"])) for each in mounts]
    return sorted(binds, key=lambda bind: len(bind[0].parts))


def _gone(descriptor: SandboxDescriptor) -> Result[Sandbox, SandboxFailure]:
    message = f"The sandbox {descriptor.fields.get('name', '')} is not there any more."
    return Failure(SandboxFailure(SandboxTrouble.NOT_FOUND, message))


def _as_port(sandbox: DockerSandbox) -> Sandbox:
    """The typed assignment that proves the protocol."""
    return sandbox


def _no_root(base: Path, error: OSError) -> Result[Sandbox, SandboxFailure]:
    trouble = SandboxTrouble.DISK_FULL if error.errno in files.NO_ROOM else SandboxTrouble.UNAVAILABLE
    reason = os.strerror(error.errno) if error.errno is not None else str(error)
    message = f"No private directory could be made in {base}: {reason}. Set TMPDIR to another place."
    return Failure(SandboxFailure(trouble, message))
