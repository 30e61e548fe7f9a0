"""Metrics of the gateway's API: requests, errors and durations by route, and requests under way.

Labels are few and fixed: never an id, a team or a path as sent.
"""

import logging
import os
from collections.abc import MutableMapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.bus.clock import TimeSource
from muster.bus.limits import SPAN_SLOW_S
from muster.bus.logs import LineLimiter
from muster.bus.tracing import Exemplars, about, sampled_one_in

DURATIONS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
"""Label of methods that HTTP does not define."""

REFUSALS = ("400", "401", "403", "409", "413", "422", "429", "503")
"""Statuses of refused submissions."""

FAILURES_TOLD_PER_S = 10
TRACE = "muster.trace"
"""Key of the request's scope that holds the traceparent of the job that the request is about."""

_logger = logging.getLogger(__name__)


class Metrics:
    """The gateway's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._exemplars = Exemplars(sampled_one_in(os.environ))
        self.requests = Counter(
            "muster_http_requests", "HTTP requests answered", ("route", "method", "status"), registry=self.registry
        )
        self.request_s = Histogram(
            "muster_http_request_seconds",
            "Time from a request to the start of its answer, in seconds",
            ("route", "method"),
            buckets=DURATIONS_S,
            registry=self.registry,
        )
        self.in_flight = Gauge("muster_http_requests_in_flight", "HTTP requests under way", registry=self.registry)
        self.submit_s = Histogram(
            "muster_submit_seconds",
            "Time from a submission to the acknowledged fact, in seconds",
            buckets=DURATIONS_S,
            registry=self.registry,
        )
        self.refused = Counter(
            "muster_jobs_refused", "Job submissions refused, by HTTP status", ("status",), registry=self.registry
        )
        self.workloads = Counter(
            "muster_workloads_answered",
            "Requests of Kubernetes objects, by answer",
            ("answer",),
            registry=self.registry,
        )
        self.identities = Counter(
            "muster_identity_checks",
            "Bearer tokens checked with an identity provider, by outcome",
            ("source", "outcome"),
            registry=self.registry,
        )
        self.handshakes = Counter(
            "muster_tls_handshakes",
            "TLS connections, by the outcome of their handshake",
            ("outcome",),
            registry=self.registry,
        )
        self.live_connections_closed = Counter(
            "muster_live_connections_closed",
            "Live view connections closed because their token had expired or had too many connections",
            registry=self.registry,
        )
        for status in REFUSALS:
            self.refused.labels(status)  # shown as 0 before the first refusal, or a rate would miss it

    def exemplar(self, traceparent: str, took_s: float) -> dict[str, str] | None:
        """Return the exemplar that links a duration to the trace, if the trace is sampled or the request slow."""
        return self._exemplars.of(traceparent, slow=took_s > SPAN_SLOW_S)


def is_about(scope: MutableMapping[str, object], traceparent: str) -> None:
    """Record that the request is about the job of this trace."""
    scope[TRACE] = traceparent


class Counting:
    """Counts and times answers by route template, so that ids never become labels; logs failed requests."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, time: TimeSource) -> None:
        self._app = app
        self._metrics = metrics
        self._time = time
        self._counters: dict[
            tuple[str, str, int], Counter
        ] = {}  # looked up once: a label look-up costs as much as counting
        self._timers: dict[tuple[str, str], Histogram] = {}
        self._telling = LineLimiter(FAILURES_TOLD_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; count and time its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = self._time.monotonic_s()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._answered(scope, message["status"], self._time.monotonic_s() - started_s)
            await send(message)

        in_flight = self._metrics.in_flight
        in_flight.inc()
        try:
            await self._app(scope, receive, counted)
        finally:
            in_flight.dec()

    def _answered(self, scope: Scope, status: int, took_s: float) -> None:
        route = getattr(scope.get("route"), "path", "unknown")
        method = scope["method"] if scope["method"] in METHODS else OTHER
        trace = str(scope.get(TRACE, ""))
        counter = self._counters.get((route, method, status))
        if counter is None:
            counter = self._counters[route, method, status] = self._metrics.requests.labels(route, method, str(status))
        timer = self._timers.get((route, method))
        if timer is None:
            timer = self._timers[route, method] = self._metrics.request_s.labels(route, method)
        counter.inc()
        timer.observe(took_s, self._metrics.exemplar(trace, took_s))
        if status >= 500:
            self._tell(f"{method} {route}", status, took_s, trace)

    def _tell(self, what: str, status: int, took_s: float, trace: str) -> None:
        if not self._telling.allows(self._time.monotonic_s()):
            return
        unsaid = self._telling.left_out()
        more = f"; {unsaid} more since the last log line" if unsaid else ""
        _logger.warning("%s was answered %d after %.3f s%s", what, status, took_s, more, extra=about(trace))
