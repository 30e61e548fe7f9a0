"""Metrics of a leading agent: how its watches go, and how much it asks of the API server."""

import asyncio
from collections.abc import Callable, Sequence

from prometheus_client import Counter, Gauge
from typing_extensions import override

from muster.agent.kubernetes.parts import Part, Running
from muster.bus.gauges import LeaderGauges
from muster.kube.connection import KubeConnection
from muster.kube.figures import ReflectorFigures

LOOK_S = 5.0
"""Between two looks at the watches."""

_SYNCED = Gauge("muster_kube_watch_synced", "Whether all objects of a kind were seen once.", ("resource",))
_SILENT = Gauge(
    "muster_kube_watch_silent_seconds", "Since a watch brought anything; bookmarks come each minute.", ("resource",)
)
_OBJECTS = Gauge("muster_kube_objects", "Objects that are held, a few fields of each.", ("resource",))
_LISTS = Counter(
    "muster_kube_lists",
    "How often all objects of a kind were asked for; 1 for each leader's time is best.",
    ("resource",),
)
_FAILURES = Counter("muster_kube_watch_failures", "Watches and lists that ended with an error.", ("resource",))
_MISSED = Counter(
    "muster_kube_watch_missed_objects",
    "Objects of which a watch had lost an update, repaired by comparing.",
    ("resource",),
)
_EVENTS = Counter("muster_kube_events", "Events of watches.", ("resource",))
_REQUESTS = Counter("muster_kube_requests", "Requests sent to the API server, watches included.", ("service",))
_SERVICE = "agent"

_COUNTED: tuple[tuple[Counter, str], ...] = (
    (_LISTS, "relists"), (_FAILURES, "failures"), (_MISSED, "missed"), (_EVENTS, "events"),
)  # fmt: skip
"""Counters, and the figures that they follow."""


class MetricsPart(Part):
    """Implements `parts.Part`. watching: the watches that are kept up now."""

    def __init__(self, watching: Callable[[], Sequence[Running]]) -> None:
        self._watching = watching
        self._shown = LeaderGauges()
        self._counted: dict[tuple[str, str], int] = {}
        self._sent = 0

    @override
    async def run(self, connection: KubeConnection) -> None:
        """What is shown is taken off the page with the leader's time."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self.show(loop.time(), requests=connection.requests_sent)
                await asyncio.sleep(LOOK_S)
        finally:
            self._shown.hide()

    def show(self, now_s: float, *, requests: int) -> None:
        """What there is now. now_s: of the event loop's clock. requests: sent so far on this connection."""
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
