"""Metrics of a real cluster as guard and agent show them, made by their own code: for checks of queries without one."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry

from muster.agent.kubernetes.metrics import MetricsPart
from muster.core import Instant
from muster.guard.app import GuardMetrics
from muster.guard.core.core import State
from muster.guard.core.look import ClientLists, FlowLook, Look, Replica
from muster.guard.core.pages import Page
from muster.kube.figures import ReflectorFigures

LOOPBACK = "127.0.0.1"
LEVEL = "muster-list-secrets"
_PREFIXES = ("muster_apiserver_", "muster_guard_", "muster_kube_")


def look() -> Look:
    """Two API servers that answer and one that does not; somebody lists too much."""
    page = Page(
        rss_bytes=900 * 2**20,
        heap_goal_bytes=700 * 2**20,
        reading=3,
        writing=1,
        watches={"pods": 40},
        seats={LEVEL: 2},
        executing={LEVEL: 2.0},
        queued={LEVEL: 8.0},
        objects={"secrets": 300},
        sizes={"secrets": 40_000_000},
    )
    per_minute = {("secrets", "cluster"): 90.0, ("secrets", "resource"): 300.0}
    rates = {"per_minute": per_minute, "rejected_per_minute": {LEVEL: 1.0}, "requests_per_s": 80.0, "cpu_cores": 0.4}
    return Look(
        at=Instant(0),
        replicas=(
            Replica("10.0.0.1:6443", page, **rates),  # type: ignore[arg-type]
            Replica("10.0.0.2:6443", page, **rates),  # type: ignore[arg-type]
            Replica("10.0.0.3:6443", error="refused"),
        ),
        flows=(FlowLook(LEVEL, "secrets", 2, found=(2, 2), is_right=True),),
        clients=(ClientLists("dashboard/1.0", "system:serviceaccount:kubeflow:dashboard", "secrets", 90.0, 30),),
    )


class _Seen:
    """A watch that has seen all pods."""

    figures = ReflectorFigures("pods", synced=True, objects=40, relists=1, failures=1, missed=1, events=90, heard_s=1.0)
    synced = True

    async def run(self) -> None:
        """Nothing more comes."""

    async def wait_synced(self) -> None:
        """At once."""


class _OfCluster(CollectorRegistry):
    """What of this process's metrics the pages of guard and agent have."""

    def collect(self) -> Iterator[Metric]:
        return (family for family in REGISTRY.collect() if family.name.startswith(_PREFIXES))


@contextmanager
def cluster_page() -> Iterator[str]:
    """Address of the page."""
    shown = GuardMetrics()
    shown.show_look(look(), None)
    shown.show_state(State())
    agent = MetricsPart(lambda: [_Seen()])
    agent.show(2.0, requests=9)
    registry = _OfCluster()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            encode, media_type = choose_encoder(self.headers.get("Accept", ""))
            self.send_response(200)
            self.send_header("Content-Type", media_type)
            self.end_headers()
            self.wfile.write(encode(registry))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """A test's output is for its failures."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}/metrics"
    finally:
        shown.hide()
        server.shutdown()
        server.server_close()
        thread.join()
