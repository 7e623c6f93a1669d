"""The model of a run: a server or a script, asked first, and reached through the gateway or directly."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from returns.pipeline import is_successful

from clinebox.adapters.run_directory.writer import RunDirectoryWriter
from clinebox.domain.ports import GatewayRoute, SandboxProvider
from clinebox.domain.secrets.masker import Masker
from clinebox.entrypoints.cli.errors import EXIT_FAILED, CliError
from clinebox.entrypoints.cli.gateway_options import ModelServer
from clinebox.entrypoints.cli.preflight import ask_first
from clinebox.entrypoints.model_access import DirectAccess, ModelAccess
from clinebox.entrypoints.run_request import ModelEndpoint, RunRequest

if TYPE_CHECKING:
    from clinebox.adapters.gateway import SessionOptions
    from clinebox.adapters.scripted_model.script import Script

GATEWAY = "gateway"
SANDBOX = "sandbox"
ROUTE_S = 30.0


@dataclass(frozen=True, slots=True)
class ModelMeans:
    """How the command line wants the model reached."""

    script: Script | None = None
    """Plays the model in this process."""
    gateway: bool = True
    capture_bodies: bool = False
    preflight: bool = True
    """Ask the server with one token first, if there is a key to be refused."""
    key_variable: str | None = None


def session_token(means: ModelMeans) -> str | None:
    """The token of the run's session at the gateway, made early so that it can be masked everywhere."""
    if not means.gateway:
        return None
    # The gateway brings uvicorn and httpx: a direct run need not import them.
    from clinebox.adapters.gateway import new_session_token  # noqa: PLC0415

    return new_session_token()


def preflight(model: ModelEndpoint, means: ModelMeans) -> tuple[str, ...]:
    """What is to be noted of the model server's answer; a scripted model is not asked."""
    if means.script is not None or not means.preflight:
        return ()
    doubt = ask_first(ModelServer(model.base_url, model.name, model.api_key, means.key_variable))
    return () if doubt is None else (doubt,)


@contextlib.asynccontextmanager
async def model_server(
    request: RunRequest, means: ModelMeans, provider: SandboxProvider
) -> AsyncIterator[RunRequest]:
    """The request with the address of its model server; a scripted one lives as long as the run."""
    script = means.script
    if script is None:
        yield request
        return
    # pydantic takes 100 ms to import, and a run with a model server needs none of it
    from clinebox.adapters.scripted_model.server import ScriptedModelServer  # noqa: PLC0415

    variables = {"workdir": str(request.workdir)}
    host = "127.0.0.1" if means.gateway else (await _route(request, provider)).listen_host
    async with ScriptedModelServer(
        script, host=host, variables=variables, model=request.model.name
    ) as server:
        yield replace(request, model=replace(request.model, base_url=server.base_url))


@contextlib.asynccontextmanager
async def model_access(
    request: RunRequest,
    means: ModelMeans,
    provider: SandboxProvider,
    *,
    token: str | None,
    writer: RunDirectoryWriter,
    masker: Masker,
) -> AsyncIterator[ModelAccess]:
    """The run's way to its model, for as long as the context lasts. CliError when no port can be had."""
    if not means.gateway:
        yield DirectAccess(request.model)
        return
    route = await _route(request, provider)
    from clinebox.entrypoints.gateway_host import serving_gateway  # noqa: PLC0415 - as above

    with _bodies(means, writer, masker) as options:
        try:
            async with serving_gateway(request.model, route) as host:
                yield host.open(token, options)
        except OSError as error:
            message = f"the gateway cannot listen: {error.strerror or error}; try --no-gateway"
            raise CliError(message, code=GATEWAY, exit_code=EXIT_FAILED) from error


async def _route(request: RunRequest, provider: SandboxProvider) -> GatewayRoute:
    found = await provider.gateway_route(request.network, timeout_s=ROUTE_S)
    if not is_successful(found):
        raise CliError(found.failure().message, code=SANDBOX, exit_code=EXIT_FAILED)
    return found.unwrap()


@contextlib.contextmanager
def _bodies(means: ModelMeans, writer: RunDirectoryWriter, masker: Masker) -> Iterator[SessionOptions | None]:
    if not means.capture_bodies:
        yield None
        return
    from clinebox.entrypoints.body_capture import capturing_bodies  # noqa: PLC0415 - as above

    with capturing_bodies(writer, masker) as options:
        yield options
