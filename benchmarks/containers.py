"""clinebox's containers against bare docker-py on the same engine, alternating, in one run.

    .venv/bin/python benchmarks/containers.py [--rounds 3] [--execs 40] [--sandboxes 32] [--engine Docker]

Prints, for one exec of `true` and for many sandboxes that are started, exec'ed in and removed at once, the
medians and their ratio (wanted: at most 1.3 each). docker-py gets the same image, limits and mounts, and 16
threads of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker

from clinebox.adapters.sandboxes.docker.plan import CAPABILITIES
from clinebox.adapters.sandboxes.docker.provider import SOCKETS, DockerSandboxProvider
from clinebox.domain.ports import Command, NetworkMode, SandboxSpec

IMAGE = "clinebox-test:base"
BOUND_S = 120.0
CLIENT_THREADS = 16


def bare_container(api: docker.APIClient, workdir: str) -> str:
    """The same container as clinebox's, by docker-py alone."""
    mounts = [docker.types.Mount(workdir, workdir, type="bind")]
    config = api.create_host_config(
        network_mode="none",
        cap_drop=["ALL"],
        cap_add=list(CAPABILITIES),
        security_opt=["no-new-privileges"],
        pids_limit=4096,
        mem_limit=8 << 30,
        mounts=mounts,
        auto_remove=True,
    )
    made = api.create_container(
        IMAGE, ["sleep", "600"], name=f"bench-{secrets.token_hex(6)}", host_config=config
    )
    api.start(made["Id"])
    return str(made["Id"])


def bare_exec(api: docker.APIClient, container: str) -> float:
    """docker-py's own way to an exec's output and exit code: three calls."""
    began = time.perf_counter()
    made = api.exec_create(container, ["true"])["Id"]
    api.exec_start(made, demux=True)
    assert api.exec_inspect(made)["ExitCode"] == 0
    return time.perf_counter() - began


def bare_life(api: docker.APIClient, workdir: str) -> None:
    """Start, exec, remove."""
    container = bare_container(api, workdir)
    bare_exec(api, container)
    api.remove_container(container, force=True)


async def timed(sandbox: Any) -> float:
    """One exec by clinebox."""
    began = time.perf_counter()
    result = await sandbox.exec(Command(("true",)), timeout_s=BOUND_S)
    assert result.unwrap().exit_code == 0
    return time.perf_counter() - began


async def life(provider: DockerSandboxProvider, spec: SandboxSpec) -> None:
    """Start, exec, stop."""
    sandbox = (await provider.start(spec, timeout_s=BOUND_S)).unwrap()
    await timed(sandbox)
    (await sandbox.stop(timeout_s=BOUND_S)).unwrap()


async def execs(
    provider: DockerSandboxProvider, api: docker.APIClient, spec: SandboxSpec, count: int
) -> tuple[list[float], list[float]]:
    """Alternating execs in a container each."""
    sandbox = (await provider.start(spec, timeout_s=BOUND_S)).unwrap()
    container = bare_container(api, spec.workdir)
    try:
        ours, bare = [], []
        for _ in range(count):
            ours.append(await timed(sandbox))
            bare.append(bare_exec(api, container))
        return ours, bare
    finally:
        api.remove_container(container, force=True)
        await sandbox.stop(timeout_s=BOUND_S)


async def many(provider: DockerSandboxProvider, spec: SandboxSpec, count: int) -> float:
    """All at once, by clinebox."""
    began = time.perf_counter()
    await asyncio.gather(*(life(provider, spec) for _ in range(count)))
    return time.perf_counter() - began


def many_bare(work: Callable[[], None], count: int) -> float:
    """All at once, by docker-py on threads."""
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENT_THREADS) as pool:
        for done in [pool.submit(work) for _ in range(count)]:
            done.result()
    return time.perf_counter() - began


def show(what: str, ours: list[float], bare: list[float]) -> None:
    """One line."""
    mine, theirs = statistics.median(ours), statistics.median(bare)
    print(f"{what}: clinebox {mine:.3f} s, docker-py {theirs:.3f} s, ratio {mine / theirs:.2f}")


async def measure(options: argparse.Namespace, workdir: Path) -> None:
    """Everything, in one run."""
    variable, socket = SOCKETS[options.engine]
    address = os.environ.get(variable, socket)
    provider = DockerSandboxProvider(options.engine)
    api = docker.APIClient(
        base_url=address, version="1.41", timeout=int(BOUND_S), max_pool_size=CLIENT_THREADS
    )
    spec = SandboxSpec(workdir=str(workdir), image=IMAGE, network=NetworkMode.NONE, ttl_s=600)
    show("exec", *await execs(provider, api, spec, options.execs))
    ours, bare = [], []
    for _ in range(options.rounds):
        ours.append(await many(provider, spec, options.sandboxes))
        bare.append(many_bare(lambda: bare_life(api, str(workdir)), options.sandboxes))
    show(f"{options.sandboxes} sandboxes", ours, bare)
    provider.close()
    api.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--execs", type=int, default=40)
    parser.add_argument("--sandboxes", type=int, default=32)
    parser.add_argument("--engine", choices=["Docker", "Podman"], default="Docker")
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(measure(parser.parse_args(), Path(place)))


if __name__ == "__main__":
    main()
