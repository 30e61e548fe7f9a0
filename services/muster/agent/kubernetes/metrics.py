"""Export metrics of a leading agent: its watches, and its requests to the API server."""

import asyncio
from collections.abc import Callable, Sequence

from prometheus_client import Counter, Gauge
from typing_extensions import override

from muster.agent.kubernetes.parts import Part, Running
from muster.bus.gauges import LeaderGauges
from muster.kube.connection import KubeConnection
from muster.kube.figures import ReflectorFigures

LOOK_S = 5.0
"""Between two updates."""

_SYNCED = Gauge("muster_kube_watch_synced", "Whether the initial list of a kind is complete.", ("resource",))
_SILENT = Gauge(
    "muster_kube_watch_silent_seconds", "Seconds since a watch's last byte; bookmarks come each minute.", ("resource",)
)
_OBJECTS = Gauge("muster_kube_objects", "Cached objects, a few fields of each.", ("resource",))
_LISTS = Counter(
    "muster_kube_lists",
    "Full lists of a kind; ideally one for each leader term.",
    ("resource",),
)
_FAILURES = Counter("muster_kube_watch_failures", "Watches and lists that ended with an error.", ("resource",))
_MISSED = Counter(
    "muster_kube_watch_missed_objects",
    "Objects of which a watch lost an update, found by comparison.",
    ("resource",),
)
_EVENTS = Counter("muster_kube_events", "Watch events.", ("resource",))
_REQUESTS = Counter("muster_kube_requests", "Requests sent to the API server, including watches.", ("service",))
_SERVICE = "agent"

_COUNTED: tuple[tuple[Counter, str], ...] = (
    (_LISTS, "relists"), (_FAILURES, "failures"), (_MISSED, "missed"), (_EVENTS, "events"),
)  # fmt: skip
"""Counters, and the figures that they follow."""


class MetricsPart(Part):
    """Exports metrics of the current watches."""

    def __init__(self, watching: Callable[[], Sequence[Running]]) -> None:
        self._watching = watching
        self._shown = LeaderGauges()
        self._counted: dict[tuple[str, str], int] = {}
        self._sent = 0

    @override
    async def run(self, connection: KubeConnection) -> None:
        """Update the metrics until cancelled; hide them when the term ends."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self.show(loop.time(), requests=connection.requests_sent)
                await asyncio.sleep(LOOK_S)
        finally:
            self._shown.hide()

    def show(self, now_s: float, *, requests: int) -> None:
        """Show the current figures. `now_s` is the event loop's time, `requests` the number sent on this connection."""
        for watch in self._watching():
            self._show(watch.figures, now_s)
        _REQUESTS.labels(_SERVICE).inc(requests - self._sent)
        self._sent = requests

    def _show(self, figures: ReflectorFigures, now_s: float) -> None:
        resource = figures.resource
        self._shown.show(_SYNCED, figures.synced, resource)
        self._shown.show(_SILENT, figures.silent_s(now_s), resource)
        self._shown.show(_OBJECTS, figures.objects, resource)
        for counter, name in _COUNTED:
            count = int(getattr(figures, name))
            key = resource, name
            counter.labels(resource).inc(count - self._counted.get(key, 0))
            self._counted[key] = count
