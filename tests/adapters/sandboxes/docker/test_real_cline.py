"""The real Cline in a container, against a scripted model on this host: the whole way of a run."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from returns.result import Result, Success

from clinebox.adapters.run_directory.writer import RunDirectoryWriter
from clinebox.adapters.sandboxes.docker.provider import DockerSandboxProvider
from clinebox.adapters.scripted_model.script_file import load_script
from clinebox.adapters.scripted_model.server import ScriptedModelServer
from clinebox.domain.cline.pins import NEWEST
from clinebox.domain.cline.prompt import prepare_prompt
from clinebox.domain.outcome.failed_step import FailedStep
from clinebox.domain.outcome.model import Reason
from clinebox.domain.ports import HostPort, NetworkMode, Sandbox, SandboxFailure, SandboxSpec
from clinebox.entrypoints.observer import SilentObserver
from clinebox.entrypoints.run_once import AgentRun, FinishedRun, Ports
from clinebox.entrypoints.run_request import ModelEndpoint, RunRequest, Verification

if TYPE_CHECKING:
    from conftest import Bench

pytestmark = pytest.mark.cline
ASSETS = files("clinebox.entrypoints") / "demo_assets"


class WithImage:
    """A provider whose every sandbox is of one image and network; the rest is the real one's own."""

    def __init__(self, provider: DockerSandboxProvider, image: str, gateway: HostPort | None) -> None:
        self._provider = provider
        self._image = image
        self._gateway = gateway

    def __getattr__(self, name: str) -> object:
        return getattr(self._provider, name)

    async def start(self, spec: SandboxSpec, *, timeout_s: float) -> Result[Sandbox, SandboxFailure]:
        network = NetworkMode.FULL if self._gateway is None else NetworkMode.GATEWAY
        wanted = replace(spec, image=self._image, network=network, gateway=self._gateway)
        return await self._provider.start(wanted, timeout_s=timeout_s)


async def _story(bench: Bench, network: NetworkMode, binary: str, out: Path) -> FinishedRun:
    async with bench.primed(network):
        return await _run(bench, network, binary, out)


async def _run(bench: Bench, network: NetworkMode, binary: str, out: Path) -> FinishedRun:
    async def fetch(_: str, __: Callable[[int, int | None], None]) -> Result[str, FailedStep]:
        return Success(binary)

    provider = bench.provider()
    route = (await provider.gateway_route(network, timeout_s=60)).unwrap()
    script = load_script(Path(str(ASSETS / "fix_the_bug.yaml"))).unwrap()
    variables = {"workdir": str(bench.workdir)}
    async with ScriptedModelServer(script, host=route.listen_host, variables=variables) as model:
        gateway = HostPort(route.listen_host, model.port) if network is NetworkMode.GATEWAY else None
        request = RunRequest(
            prompt=prepare_prompt("Fix sum.sh").unwrap(),
            workdir=bench.workdir,
            model=ModelEndpoint(f"http://{route.inside_host}:{model.port}/v1", "scripted"),
            cline_version=NEWEST,
            timeout_s=120,
            verification=Verification("bash test.sh"),
        )
        writer = RunDirectoryWriter.create(out, mask=bytes).unwrap()
        ports = Ports(WithImage(provider, "clinebox-test:base", gateway), fetch)  # type: ignore[arg-type]
        return await AgentRun(request, ports, writer, SilentObserver()).execute()


@pytest.mark.parametrize("network", [NetworkMode.FULL, NetworkMode.GATEWAY])
def test_cline_fixes_a_program_in_a_container_and_is_graded(
    bench: Bench, network: NetworkMode, cline_binary: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(Path(str(ASSETS / "program")), bench.workdir, dirs_exist_ok=True)
    run = asyncio.run(_story(bench, network, str(cline_binary(NEWEST)), tmp_path / "out"))
    assert run.judgement.outcome.reason is Reason.FINISHED, run.judgement.outcome
    assert run.receipt is not None
    assert run.receipt.cleanup_confirmed
    assert run.reward == 1.0, run.verifier_error
