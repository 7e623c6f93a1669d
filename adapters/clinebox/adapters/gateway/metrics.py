"""What a gateway that runs alone shows to Prometheus; needs the package prometheus-client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from clinebox.adapters.gateway.app import Gateway
from clinebox.adapters.gateway.asgi import Application, Receive, Scope, Send, body_message, start_message
from clinebox.adapters.gateway.calls_directory import CallsDirectory
from clinebox.domain.model_calls.record import CallUsage, ModelCall

METRICS_PATH: Final = b"/metrics"
_WAITS_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_LASTS_S: Final = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200)


class GatewayMetrics:
    """Counts calls in a registry of its own. No label holds a token, a path or a model's name.

    Hand `ended` and `refused` to the gateway as its `on_end` and `on_refused`.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "clinebox_gateway_calls", "Calls that ended.", ("end", "status"), registry=self.registry
        )
        self._refused = Counter(
            "clinebox_gateway_refused", "Requests of no session.", ("kind",), registry=self.registry
        )
        self._tokens = Counter(
            "clinebox_gateway_tokens", "As the server counted them.", ("kind",), registry=self.registry
        )
        self._bytes = Counter(
            "clinebox_gateway_bytes", "Of bodies, as passed on.", ("direction",), registry=self.registry
        )
        self._first_byte = Histogram(
            "clinebox_gateway_first_byte_seconds",
            "From a request's arrival to its answer's first byte.",
            buckets=_WAITS_S,
            registry=self.registry,
        )
        self._duration = Histogram(
            "clinebox_gateway_call_seconds",
            "From a request's arrival to its end.",
            buckets=_LASTS_S,
            registry=self.registry,
        )

    def watch(self, gateway: Gateway) -> None:
        """Show how many sessions are open and how many calls are under way, as it stands when asked."""
        self._gauge("sessions", "Sessions that are open.", lambda: gateway.session_count)
        self._gauge("live_calls", "Calls that are under way.", lambda: gateway.live_call_count)

    def watch_directory(self, directory: CallsDirectory) -> None:
        """Show how many writes of records failed."""
        self._gauge("unwritten_records", "Writes of records that failed.", lambda: directory.failures)

    def ended(self, call: ModelCall) -> None:
        """Count a call that ended."""
        status = call.http_status if call.http_status is not None else call.gateway_status
        self._calls.labels(call.end or "", status if status is not None else "none").inc()
        self._bytes.labels("up").inc(call.request_bytes)
        self._bytes.labels("down").inc(call.response_bytes)
        times = call.times
        if times.first_byte_at_s is not None:
            self._first_byte.observe(max(0.0, times.first_byte_at_s - times.received_at_s))
        if times.ended_at_s is not None:
            self._duration.observe(max(0.0, times.ended_at_s - times.received_at_s))
        if call.response.usage is not None:
            self._count_tokens(call.response.usage)

    def refused(self, kind: str) -> None:
        """Count a request that no session made."""
        self._refused.labels(kind).inc()

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)

    def _count_tokens(self, usage: CallUsage) -> None:
        counts = {
            "prompt": usage.prompt_tokens,
            "cached": usage.cached_tokens,
            "completion": usage.completion_tokens,
            "reasoning": usage.reasoning_tokens,
        }
        for kind, count in counts.items():
            if count is not None and count > 0:
                self._tokens.labels(kind).inc(count)

    def _gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        Gauge(f"clinebox_gateway_{name}", text, registry=self.registry).set_function(value)


def with_metrics(application: Application, metrics: GatewayMetrics) -> Application:
    """The application with `GET /metrics` before it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (scope["method"], scope.get("raw_path")) != ("GET", METRICS_PATH):
            await application(scope, receive, send)
            return
        body = metrics.render()
        fields = [
            (b"content-type", CONTENT_TYPE_LATEST.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        await send(start_message(200, fields))
        await send(body_message(body, more=False))

    return app
