"""What all tests share: the real Cline binaries, from the user's own cache, so that only one run fetches."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from clinebox.adapters.runtime.cache import RuntimeCache
from clinebox.adapters.runtime.host import default_cache_root

# Timing is no part of a test's pass or fail: a loaded machine must find the same laws true.
settings.register_profile("clinebox", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("clinebox")


@pytest.fixture(scope="session")
def cline_binary() -> Callable[[str], Path]:
    """The path of a pinned Cline binary by version; fails the test, with the reason, where there is none."""
    cache = RuntimeCache(default_cache_root(os.environ), os.environ)

    def binary(version: str) -> Path:
        found = cache.ensure(version)
        return found.map(lambda runtime: runtime.path).alt(_fail).unwrap()

    return binary


def _fail(reason: object) -> None:
    pytest.fail(f"the real Cline is needed and could not be had: {reason}")
