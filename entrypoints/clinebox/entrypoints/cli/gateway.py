"""`clinebox gateway`: the gateway alone, for many hosts, until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from returns.pipeline import is_successful

from clinebox.domain.preflight import shown_url
from clinebox.entrypoints.cli import gateway_options
from clinebox.entrypoints.cli import run_parameters as options
from clinebox.entrypoints.cli.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    CliError,
    json_line,
)
from clinebox.entrypoints.cli.gateway_options import ModelServer
from clinebox.entrypoints.cli.interrupts import interrupts
from clinebox.entrypoints.cli.preflight import ask_first
from clinebox.entrypoints.cli.run_options import new_run_id, seconds
from clinebox.entrypoints.cli.terminal_text import shown

if TYPE_CHECKING:
    from clinebox.entrypoints.standing_gateway import Listening, StandingGateway, Stopped

DEFAULT_LISTEN: Final = "127.0.0.1:8787"
DEFAULT_DRAIN_S: Final = 30.0
LISTEN: Final = "listen"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(gateway)


def gateway(
    *,
    upstream: Annotated[
        str, typer.Option(metavar="URL", help="The model server, such as http://host:8000/v1.")
    ],
    model: Annotated[str, typer.Option(metavar="NAME", help="The model's name there.")],
    api_key_env: options.ApiKeyEnv = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")
    ] = DEFAULT_LISTEN,
    public_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="How sandboxes call this gateway.", show_default="as it listens"),
    ] = None,
    operator_token_env: Annotated[
        str | None,
        typer.Option(metavar="VAR", help="The variable with the token that opens sessions at /sessions."),
    ] = None,
    session_token_env: Annotated[
        str | None, typer.Option(metavar="VAR", help="The variable with the token of one lasting session.")
    ] = None,
    calls_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write each session's calls to DIR/<session id>.jsonl.")
    ] = None,
    drain: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long a stop waits for the calls under way.")
    ] = DEFAULT_DRAIN_S,
    preflight: Annotated[
        bool, typer.Option("--preflight/--no-preflight", help="Ask the model server first if there is a key.")
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object when it listens, and one when it stopped.")
    ] = False,
) -> None:
    """Put one hop in front of a model server for many hosts: sessions, records, metrics.

    SIGTERM or Ctrl-C takes no new calls and lets those under way finish; a second one cuts them.
    Exit code: 0 stopped, 1 the model server rejected the key, 2 bad usage, 130 stopped by a second signal.
    """
    server = gateway_options.model_server("--upstream", upstream, model, api_key_env, os.environ)
    tokens = gateway_options.tokens(operator_token_env, session_token_env, server.key, os.environ)
    place = gateway_options.listen_place(listen, public_url)
    drain_s = seconds("--drain", drain)
    directory = gateway_options.calls_path(calls_dir)
    if preflight and (doubt := ask_first(server)) is not None:
        _say(doubt)
    program = _Program(server, place, tokens, directory, drain_s, as_json=as_json)
    raise typer.Exit(program.run())


def _say(sentence: str) -> None:
    sys.stderr.write(f"clinebox gateway: {shown(sentence)}\n")


@dataclass(frozen=True, slots=True)
class _Program:
    """One checked gateway, and how it speaks."""

    server: ModelServer
    place: gateway_options.Place
    tokens: gateway_options.Tokens
    calls_dir: Path | None
    drain_s: float
    as_json: bool

    def run(self) -> int:
        """Serve until a signal; the exit code."""
        # uvicorn and httpx take their time to import, and no other command needs them
        from clinebox.entrypoints.standing_gateway import Stop, stand  # noqa: PLC0415

        settings = self._settings()

        async def story() -> Stopped:
            stop = Stop()
            with interrupts(stop.ask):
                ended = await stand(settings, stop, self._say_listening)
            if not is_successful(ended):
                reason = f"--listen: {self.place.listen} cannot be had: {ended.failure()}"
                raise CliError(reason, code=LISTEN, exit_code=EXIT_USAGE)
            return ended.unwrap()

        return self._say_stopped(asyncio.run(story()))

    def _settings(self) -> StandingGateway:
        from clinebox.adapters.gateway import Upstream  # noqa: PLC0415 - as above
        from clinebox.adapters.gateway.calls_directory import CallsDirectory  # noqa: PLC0415
        from clinebox.entrypoints.standing_gateway import StandingGateway  # noqa: PLC0415

        try:
            upstream = Upstream(self.server.url, self.server.key, trust_env=self.server.by_proxy)
        except ValueError as error:
            raise CliError(f"--upstream or --api-key-env: {error}") from error
        return StandingGateway(
            upstream=upstream,
            model=self.server.model,
            host=self.place.host,
            port=self.place.port,
            public_url=self.place.public_url,
            operator_token=self.tokens.operator,
            session_token=self.tokens.session,
            fixed_id=f"fixed-{new_run_id()}",
            directory=None if self.calls_dir is None else CallsDirectory(self.calls_dir, _say),
            drain_s=self.drain_s,
        )

    def _say_listening(self, listening: Listening) -> None:
        for line in self._lines(listening):
            _say(line)
        if self.as_json:
            _print_object(
                {
                    "status": "listening",
                    "url": listening.public_url,
                    "listen_url": listening.listen_url,
                    "upstream": shown_url(self.server.url),
                    "model": self.server.model,
                    "metrics": listening.has_metrics,
                    "pid": os.getpid(),
                }
            )

    def _lines(self, listening: Listening) -> Iterator[str]:
        url = listening.public_url
        yield f"{url} (listening at {listening.listen_url}) for {shown_url(self.server.url)}"
        if self.tokens.operator is not None:
            yield f"sessions: POST {url}/sessions with the token in {self.tokens.operator_variable}"
        if self.tokens.session is not None:
            yield f"one lasting session: base URL {url}/s/${self.tokens.session_variable}/v1"
        if self.calls_dir is not None:
            yield f"calls: {self.calls_dir}/<session id>.jsonl"
        yield (
            f"metrics: {url}/metrics" if listening.has_metrics else "no metrics: they need clinebox[metrics]"
        )
        yield "Ctrl-C drains and stops; once more cuts the calls under way"

    def _say_stopped(self, stopped: Stopped) -> int:
        _say(f"stopped; {stopped.cut_requests} requests were cut")
        if stopped.unwritten_records:
            _say(f"{stopped.unwritten_records} records could not be written to {self.calls_dir}")
        if self.as_json:
            _print_object(
                {
                    "status": "stopped",
                    "cut_requests": stopped.cut_requests,
                    "killed": stopped.killed,
                    "unwritten_records": stopped.unwritten_records,
                }
            )
        return EXIT_INTERRUPTED if stopped.killed else EXIT_OK


def _print_object(value: dict[str, str | int | bool]) -> None:
    sys.stdout.write(json_line({**value}) + "\n")
    sys.stdout.flush()
