"""Which providers the suite is run for, and what each is known not to offer.

A provider that clinebox brings is one more line in `PROVIDERS`: how it is made, and the checks that it
refuses with a sentence. Whatever else is refused fails the test.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from clinebox.adapters.sandboxes.fake import FakeSandboxProvider
from clinebox.adapters.sandboxes.local import LocalSandboxProvider
from clinebox.domain.ports import SandboxProvider, SandboxSpec

NO_NETWORK_MODES: Final = frozenset({"network.none", "network.gateway", "network.gateway-needed"})
NO_PROGRAMS: Final = frozenset(
    {
        *("exec.exit-codes", "exec.signals", "exec.not-runnable", "exec.stdin", "exec.environment"),
        *("exec.arguments", "exec.working-directory", "exec.timeout", "exec.cancelled", "exec.background"),
        *("exec.dispositions", "output.bounded", "output.whole", "output.apart", "output.bytes"),
        *("files.seen-inside", "files.symlinks", "files.special", "life.stop-while-running"),
        *("life.removed-by-another", "life.ttl-while-running", "life.connect-exec", "life.many"),
        *("life.usage", "network.full", "limits.memory", "limits.pids", "limits.cpu"),
        *("network.none", "network.gateway"),
    }
)


class Known(NamedTuple):
    """How a provider is made, and what it does not offer."""

    make: Callable[[Path], SandboxProvider]
    not_offered: frozenset[str] = frozenset()
    marks: tuple[pytest.MarkDecorator, ...] = ()


PROVIDERS: Final[dict[str, Known]] = {
    "plain": Known(lambda base: LocalSandboxProvider("plain", private_base=base), NO_NETWORK_MODES),
    "unshare": Known(lambda base: LocalSandboxProvider("unshare", private_base=base)),
    "bubblewrap": Known(
        lambda base: LocalSandboxProvider("bubblewrap", private_base=base), marks=(pytest.mark.bubblewrap,)
    ),
    "fake": Known(lambda _: FakeSandboxProvider(), NO_PROGRAMS),
}


@pytest.fixture(params=[pytest.param(name, marks=known.marks) for name, known in PROVIDERS.items()])
def known(request: pytest.FixtureRequest) -> Known:
    """Every provider in turn."""
    return PROVIDERS[str(request.param)]


@pytest.fixture
def sandbox_provider(known: Known, tmp_path: Path) -> SandboxProvider:
    base = tmp_path / "roots"
    base.mkdir()
    return known.make(base)


@pytest.fixture
def sandbox_spec(tmp_path: Path) -> SandboxSpec:
    work = tmp_path / "work"
    work.mkdir()
    return SandboxSpec(str(work))


@pytest.fixture
def sandbox_not_offered(known: Known) -> frozenset[str]:
    return known.not_offered


@pytest.fixture
def sandbox_full() -> bool:
    return False
