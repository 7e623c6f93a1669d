"""What a container engine can refuse or fail at, as a typed failure with what to do.

Every text that is looked for is the engine's or the kernel's own, never a program's output.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from docker.errors import APIError

from clinebox.domain.ports import SandboxFailure, SandboxTrouble

EngineName: TypeAlias = Literal["Docker", "Podman"]
SHOWN_CHARACTERS: Final = 400
START_IT: Final = {
    "Docker": "Install it (Debian: apt-get install docker.io) and start it, or set DOCKER_HOST.",
    "Podman": "Start it (podman system service --time 0), or set CONTAINER_HOST.",
}
TOO_OLD: Final = re.compile(r"client version [\d.]+ is too new\. Maximum supported API version is ([\d.]+)")
"""Docker's answer to a path with a newer version than its own (daemon, middleware/version.go)."""
TOO_NEW: Final = re.compile(r"client version [\d.]+ is too old\. Minimum supported API version is ([\d.]+)")
NO_SPACE: Final = "no space left on device"
NOT_RUNNING: Final = ("is not running", "is not started", "container state improper", "is paused")
HALF_REMOVED: Final = "no such container"
"""Podman 4.3's 500 while a container is being removed: no longer there to be asked, and still listed."""
NO_PROGRAM: Final = ("executable file not found", "no such file or directory")


def _failure(trouble: SandboxTrouble, message: str) -> SandboxFailure:
    return SandboxFailure(trouble, message)


def no_answer(name: EngineName, what: str, timeout_s: float) -> SandboxFailure:
    """The engine took the request and did not answer in time."""
    bound = f" within {timeout_s:g} s" if timeout_s else " in time"
    message = f"{what}: the {name} engine did not answer{bound}. Is it overloaded, or hung?"
    return _failure(SandboxTrouble.TIMED_OUT, message)


def unreachable(name: EngineName, address: str, error: Exception) -> SandboxFailure:
    """No connection to the engine, or it broke."""
    words = str(error)
    if "Permission denied" in words:
        message = (
            f"The {name} engine at {address} may not be used by this user (permission denied). Add the user "
            f"to the group that owns the socket (often `docker`), or run as root."
        )
    elif "No such file" in words or "Connection refused" in words:
        message = f"No {name} engine answers at {address}. {START_IT[name]}"
    else:
        message = f"The {name} engine at {address} could not be asked: {words[-SHOWN_CHARACTERS:]}"
    return _failure(SandboxTrouble.UNAVAILABLE, message)


def of_api_error(name: EngineName, what: str, error: APIError) -> SandboxFailure:
    """An answer of the engine that says no."""
    words = str(error.explanation or error)[:SHOWN_CHARACTERS]
    if (found := TOO_OLD.search(words)) is not None:
        message = f"The {name} engine speaks API {found[1]}; clinebox needs 1.41 (Docker 20.10) or newer."
        return _failure(SandboxTrouble.UNAVAILABLE, message)
    if (found := TOO_NEW.search(words)) is not None:
        message = f"The {name} engine no longer speaks API 1.41, only {found[1]} and newer."
        return _failure(SandboxTrouble.UNAVAILABLE, message)
    if NO_SPACE in words:
        message = (
            f"{what}: the {name} engine's disk is full ({words}). Free some (docker system df shows it)."
        )
        return _failure(SandboxTrouble.DISK_FULL, message)
    if any(sign in words for sign in (*NOT_RUNNING, HALF_REMOVED)):  # Docker says 409, Podman 4.3 says 500
        return _failure(SandboxTrouble.LOST, f"{what}: {words}")
    if error.status_code == 400:  # noqa: PLR2004 - HTTP's bad request
        return _failure(SandboxTrouble.BAD_REQUEST, f"{what}: the {name} engine refused it: {words}")
    return _failure(SandboxTrouble.UNAVAILABLE, f"{what}: the {name} engine refused it: {words}")


def no_image(name: EngineName, image: str) -> SandboxFailure:
    """The image is not there; clinebox pulls nothing by itself."""
    tool = name.lower()
    message = f"The {name} engine has no image {image}. Fetch it first: {tool} pull {image}"
    return _failure(SandboxTrouble.UNAVAILABLE, message)


def start_refused(name: EngineName, image: str, failure: SandboxFailure) -> SandboxFailure:
    """Why a container did not start: mostly an image without bash."""
    if '"bash"' in failure.message and any(sign in failure.message for sign in NO_PROGRAM):
        message = f"The image {image} has no bash, which clinebox needs (4.0 or newer). Add it to the image."
        return _failure(SandboxTrouble.UNAVAILABLE, message)
    if failure.trouble is SandboxTrouble.NOT_FOUND:
        return _failure(SandboxTrouble.LOST, f"The container ended while it was started: {failure.message}")
    del name
    return failure
