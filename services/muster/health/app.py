"""Run health: its core with the settings of one cluster, the readings of GPUs that it observes, its metrics.

Readings are decoded as they arrive: a fault must reach the scheduler within a second. A lost one is replaced by the
next interval. Labels of metrics are bounded: phases, classes, teams, codes of the rules; never nodes. Facts are counted
by the leader that emits them, so a new leader or a new fold counts none twice. Gauges are shown again after each fold.
"""

import logging
from collections import Counter as Sums
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from prometheus_client import Counter, Gauge
from pydantic import ValidationError

from muster.bus.gauges import BoundedLabels, LeaderGauges
from muster.bus.service import CoreService, Hosted, LeaderHandle
from muster.bus.settings import Settings
from muster.core.fact import Core, Fact
from muster.core.instant import Instant
from muster.health.config import config_of
from muster.health.core.answers import answer_conditions
from muster.health.core.core import HealthCore
from muster.health.core.patrol import DEEP
from muster.health.core.state import DEVICE, NODE, State
from muster.health.core.verdicts import NodeVerdicts
from muster.health.declaration import DECLARATION
from muster.schemas.facts.health import FaultObserved, HealthMoved, HealthPhase
from muster.schemas.facts.operations import JobFault
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import telemetry_subject
from muster.schemas.telemetry import NodeSample

CODES_MAX = 200
TEAMS_MAX = 64

_UNITS = Gauge("muster_health_units", "Nodes and devices that are not healthy, by phase.", ("kind", "phase"))
_STANDING = Gauge(
    "muster_health_standing_faults",
    "Open faults that keep jobs off nodes and devices.",
    ("kind", "code", "fault_class"),
)
_PERSON = Gauge(
    "muster_health_waiting_for_person", "Nodes and devices that need a person: automatic repair ended.", ("kind",)
)
_TRIPPED = Gauge("muster_health_brake_tripped", "Whether the brake is on until a person resets it.", ("cluster",))
_USED = Gauge(
    "muster_health_brake_utilisation_ratio", "Nodes suspected within the window, relative to the limit.", ("cluster",)
)
_FAULTS = Counter("muster_health_faults", "Reported faults.", ("code", "fault_class"))
_BEGAN = Counter("muster_health_illnesses_begun", "Fault episodes that began, without deep checks.", ("kind",))
_LASTED = Counter(
    "muster_health_illness_seconds", "Total duration of ended fault episodes, from suspect to healthy.", ("kind",)
)
_ENDED = Counter("muster_health_illnesses", "Fault episodes that ended.", ("kind",))
_OWNERS = Counter("muster_health_owners_told", "Application faults reported to their owners.", ("team",))
_PREFLIGHTS = Counter("muster_health_preflights", "Pre-flight verdicts.", ("outcome",))
_LOOKED = Counter("muster_health_readings", "Processed readings of nodes.", ())
_UNREADABLE = Counter("muster_health_readings_unreadable", "Readings that could not be decoded.", ())
_WAITING = Gauge("muster_health_sightings", "Fault signals not reported yet.", ("cluster",))
_DROPPED = Gauge("muster_health_sightings_dropped", "Fault signals dropped because the buffer was full.", ("cluster",))
_UNKNOWN = Gauge("muster_health_unknown_codes", "Observations whose code has no rule.", ("cluster",))
_FOREIGN = Gauge(
    "muster_health_foreign_readings", "Readings of devices that belong to another node than their page.", ("cluster",)
)

_VERDICTS = {"preflight-passed": "passed", "preflight-failed": "failed"}

for _kind in (NODE, DEVICE):
    for _counter in (_BEGAN, _LASTED, _ENDED):
        _counter.labels(_kind)  # shown as 0 before the first, or a rate would not see it
for _outcome in _VERDICTS.values():
    _PREFLIGHTS.labels(_outcome)


class HealthMetrics:
    """Metrics of health, for one leader term after the other."""

    def __init__(self, cluster: str = "") -> None:
        self._cluster = cluster
        self._gauges = LeaderGauges()
        self._codes, self._teams = BoundedLabels(CODES_MAX), BoundedLabels(TEAMS_MAX)
        self._stood: set[tuple[str, str, str]] = set()

    def looked(self) -> None:
        """Count a reading."""
        _LOOKED.inc()

    def unreadable(self) -> None:
        """Count an invalid reading."""
        _UNREADABLE.inc()

    def count(self, fact: Fact) -> None:
        """Count a fact that was just folded."""
        if fact.writer != "health":
            return
        match fact.payload:
            case FaultObserved(code=code, fault_class=fault_class, count=count):
                _FAULTS.labels(self._codes.of(code), fault_class.value).inc(count)
            case HealthMoved(codes=codes) as moved if codes != (DEEP,):
                self._moved(fact, moved)
            case JobFault(team=team, count=count) if fact.name == "fault-told":
                _OWNERS.labels(self._teams.of(team)).inc(count)
            case _ if fact.name in _VERDICTS:
                _PREFLIGHTS.labels(_VERDICTS[fact.name]).inc()

    def show(self, verdicts: NodeVerdicts) -> None:
        """Show the current state. The work grows with the number of unhealthy units."""
        state, show = verdicts.state, self._gauges.show
        counts, waiting = Sums[tuple[str, str]](), Sums[str]()
        for key in state.ill:
            unit = state.units[key]
            counts[unit.kind, unit.phase.value] += 1
            waiting[unit.kind] += unit.needs_person
        for kind in (NODE, DEVICE):
            for phase in HealthPhase:
                if phase is not HealthPhase.HEALTHY:
                    show(_UNITS, counts[kind, phase.value], kind, phase.value)
            show(_PERSON, waiting[kind], kind)
        self._show_standing(state)
        brake = state.brake
        show(_TRIPPED, brake.tripped is not None, self._cluster)
        show(_USED, len(brake.nodes) / brake.most(len(state.nodes)), self._cluster)
        show(_WAITING, len(verdicts.signals), self._cluster)
        show(_DROPPED, sum(verdicts.signals.dropped.values()), self._cluster)
        show(_UNKNOWN, sum(verdicts.detector.unknown.values()), self._cluster)
        show(_FOREIGN, verdicts.detector.foreign, self._cluster)

    def hide(self) -> None:
        """Hide all samples at the end of the term."""
        self._gauges.hide()
        self._stood.clear()

    def _show_standing(self, state: State) -> None:
        """Show the open faults by code; a code that was open in this term stays at 0 afterwards."""
        standing = Sums[tuple[str, str, str]]()
        for key in state.ill:
            unit = state.units[key]
            for one in unit.grave:
                standing[unit.kind, self._codes.of(one.told.code), one.told.fault_class.value] += 1
        self._stood |= standing.keys()
        for labels in self._stood:
            self._gauges.show(_STANDING, standing[labels], *labels)

    def _moved(self, fact: Fact, moved: HealthMoved) -> None:
        if fact.name == HealthPhase.SUSPECT.value:
            _BEGAN.labels(fact.kind).inc()
        elif fact.name == HealthPhase.HEALTHY.value:
            _ENDED.labels(fact.kind).inc()
            _LASTED.labels(fact.kind).inc(moved.lasted_s)


PENDING_MESSAGES_MAX = 16_384
"""Readings buffered by the client; more are dropped, and the next interval brings new ones."""
PENDING_BYTES_MAX = 64 * 1024 * 1024

_log = logging.getLogger(__name__)


@dataclass
class ReadingsSink:
    """The sink that observes readings; without `listens` it only keeps metrics."""

    cluster: str
    listens: bool = True
    metrics: HealthMetrics = field(default_factory=HealthMetrics)
    _core: HealthCore | None = None
    _leader: LeaderHandle = field(default_factory=LeaderHandle)
    _subscription: Subscription | None = None

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        """Subscribe to the readings."""
        assert isinstance(core, HealthCore), "these are health's readings"
        self._core, self._leader = core, leader
        if self.listens:
            self._subscription = await connection.subscribe(
                telemetry_subject(self.cluster, "*"),
                cb=self._take_in,
                pending_msgs_limit=PENDING_MESSAGES_MAX,
                pending_bytes_limit=PENDING_BYTES_MAX,
            )

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Count the facts, and show the state, which changes only with facts."""
        for fact in facts:
            self.metrics.count(fact)
        if self._core is not None and facts:
            self.metrics.show(self._core.verdicts)

    async def close(self) -> None:
        """Unsubscribe."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(nats.errors.Error):  # the connection may be gone, and the subscription with it
                await subscription.unsubscribe()
        self.metrics.hide()

    async def _take_in(self, message: Msg) -> None:
        self.look(message.data)

    def look(self, body: bytes) -> None:
        """Process one reading."""
        if self._core is None:
            return
        try:
            sample = NodeSample.model_validate_json(body)
        except ValidationError:
            self.metrics.unreadable()
            return
        self.metrics.looked()
        if self._core.observe(sample, self._leader.now()):
            self._leader.wake()


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """Return the health service of one cluster."""
    config = config_of(settings)
    cluster, listens = settings.cluster, settings.health.enabled
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: HealthCore(config),
            queries={"conditions": answer_conditions},
            sink=lambda: ReadingsSink(cluster, listens=listens, metrics=HealthMetrics(cluster)),
        ),
    )
