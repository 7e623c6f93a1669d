"""What all tests share: `--full`, the engines they need, and the real Cline from the user's own cache."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from returns.pipeline import is_successful

from clinebox.adapters.runtime.cache import RuntimeCache
from clinebox.adapters.runtime.host import default_cache_root
from clinebox.domain.cline.pins import NEWEST

# Timing is no part of a test's pass or fail: a loaded machine must find the same laws true.
settings.register_profile("clinebox", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("clinebox")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="run also the tests marked `full`: minutes, for the night"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


BASE_IMAGE = "clinebox-test:base"
DOCKER_SOCKET = "unix:///var/run/docker.sock"
PODMAN_SOCKET = "unix:///run/podman/podman.sock"

# --- engines: each probe says what is missing and what to do, or None


def _no_bubblewrap() -> str | None:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return "the program bwrap is not there: apt-get install bubblewrap"
    trial = [bwrap, "--unshare-all", "--ro-bind", "/", "/", "true"]
    tried = subprocess.run(trial, capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"bwrap makes no sandbox here: {tried.stderr.strip()}"


def _no_cline() -> str | None:
    found = _cline_cache().ensure(NEWEST)
    return None if is_successful(found) else str(found.failure())


def _no_docker() -> str | None:
    return _no_container_engine("Docker", os.environ.get("DOCKER_HOST", DOCKER_SOCKET))


def _no_podman() -> str | None:
    return _no_container_engine("Podman", os.environ.get("CONTAINER_HOST", PODMAN_SOCKET))


def _no_container_engine(name: str, address: str) -> str | None:
    """The image too: a test that takes it must not be the one to find out."""
    import docker  # noqa: PLC0415 - slow to import, and few sessions need it

    advice = f"CLINEBOX_REQUIRE={name.lower()} bin/setup engines"
    try:
        with contextlib.closing(docker.DockerClient(address, timeout=20)) as client:
            client.images.get(BASE_IMAGE)
    except docker.errors.ImageNotFound:
        return f"the {name} engine has no image {BASE_IMAGE}: {advice}"
    except docker.errors.DockerException as error:
        return f"no {name} engine answers ({error}): {advice}"
    return None


ENGINES: dict[str, Callable[[], str | None]] = {
    "bubblewrap": functools.cache(_no_bubblewrap),
    "cline": functools.cache(_no_cline),
    "docker": functools.cache(_no_docker),
    "podman": functools.cache(_no_podman),
}


def _name_own_engines() -> None:
    """Where bin/engine keeps an engine that it started, unless the caller or the system has one."""
    own = Path(os.environ.get("CLINEBOX_ENGINE_DIR", "/var/lib/clinebox-engine"))
    sockets = (
        ("DOCKER_HOST", DOCKER_SOCKET, own / "docker" / "docker.sock"),
        ("CONTAINER_HOST", PODMAN_SOCKET, own / "podman" / "podman.sock"),
    )
    for variable, system, ours in sockets:
        if variable not in os.environ and not Path(system.removeprefix("unix://")).exists() and ours.exists():
            os.environ[variable] = f"unix://{ours}"


def _required() -> set[str]:
    return {name.strip() for name in os.environ.get("CLINEBOX_REQUIRE", "").split(",")} - {""}


def pytest_configure() -> None:
    _name_own_engines()
    unknown = _required() - ENGINES.keys()
    if unknown:
        names = ", ".join(sorted(unknown))
        raise pytest.UsageError(f"CLINEBOX_REQUIRE names {names}; the engines are {', '.join(ENGINES)}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test whose engine is missing fails where CLINEBOX_REQUIRE names that engine, else it is skipped."""
    for name, missing in ENGINES.items():
        reason = missing() if item.get_closest_marker(name) else None
        if reason is None:
            continue
        if name in _required():
            pytest.fail(f"{name} is required (CLINEBOX_REQUIRE) and missing: {reason}", pytrace=False)
        pytest.skip(f"{name} is missing: {reason}")


def _cline_cache() -> RuntimeCache:
    return RuntimeCache(default_cache_root(os.environ), os.environ)


@pytest.fixture(scope="session")
def cline_binary() -> Callable[[str], Path]:
    """The path of a pinned Cline binary by version; fails the test, with the reason, where there is none."""
    cache = _cline_cache()

    def binary(version: str) -> Path:
        found = cache.ensure(version)
        return found.map(lambda runtime: runtime.path).alt(_fail).unwrap()

    return binary


def _fail(reason: object) -> None:
    pytest.fail(f"the real Cline is needed and could not be had: {reason}")
