"""Finds clinebox's containers by label, whoever started them, and removes them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.docker.engine import Engine
from clinebox.adapters.sandboxes.docker.host_directory import open_host_directory
from clinebox.adapters.sandboxes.docker.network import LABEL as NETWORK_LABEL
from clinebox.adapters.sandboxes.docker.plan import EXPIRES_LABEL, LABEL, RESERVED, ROOT_LABEL
from clinebox.adapters.sandboxes.docker.removal import remove_container
from clinebox.adapters.sandboxes.private_root import PrivateRoot, remove_private_root
from clinebox.domain.ports import Reaped, ReapRule, SandboxFailure

ENDED = frozenset({"exited", "dead", "created"})
FRESH_S = 120
"""A container that was created this recently may be about to be started by its owner."""


async def reap(
    engine: Engine, rule: ReapRule, *, timeout_s: float
) -> Result[tuple[Reaped, ...], SandboxFailure]:
    """Remove (or, as a dry run, only tell) what answers the rule.

    Networks of ours that nothing uses go too, when everything may go: the rule names no label and does not
    ask for expired ones only.
    """
    deadline = time.monotonic() + timeout_s
    filters = [f"{name}={value}" for name, value in rule.labels.items()]
    listed = await engine.call(
        "listing sandboxes",
        lambda api: api.containers(all=True, filters={"label": [LABEL, *filters]}),
        timeout_s=timeout_s,
    )
    if not is_successful(listed):
        return Failure(listed.failure())
    found = [each for each in listed.unwrap() if not rule.expired_only or _is_over(each)]
    told = [_remove(engine, each, rule, deadline) for each in found]
    reaped = tuple(await asyncio.gather(*told))
    if not rule.dry_run and not rule.expired_only and not rule.labels:
        await engine.call(
            "removing networks", _remove_networks, timeout_s=max(0.1, deadline - time.monotonic())
        )
    return Success(reaped)


def _is_over(container: Mapping[str, Any]) -> bool:
    """Past its time; or it ended, or was never started, and nobody removed it."""
    expires = container["Labels"].get(EXPIRES_LABEL, "")
    if expires.isdigit() and int(expires) <= time.time():
        return True
    old = time.time() - float(container["Created"]) > FRESH_S
    return container["State"] in ENDED and old


async def _remove(engine: Engine, container: Mapping[str, Any], rule: ReapRule, deadline: float) -> Reaped:
    labels: Mapping[str, str] = container["Labels"]
    own = {name: value for name, value in labels.items() if name not in RESERVED}
    if rule.dry_run:
        return Reaped(labels[LABEL], own)
    # Only a directory of this user's, with a name of ours: labels are anybody's who may use the engine.
    root = open_host_directory(Path(labels.get(ROOT_LABEL, "")))
    if root is not None:
        root.mark_ended()
    left_s = max(0.1, deadline - time.monotonic())
    removed = await remove_container(engine, container["Id"], timeout_s=left_s)
    if not is_successful(removed):
        if root is not None:
            os.close(root.lock_fd)
        return Reaped(labels[LABEL], own, removed.failure().message)
    problem = None if root is None else await asyncio.to_thread(_remove_root, root)
    return Reaped(labels[LABEL], own, problem)


def _remove_root(root: PrivateRoot) -> str | None:
    try:
        remove_private_root(root)
    except OSError as error:
        os.close(root.lock_fd)
        return f"its private directory {root.path} could not be removed: {error}"
    return None


def _remove_networks(api: docker.APIClient) -> None:
    for network in api.networks(filters={"label": [NETWORK_LABEL]}):
        if not (api.inspect_network(network["Id"]).get("Containers") or {}):
            api.remove_network(network["Id"])
