"""Sandbox providers by the name that a user writes after `--sandbox`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias, cast

from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.fake import FakeSandboxProvider
from clinebox.adapters.sandboxes.local import LocalSandboxProvider
from clinebox.domain.ports import SandboxProvider

Make: TypeAlias = Callable[[], SandboxProvider]
DOCKER_MODULE: Final = "clinebox.adapters.sandboxes.docker.provider"
"""Imported only when it is asked for: docker-py costs a second."""
DOCKER_CLASS: Final = "DockerSandboxProvider"
"""Called with the engine's name, `docker` or `podman`."""


class ProviderName(StrEnum):
    """Which provider."""

    AUTO = "auto"
    """The strongest local containment that works here."""
    LOCAL = "local"
    """A plain process tree: no isolation."""
    UNSHARE = "unshare"
    BUBBLEWRAP = "bubblewrap"
    DOCKER = "docker"
    PODMAN = "podman"
    FAKE = "fake"
    """In memory: nothing is started."""

    @property
    def needs_image(self) -> bool:
        """Whether a start needs `SandboxSpec.image`."""
        return self in {ProviderName.DOCKER, ProviderName.PODMAN}


HERE: Final[Mapping[ProviderName, Make]] = {
    ProviderName.AUTO: LocalSandboxProvider,
    ProviderName.LOCAL: lambda: LocalSandboxProvider("plain"),
    ProviderName.UNSHARE: lambda: LocalSandboxProvider("unshare"),
    ProviderName.BUBBLEWRAP: lambda: LocalSandboxProvider("bubblewrap"),
    ProviderName.FAKE: FakeSandboxProvider,
}


def make_provider(name: ProviderName) -> Result[SandboxProvider, str]:
    """The provider of a name; Failure(a sentence for people) when this installation has none of that name."""
    make = HERE.get(name)
    if make is not None:
        return Success(make())
    try:
        module = importlib.import_module(DOCKER_MODULE)
    except ImportError as error:
        return Failure(f"The sandbox {name!s} is not part of this installation of clinebox: {error}.")
    by_engine = cast("Callable[[str], SandboxProvider]", getattr(module, DOCKER_CLASS))
    return Success(by_engine(name))
