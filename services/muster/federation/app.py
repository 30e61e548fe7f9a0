"""The federation service: its core, the copier of the clusters' reports, and the metrics of its leader. The metrics
show the states of clusters, the jobs routed to them, waiting jobs by reason, and reroutes."""

from collections import Counter as Sums
from collections.abc import Sequence

from nats.aio.client import Client
from prometheus_client import Counter, Gauge

from muster.bus.gauges import LeaderGauges
from muster.bus.service import CoreService, Hosted, LeaderHandle
from muster.bus.settings import Settings
from muster.core import NS_PER_S, Fact, Instant
from muster.core.fact import Core
from muster.core.instant import seconds_between
from muster.federation.copier import Copier, CopyTrimmer
from muster.federation.core import FederationCore, MemberPlan, answers
from muster.federation.core.answers import answer_federation
from muster.federation.core.turns import LEASED, NO_CLUSTER, OVERFLOW, SETTLING, TEAM_LIMIT, UNKNOWN_CLUSTER
from muster.federation.declaration import DECLARATION
from muster.federation.reports import Desk
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.members import AskFederation
from muster.schemas.registry import StreamRole

SHOW_S = 2.0
"""Interval between two updates of the gauges, in seconds: shorter than any scrape interval, and cheap."""

REASONS = (TEAM_LIMIT, OVERFLOW, NO_CLUSTER, LEASED, SETTLING, UNKNOWN_CLUSTER)
_MOVES = {"job-returned": "returned", "drop-forwarded": "dropped", "job-return-refused": "refused"}

_STATE = Gauge("muster_federation_cluster_state", "1 for the current state of a cluster.", ("cluster", "state"))
_JOBS = Gauge("muster_federation_cluster_jobs", "Live jobs routed to a cluster.", ("cluster",))
_GPUS = Gauge("muster_federation_cluster_gpus", "GPUs requested by the live jobs of a cluster.", ("cluster",))
_THERE = Gauge("muster_federation_cluster_gpus_there", "GPUs of a cluster, from its last summary.", ("cluster",))
_FREE = Gauge("muster_federation_cluster_gpus_free", "Free GPUs of a cluster, from its last summary.", ("cluster",))
_QUEUED = Gauge(
    "muster_federation_cluster_jobs_queued", "Queued jobs of a cluster, from its last summary.", ("cluster",)
)
_HEARD = Gauge(
    "muster_federation_cluster_heard_timestamp_seconds",
    "Time of the last contact with a cluster that may be lost; 0: never.",
    ("cluster",),
)
_WAITING = Gauge("muster_federation_jobs_waiting", "Jobs that wait for a cluster, by reason.", ("reason",))
_MOVED = Counter(
    "muster_federation_job_moves",
    "Reroutes of jobs: handed back, dropped with a lost cluster, or refused because the job had started.",
    ("how",),
)
_LOSSES = Counter("muster_federation_cluster_losses", "Number of times that a cluster was lost.", ("cluster",))

for _how in _MOVES.values():
    _MOVED.labels(_how)  # shown as 0 before the first, or a rate would miss it


class FederationSink:
    """Implements `Sink`. One instance serves consecutive terms."""

    def __init__(self) -> None:
        self._gauges = LeaderGauges()
        self._core: FederationCore | None = None
        self._shown_at = Instant(0)

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:  # noqa: ARG002 - the port
        """Start to show the metrics of this core."""
        assert isinstance(core, FederationCore), "these are metrics of the federation"
        self._core, self._shown_at = core, Instant(0)

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Count reroutes and losses, and update the gauges if due."""
        assert self._core is not None, "a sink is opened first"
        is_news = False
        for fact in facts:
            how = _MOVES.get(fact.name)
            if how is not None:
                _MOVED.labels(how).inc()
            elif fact.kind == "cluster":
                is_news = True
                if fact.name == "lost":
                    _LOSSES.labels(fact.subject_id).inc()
        if is_news or seconds_between(self._shown_at, now) >= SHOW_S:
            self._shown_at = now
            self._show(self._core, now)

    async def close(self) -> None:
        """Hide the gauges."""
        self._core = None
        self._gauges.hide()

    def _show(self, core: FederationCore, now: Instant) -> None:
        told = answer_federation(core, AskFederation(), now)
        for one in told.clusters:
            for state in ClusterPhase:
                self._gauges.show(_STATE, float(one.state is state), one.name, state.value)
            self._gauges.show(_JOBS, one.jobs, one.name)
            self._gauges.show(_GPUS, one.gpus, one.name)
            for gauge, value in ((_THERE, one.gpus_total), (_FREE, one.gpus_free), (_QUEUED, one.jobs_queued)):
                self._gauges.show(gauge, value, one.name)
            _LOSSES.labels(one.name)  # shown as 0 before the first, or a rate would miss it
            if one.lost_after_s:
                self._gauges.show(_HEARD, one.heard_at / NS_PER_S, one.name)
        waiting = Sums[str]()
        for queue in told.waiting:
            waiting[queue.reason] += queue.jobs
        for reason in REASONS:
            self._gauges.show(_WAITING, waiting[reason], reason)


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """Return the federation of all clusters; if the settings name none, of this stack's own cluster."""
    federation, desk = settings.federation, Desk()
    plans = tuple(MemberPlan(name or settings.cluster, lost_s) for name, lost_s in federation.lost_after().items())
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.FED,
            core=lambda: desk.take(
                FederationCore(
                    members=plans,
                    policy=federation.policy,
                    margin_s=federation.margin_s,
                    checkpoint_every_facts=settings.scheduler.checkpoint_every_facts,
                )
            ),
            sink=FederationSink,
            queries={
                "federation": answers.answer_federation,
                "routes": answers.answer_routes,
                "routes-check": answers.answer_routes_check,
                "assignment": answers.answer_assignment,
            },
        ),
        Copier(DECLARATION, desk=desk if settings.role == "centre" else None),
        *((CopyTrimmer(DECLARATION),) if settings.role == "centre" and federation.copies_keep_s else ()),
    )
