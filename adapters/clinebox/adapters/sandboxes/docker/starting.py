"""A container created exactly once, started, and its private directory given to whoever works in it."""

from __future__ import annotations

import os
import time
from typing import Final

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from clinebox.adapters.sandboxes.docker.engine import Engine
from clinebox.adapters.sandboxes.docker.plan import LABEL, ContainerPlan
from clinebox.adapters.sandboxes.docker.running_exec import ExecRequest, RunningExec, start_exec
from clinebox.adapters.sandboxes.docker.troubles import no_image, start_refused
from clinebox.adapters.sandboxes.private_root import PrivateRoot
from clinebox.domain.ports import Command, SandboxFailure, SandboxTrouble

TRIES: Final = 3
CREATE_LEAST_S: Final = 5.0
"""A create is seen to its end past the caller's time: removed half made, it spoils Podman 4.3's store."""
ALREADY: Final = "is already in use"


async def create_once(engine: Engine, plan: ContainerPlan, deadline: float) -> Result[str, SandboxFailure]:
    """The id of the one container of that name.

    An answer that was lost leaves open whether the engine made it. Its name is the sandbox's own id, so
    what carries the name is ours and is adopted; a second one cannot come to be.
    """
    name, image = plan.root.sandbox_id, plan.spec.image or ""
    failure = SandboxFailure(SandboxTrouble.TIMED_OUT, f"The container {name} was not created in time.")
    for _ in range(TRIES):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        created = await engine.call(
            f"creating a container of {image}", plan.create, timeout_s=max(left_s, CREATE_LEAST_S)
        )
        if is_successful(created):
            return created
        failure = created.failure()
        if failure.trouble is SandboxTrouble.NOT_FOUND:
            return Failure(no_image(engine.name, image))
        if not _may_be_there(failure):
            break
        adopted = await _existing(engine, name, deadline)
        if is_successful(adopted):
            return adopted
    return Failure(failure)


def _may_be_there(failure: SandboxFailure) -> bool:
    """Whether the engine may have made it all the same: the connection broke, or the name is taken."""
    return ALREADY in failure.message or "could not be asked" in failure.message


async def _existing(engine: Engine, name: str, deadline: float) -> Result[str, SandboxFailure]:
    found = await engine.call(
        "looking for a container",
        lambda api: api.inspect_container(name),
        timeout_s=max(0.1, deadline - time.monotonic()),
    )
    return found.bind(
        lambda seen: (
            Success(str(seen["Id"]))
            if (seen["Config"]["Labels"] or {}).get(LABEL) == name
            else Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, f"{name} is somebody else's container."))
        )
    )


async def start_container(
    engine: Engine, container_id: str, image: str, deadline: float
) -> Result[None, SandboxFailure]:
    """Start it; starting one that runs is no trouble, so a lost answer costs one more try."""
    failure: SandboxFailure | None = None
    for _ in range(TRIES):
        started = await engine.call(
            f"starting a container of {image}",
            lambda api: api.start(container_id),
            timeout_s=max(CREATE_LEAST_S, deadline - time.monotonic()),
        )
        if is_successful(started):
            return Success(None)
        failure = started.failure()
        if not _may_be_there(failure):
            break
    assert failure is not None  # noqa: S101 - TRIES is positive
    return Failure(start_refused(engine.name, image, failure))


async def give_away(
    engine: Engine, container_id: str, root: PrivateRoot, deadline: float
) -> Result[None, SandboxFailure]:
    """Let the sandbox's user own its private directories; only the image knows who a name is.

    Failure(BAD_REQUEST) when clinebox itself may not give them away.
    """
    ids = await _ids_inside(engine, container_id, deadline)
    if not is_successful(ids):
        return Failure(ids.failure())
    user, group = ids.unwrap()
    try:
        for place in (root.sessions, root.home, root.logs):
            os.chown(place, user, group)
    except OSError as error:
        message = (
            f"The sandbox's user {user}:{group} cannot be given its private directories: {error.strerror}."
        )
        return Failure(SandboxFailure(SandboxTrouble.BAD_REQUEST, message))
    return Success(None)


async def _ids_inside(
    engine: Engine, container_id: str, deadline: float
) -> Result[tuple[int, int], SandboxFailure]:
    """User and group that commands run as, from the kernel's own file."""
    text = "while read -r name id _; do [[ $name == [UG]id: ]] && echo $id; done </proc/self/status; :"
    request = ExecRequest(Command(argv=("bash", "-p", "-c", text), cwd="/"), container_id, workdir="/")
    kept: list[RunningExec] = []
    try:
        opened = await start_exec(
            engine, request, timeout_s=max(0.1, deadline - time.monotonic()), started=kept.append
        )
        if not is_successful(opened):
            return Failure(opened.failure())
        state = await kept[0].exited()
        await kept[0].streams.drain(within_s=1)
        words = kept[0].streams.stdout.content.split()
        if state.map(lambda seen: seen.exit_code).value_or(1) == 0 and len(words) == 2:  # noqa: PLR2004 - both ids
            return Success((int(words[0]), int(words[1])))
        message = "The sandbox's user could not be found out."
        return Failure(SandboxFailure(SandboxTrouble.UNAVAILABLE, message))
    finally:
        for each in kept:
            await each.close()
