"""The npm registry that a sandbox is told to use: the host's own setting, or the caller's word."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from typing import Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.runtime.failure import INSTALL_NPM, RuntimeFailure, RuntimeTrouble
from clinebox.adapters.runtime.fetch import find_npm

SET_REGISTRY: Final = "set npm_config_registry to the registry's address"
SCOPE_KEY: Final = "@cline:registry"
"""npm's own setting for one scope comes before the general one (npm's docs, `scope`)."""
NPM_TIMEOUT_S: Final = 30.0

_REGISTRY: Final = re.compile(r"https?://[^\s\x00-\x1f\x7f@?#]+")


def checked_registry(url: str) -> Result[str, RuntimeFailure]:
    """The address without its last slash.

    Failure(REFUSED) when it is no http or https address, or holds credentials, a query or a fragment: it is
    seen by everything that runs in the sandbox. The address is not repeated: it may hold a password.
    """
    if _REGISTRY.fullmatch(url):
        return Success(url.removesuffix("/"))
    message = "the registry's address must be http(s)://host/path, without credentials, `?` and `#`"
    return Failure(RuntimeFailure(RuntimeTrouble.REFUSED, message, (SET_REGISTRY,)))


def host_registry(env: Mapping[str, str]) -> Result[str, RuntimeFailure]:
    """The registry of this host: `npm_config_registry`, else what npm is configured with (for @cline first).

    Blocks for up to 30 s; call it in a thread. Failure(NO_FETCHER) when there is neither the variable nor
    npm, Failure(REFUSED) when npm gives no usable address.
    """
    named = env.get("npm_config_registry") or env.get("NPM_CONFIG_REGISTRY")
    if named:
        return checked_registry(named)
    npm = find_npm(env)
    if not is_successful(npm):
        message = "no npm registry is configured for the sandbox, and there is no npm to ask"
        return Failure(RuntimeFailure(RuntimeTrouble.NO_FETCHER, message, (SET_REGISTRY, INSTALL_NPM)))
    return _asked((*npm.unwrap().argv, "config", "get", SCOPE_KEY, "registry"), env)


def _asked(argv: tuple[str, ...], env: Mapping[str, str]) -> Result[str, RuntimeFailure]:
    try:
        said = subprocess.run(
            argv,
            cwd="/",  # no project's .npmrc applies there
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=NPM_TIMEOUT_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"npm did not tell its registry ({type(error).__name__})"
        return Failure(RuntimeFailure(RuntimeTrouble.REFUSED, message, (SET_REGISTRY,)))
    settings = dict(line.partition("=")[::2] for line in said.decode("utf-8", "replace").splitlines())
    scoped = settings.get(SCOPE_KEY, "undefined")
    return checked_registry(settings.get("registry", "") if scoped == "undefined" else scoped)
