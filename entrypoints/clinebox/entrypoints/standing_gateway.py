"""The gateway alone, for many hosts: sessions by `/sessions`, records, metrics, and a drain at its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from returns.result import Failure, Result, Success

from clinebox.adapters.gateway import Gateway, SessionOptions, Upstream, serve_gateway
from clinebox.adapters.gateway.admin import SessionDesk
from clinebox.adapters.gateway.asgi import Application
from clinebox.adapters.gateway.calls_directory import CallsDirectory
from clinebox.adapters.gateway.drain import Drain
from clinebox.adapters.gateway.session_book import SessionBook

if TYPE_CHECKING:
    from clinebox.adapters.gateway.metrics import GatewayMetrics


@dataclass(frozen=True, slots=True)
class StandingGateway:
    """What a gateway that runs alone is told. One of the two tokens at least is there."""

    upstream: Upstream
    model: str
    """Told to whoever opens a session; no call is held to it."""
    host: str
    port: int
    """0 takes a free one."""
    drain_s: float
    public_url: str | None = None
    """How hosts and sandboxes call it; None: as it listens."""
    operator_token: str | None = field(default=None, repr=False)
    """Opens, reads and ends sessions at `/sessions`."""
    session_token: str | None = field(default=None, repr=False)
    """One session that lasts as long as the gateway."""
    fixed_id: str = "fixed"
    """The name of that session's file of records."""
    directory: CallsDirectory | None = None


@dataclass(frozen=True, slots=True)
class Listening:
    """It takes calls now."""

    public_url: str
    listen_url: str
    has_metrics: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    """How it ended."""

    cut_requests: int
    """What was under way and could not be waited for."""
    killed: bool
    """Whether a second signal ended the drain."""
    unwritten_records: int


class Stop:
    """A stop that is asked for: once to drain, once more to cut what is under way."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.asked_again = asyncio.Event()

    def ask(self) -> None:
        """Ask; a signal handler may call it."""
        (self.asked_again if self.asked.is_set() else self.asked).set()


async def stand(
    settings: StandingGateway, stop: Stop, on_listening: Callable[[Listening], None]
) -> Result[Stopped, str]:
    """Serve until the stop, then drain. Failure(reason) when the address cannot be had."""
    metrics = _metrics()
    gateway = Gateway(
        settings.upstream,
        on_end=None if metrics is None else metrics.ended,
        on_refused=None if metrics is None else metrics.refused,
    )
    book = SessionBook(gateway, settings.directory)
    desk = _desk(settings, gateway, book, metrics)
    drain = Drain(_with_metrics(gateway if desk is None else desk, gateway, settings, metrics))
    _open_fixed(settings, gateway)
    async with contextlib.AsyncExitStack() as stack:
        serving = serve_gateway(gateway, settings.host, settings.port, application=drain)
        try:
            address = await stack.enter_async_context(serving)
        except OSError as error:
            return Failure(error.strerror or str(error))
        public_url = settings.public_url or address.url
        if desk is not None:
            desk.public_url = public_url
        on_listening(Listening(public_url, address.url, metrics is not None))
        await stop.asked.wait()
        cut = await _cut_after_drain(drain, stop, settings.drain_s)
        await book.aclose()
    failures = 0 if settings.directory is None else settings.directory.failures
    return Success(Stopped(cut, stop.asked_again.is_set(), failures))


def _metrics() -> GatewayMetrics | None:
    """None where the optional package is not installed."""
    try:
        from clinebox.adapters.gateway.metrics import GatewayMetrics  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        return None
    return GatewayMetrics()


def _with_metrics(
    application: Application, gateway: Gateway, settings: StandingGateway, metrics: GatewayMetrics | None
) -> Application:
    if metrics is None:
        return application
    from clinebox.adapters.gateway.metrics import with_metrics  # noqa: PLC0415 - an extra

    metrics.watch(gateway)
    if settings.directory is not None:
        metrics.watch_directory(settings.directory)
    return with_metrics(application, metrics)


def _desk(
    settings: StandingGateway, gateway: Gateway, book: SessionBook, metrics: GatewayMetrics | None
) -> SessionDesk | None:
    if settings.operator_token is None:
        return None
    refused = None if metrics is None else metrics.refused
    return SessionDesk(gateway, book, settings.operator_token, model=settings.model, on_refused=refused)


def _open_fixed(settings: StandingGateway, gateway: Gateway) -> None:
    """Its records would fill the memory in the course of months, so they go to the file alone."""
    if settings.session_token is None:
        return
    directory, name = settings.directory, settings.fixed_id
    options = SessionOptions(
        on_end=None if directory is None else lambda call, _: directory.append(name, call),
        keeps_records=False,
    )
    gateway.open_session(options, token=settings.session_token)


async def _cut_after_drain(drain: Drain, stop: Stop, within_s: float) -> int:
    """How many requests were still under way when the time was over, or the second signal came."""
    finished = asyncio.create_task(drain.finished(within_s))
    again = asyncio.create_task(stop.asked_again.wait())
    await asyncio.wait({finished, again}, return_when=asyncio.FIRST_COMPLETED)
    for task in (finished, again):
        task.cancel()
    await asyncio.gather(finished, again, return_exceptions=True)
    return drain.under_way
