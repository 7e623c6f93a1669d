"""What the container tests share: a provider whose containers and network nobody else has, and none left."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import docker
import pytest

from clinebox.adapters.sandboxes.docker.provider import SOCKETS, DockerSandboxProvider
from clinebox.adapters.sandboxes.docker.sandbox import DockerSandbox
from clinebox.adapters.sandboxes.docker.troubles import EngineName
from clinebox.domain.ports import Command, ExecResult, HostPort, NetworkMode, SandboxSpec

IMAGE = "clinebox-test:base"
BOUND_S = 60.0
"""For what takes milliseconds: generous, since the machine may be loaded."""


@dataclass
class Bench:
    """One test's engine, work directory and private base; everything that it starts carries its label."""

    engine: EngineName
    path: Path
    label: str = field(default_factory=lambda: secrets.token_hex(8))
    providers: list[DockerSandboxProvider] = field(default_factory=list)

    @property
    def workdir(self) -> Path:
        return self.path / "task"

    @property
    def base(self) -> Path:
        return self.path / "private"

    @property
    def address(self) -> str:
        variable, socket = SOCKETS[self.engine]
        return os.environ.get(variable, socket)

    @property
    def network(self) -> str:
        return f"clinebox-{self.label}"

    def provider(self, **options: Any) -> DockerSandboxProvider:
        given = {"private_base": self.base, "gateway_network": self.network, "labels": {"test": self.label}}
        made = DockerSandboxProvider(self.engine, **(given | options))
        self.providers.append(made)
        return made

    def spec(self, **fields: Any) -> SandboxSpec:
        given = {"workdir": str(self.workdir), "image": IMAGE, "network": NetworkMode.NONE, "ttl_s": 600.0}
        return SandboxSpec(**(given | fields))

    @contextlib.asynccontextmanager
    async def started(self, **fields: Any) -> AsyncIterator[DockerSandbox]:
        """A sandbox, of which nothing is left afterwards."""
        provider = self.provider(output_limit_bytes=fields.pop("output_limit_bytes", 10 << 20))
        sandbox = (await provider.start(self.spec(**fields), timeout_s=BOUND_S)).unwrap()
        assert isinstance(sandbox, DockerSandbox)
        try:
            yield sandbox
        finally:
            stopped = await sandbox.stop(timeout_s=BOUND_S)
            assert stopped.value_or("failed") is None, stopped
            assert not sandbox.root.path.exists()

    @contextlib.asynccontextmanager
    async def primed(self, network: NetworkMode) -> AsyncIterator[None]:
        """With Podman, a network's bridge is there once a container is: keep one."""
        async with contextlib.AsyncExitStack() as kept:
            if self.engine == "Podman":
                gateway = HostPort("127.0.0.1", 9)
                await kept.enter_async_context(self.started(network=network, gateway=gateway))
            yield

    def containers(self) -> list[dict[str, Any]]:
        """Whatever there is of this test, running or not."""
        with self.client() as api:
            found: list[dict[str, Any]] = api.containers(all=True, filters={"label": [f"test={self.label}"]})
            return found

    @contextlib.contextmanager
    def client(self) -> Iterator[docker.APIClient]:
        """docker-py itself, to look from beside."""
        api = docker.APIClient(base_url=self.address, version="1.41", timeout=int(BOUND_S))
        try:
            yield api
        finally:
            api.close()

    def remove_network(self) -> None:
        with self.client() as api:
            for network in api.networks(names=[self.network]):
                api.remove_network(network["Id"])

    def roots(self) -> list[Path]:
        return [path for path in self.base.iterdir() if path.name.startswith("cbd-")]


Started: TypeAlias = Callable[..., AbstractAsyncContextManager[DockerSandbox]]


@pytest.fixture(
    params=[
        pytest.param("Docker", marks=pytest.mark.docker),
        pytest.param("Podman", marks=pytest.mark.podman),
    ]
)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(request.param, tmp_path)
    made.workdir.mkdir()
    made.base.mkdir()
    yield made
    try:
        made.remove_network()
        assert made.containers() == []
        assert made.roots() == []
    finally:
        for provider in made.providers:
            provider.close()


async def run(sandbox: DockerSandbox, script: str, timeout_s: float = BOUND_S, **fields: Any) -> ExecResult:
    """The result of a bash script that nothing kept from ending."""
    command = Command(("bash", "-c", script), **fields)
    return (await sandbox.exec(command, timeout_s=timeout_s)).unwrap()


@pytest.fixture(name="run")
def _run() -> Callable[..., Any]:
    return run
