"""Run the guard: look at the API servers while leading, keep flow control if allowed, and export each look as metrics.

Effects are server-side applies of objects with fixed names, so a new leader finds what was written and writes the same.
Labels of metrics are bounded: replicas, priority levels, guarded kinds, stored resources, the clients that list most,
and advice codes.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from nats.aio.client import Client
from prometheus_client import Counter, Gauge

from muster.bus.gauges import LeaderGauges
from muster.bus.kubernetes_settings import GuardSettings
from muster.bus.service import CoreService, Hosted, LeaderHandle
from muster.bus.settings import Settings
from muster.core import Fact, Instant
from muster.core.fact import Core
from muster.guard.audit import AuditReceiver
from muster.guard.core.checks import CHECKS, client_name, skew_of
from muster.guard.core.config import GuardConfig, Kind, Subjects
from muster.guard.core.core import GuardCore, State
from muster.guard.core.look import Look, Replica
from muster.guard.core.report import answer_report, largest
from muster.guard.declaration import DECLARATION
from muster.guard.limits import CHANGE_S, REOPEN_S, STOP_S_MAX
from muster.guard.observer import ClusterObserver
from muster.guard.replicas import Place
from muster.kube.errors import KubeConfigError
from muster.schemas.registry import StreamRole

CLIENTS_SHOWN = 20
RESOURCES_SHOWN = 20

_UP = Gauge("muster_apiserver_up", "Whether the API server's metrics could be read.", ("replica",))
_MEMORY = Gauge("muster_apiserver_memory_bytes", "Resident memory of an API server.", ("replica",))
_HEAP_GOAL = Gauge(
    "muster_apiserver_heap_goal_bytes", "Heap size at which the next garbage collection starts.", ("replica",)
)
_CPU = Gauge("muster_apiserver_cpu_cores", "CPU cores used by an API server since the previous look.", ("replica",))
_SKEW = Gauge("muster_apiserver_memory_skew_ratio", "Largest memory of an API server over the smallest.", ("scope",))
_INFLIGHT = Gauge("muster_apiserver_inflight_requests", "Requests in flight.", ("replica", "kind"))
_REQUESTS = Gauge("muster_apiserver_requests_per_second", "Requests answered per second.", ("replica",))
_WATCHES = Gauge("muster_apiserver_watches", "Open watches.", ("replica",))
_LISTS = Gauge("muster_apiserver_lists_per_minute", "LISTs answered per minute, by resource.", ("resource",))
_CLIENT = Gauge(
    "muster_apiserver_client_lists_per_minute", "LISTs of the clients that list most.", ("client", "resource")
)
_OBJECTS = Gauge("muster_apiserver_objects", "Stored objects.", ("resource",))
_SIZE = Gauge("muster_apiserver_objects_bytes", "Size of stored objects, estimated by API servers.", ("resource",))
_SEATS = Gauge("muster_apiserver_flow_seats", "Nominal seats of a priority level.", ("replica", "level"))
_EXECUTING = Gauge("muster_apiserver_flow_executing", "Executing requests of a level.", ("replica", "level"))
_QUEUED = Gauge("muster_apiserver_flow_queued", "Queued requests of a level.", ("replica", "level"))
_REJECTED = Gauge("muster_apiserver_flow_rejected_per_minute", "Rejected requests of a level.", ("replica", "level"))
_WANTED = Gauge("muster_guard_flow_seats_wanted", "Wanted seats of a guarded kind's level.", ("level",))
_RIGHT = Gauge(
    "muster_guard_flow_right", "Whether a guarded kind's level has the wanted seats on every API server.", ("level",)
)
_ADVICE = Gauge("muster_guard_advice", "Active advice.", ("code",))
_LOOKS = Counter("muster_guard_looks", "Looks at the API servers.", ())
_FAILURES = Counter("muster_guard_scrape_failures", "Pages of metrics that could not be read.", ("replica",))
_AUDIT = Counter("muster_guard_audit_events", "Events that API servers sent to the audit webhook.", ())
_AUDIT_REFUSED = Counter("muster_guard_audit_refused", "Rejected batches of the audit webhook.", ())


class GuardMetrics:
    """Gauges of one leader term; the samples of a look replace those of the previous look."""

    def __init__(self) -> None:
        self._look = LeaderGauges()
        self._state = LeaderGauges()
        self._audited = (0, 0)

    def show_look(self, look: Look, audit: AuditReceiver | None) -> None:
        """Show a look; hide replicas, clients and resources that are gone."""
        self._look.hide()
        _LOOKS.inc()
        for replica in look.replicas:
            self._show_replica(replica)
        self._look.show(_SKEW, skew_of(look), "cluster")
        self._show_resources(look)
        for client in look.clients[:CLIENTS_SHOWN]:
            self._look.show(_CLIENT, client.per_minute, client_name(client), client.resource)
        for flow in look.flows:
            self._look.show(_WANTED, flow.wanted, flow.level)
            self._look.show(_RIGHT, flow.is_right, flow.level)
        if audit is not None:
            events, refused = self._audited
            _AUDIT.inc(audit.events - events)
            _AUDIT_REFUSED.inc(audit.refused - refused)
            self._audited = audit.events, audit.refused

    def show_state(self, state: State) -> None:
        """Show the active advice; a code without advice shows 0."""
        for code in CHECKS:
            self._state.show(_ADVICE, sum(one.raised.code == code for one in state.advice.values()), code)

    def hide(self) -> None:
        """Hide all samples at the end of the term."""
        self._look.hide()
        self._state.hide()

    def _show_replica(self, replica: Replica) -> None:
        show, page = self._look.show, replica.page
        show(_UP, page is not None, replica.name)
        if page is None:
            _FAILURES.labels(replica.name).inc()
            return
        show(_MEMORY, page.rss_bytes, replica.name)
        show(_HEAP_GOAL, page.heap_goal_bytes, replica.name)
        show(_CPU, replica.cpu_cores, replica.name)
        show(_REQUESTS, replica.requests_per_s, replica.name)
        show(_INFLIGHT, page.reading, replica.name, "reading")
        show(_INFLIGHT, page.writing, replica.name, "writing")
        show(_WATCHES, sum(page.watches.values()), replica.name)
        for level, seats in page.seats.items():
            show(_SEATS, seats, replica.name, level)
            show(_EXECUTING, page.executing.get(level, 0.0), replica.name, level)
            show(_QUEUED, page.queued.get(level, 0.0), replica.name, level)
            show(_REJECTED, replica.rejected_per_minute.get(level, 0.0), replica.name, level)

    def _show_resources(self, look: Look) -> None:
        lists: dict[str, float] = {}
        for replica in look.up:
            for resource, rate in replica.per_minute.items():
                lists[resource] = lists.get(resource, 0.0) + rate
        for resource in sorted(lists, key=lambda one: -lists[one])[:RESOURCES_SHOWN]:
            self._look.show(_LISTS, lists[resource], resource)
        stored = largest(look, RESOURCES_SHOWN)
        for resource, number, size in stored:
            self._look.show(_OBJECTS, number, resource)
            self._look.show(_SIZE, size, resource)


_logger = logging.getLogger(__name__)


class ServerWatch:
    """The sink that looks at API servers while the guard leads. `version` is Muster's, for the User-Agent."""

    def __init__(self, place: Place, config: GuardConfig, *, scrape_s: float, version: str) -> None:
        self._place, self._config, self._scrape_s, self._version = place, config, scrape_s, version
        self._leader = LeaderHandle()
        self._core: GuardCore | None = None
        self._task: asyncio.Task[None] | None = None
        self._metrics = GuardMetrics()
        self._flow_changed = asyncio.Event()

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:  # noqa: ARG002 - the port
        """Start looking."""
        assert isinstance(core, GuardCore), "these are the guard's looks"
        core.forget()
        self._core, self._leader = core, leader
        self._metrics = GuardMetrics()
        self._metrics.show_state(core.state)
        self._task = asyncio.create_task(self._run(core), name="looks at API servers")
        self._task.add_done_callback(leader.ended)

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Show the advice that the facts left active."""
        assert self._core is not None, "a sink is opened first"
        self._metrics.show_state(self._core.state)

    async def close(self) -> None:
        """Stop looking and hide the metrics."""
        if self._core is not None:
            self._core.forget()
        self._metrics.hide()
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task], timeout=STOP_S_MAX)

    async def _run(self, core: GuardCore) -> None:
        while True:
            try:
                async with ClusterObserver(
                    self._place,
                    self._config,
                    version=self._version,
                    now=self._leader.now,
                    on_flow=self._flow_changed.set,
                ) as observer:
                    await self._watch(core, observer)
            except* KubeConfigError as errors:
                _logger.warning(
                    "the API server's credentials cannot be read, trying again in %g s: %s",
                    REOPEN_S,
                    "; ".join(map(str, errors.exceptions)),
                )
            await asyncio.sleep(REOPEN_S)

    async def _watch(self, core: GuardCore, observer: ClusterObserver) -> None:
        """Look every `scrape_s`, and soon after flow control changed, until the observer fails."""
        while True:
            self._flow_changed.clear()
            applies = self._config.apply
            look = await (observer.keep(leads=self._leader.leads) if applies else observer.look())
            self._metrics.show_look(look, observer.audit)
            if core.observe(look, self._leader.now()):
                self._leader.wake()
            if (failure := observer.failure()) is not None:
                raise failure
            with suppress(TimeoutError):
                async with asyncio.timeout(self._scrape_s):
                    await self._flow_changed.wait()
                    await asyncio.sleep(CHANGE_S)


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """Return the guard of one cluster. A simulated cluster has one too, for checkpoints; it observes nothing there."""
    config, place = config_of(settings), place_of(settings)
    queries = {"report": answer_report}
    if place is None or not settings.guard.enabled:
        core = CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: GuardCore(config),
            queries=queries,
        )
        return (core,)
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: GuardCore(config, guarded=True),
            queries=queries,
            sink=lambda: ServerWatch(place, config, scrape_s=settings.guard.scrape_s, version=version("gpumuster")),
        ),
    )


def config_of(settings: Settings) -> GuardConfig:
    """Return the guard's configuration from the settings."""
    guard = settings.guard
    return GuardConfig(
        kinds=tuple(Kind(kind.resource, kind.group, kind.seats) for kind in guard.kinds),
        subjects=Subjects(guard.subjects),
        apply=guard.apply,
        skew_ratio=guard.skew_ratio,
        lists_per_minute=guard.lists_per_minute,
        secrets_per_workload=guard.secrets_per_workload,
    )


def place_of(settings: Settings) -> Place | None:
    """Return how to reach the cluster; None for a simulated one."""
    kubernetes = settings.kubernetes
    if kubernetes is None:
        return None
    return Place(
        kubeconfig=kubernetes.kubeconfig,
        context=kubernetes.context or "",
        api_servers=kubernetes.api_servers,
        connection_age_s=kubernetes.connection_age_s,
        audit_host=settings.guard.audit_host,
        audit_port=settings.guard.audit_port,
        audit_token=settings.guard.audit_token,
        audit_tls=_pair(settings.guard),
    )


def _pair(guard: GuardSettings) -> tuple[Path, Path] | None:
    """Return certificate and key of the audit receiver; the settings have both or neither."""
    certificate, key = guard.audit_certificate, guard.audit_key
    return None if certificate is None or key is None else (certificate, key)
