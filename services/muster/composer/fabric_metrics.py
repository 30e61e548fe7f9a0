"""Prometheus metrics of fabrics, attachments and requests. Labels come from the settings or a fixed vocabulary."""

from collections.abc import Callable, Mapping, Sequence

from prometheus_client import Counter, Gauge, Histogram

from muster.bus.gauges import LeaderGauges
from muster.bus.tracing import Exemplars
from muster.composer.core.records import Kind
from muster.schemas.devices import CXL_MEMORY, GPU, AttachmentPhase, BreakerState, PoolModel
from muster.schemas.facts.device import CallFailure

LATE = "late"
"""Failure of an attachment whose time was over without a call that failed."""

OTHER = "other"
"""Type or model of devices that no settings name: what a manager calls them makes no labels."""
LIVE_PHASES = tuple(phase for phase in AttachmentPhase if not phase.is_over)

_BREAKERS = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}
_TYPES = (GPU, CXL_MEMORY)
_DURATIONS_S = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1200.0)

_EXEMPLARS = Exemplars(1)  # devices come and go seldom: each may be looked for

_BREAKER = Gauge("muster_fabric_breaker", "Circuit breaker: 0 closed, 1 half-open, 2 open.", ("fabric",))
_POOL = Gauge("muster_fabric_devices", "Devices, free in the pool or attached.", ("fabric", "type", "model", "place"))
_ORPHANS = Gauge("muster_fabric_orphans", "Devices on machines that nobody asked for.", ("fabric",))
_UNSETTLED = Gauge(
    "muster_fabric_calls_unsettled", "Calls that may still have an effect, lost ones included.", ("fabric",)
)
_SURVEY_AGE = Gauge(
    "muster_fabric_survey_age_seconds",
    "Since the newest look that succeeded began; since the term began while none did.",
    ("fabric",),
)
_ATTACHMENTS = Gauge("muster_attachments", "Devices attached or on their way, by phase.", ("fabric", "phase"))
_ATTACH_S = Histogram("muster_attach_seconds", "From requested to online.", ("fabric",), buckets=_DURATIONS_S)
_DETACH_S = Histogram("muster_detach_seconds", "From detach-wanted to detached.", ("fabric",), buckets=_DURATIONS_S)
_FAILED = Counter("muster_attachments_failed", "Attachments that failed for good.", ("fabric", "failure"))
_ADOPTED = Counter("muster_attachments_adopted", "Devices found after a call of unknown outcome.", ("fabric",))
_GIVEN_UP = Counter("muster_detachments_given_up", "Detachments that were given up: the device stays.", ("fabric",))
_REQUESTS = Counter("muster_device_requests", "Requests for devices, by what came of them.", ("outcome",))
for _outcome in ("accepted", "refused", "failed", "ended"):
    _REQUESTS.labels(_outcome)


class FabricGauges:
    """What is so, of all fabrics of one composer. models: by fabric, the (type, model) that its settings name."""

    def __init__(self, models: Mapping[str, Sequence[Kind]]) -> None:
        self._gauges = LeaderGauges()
        self._named = {fabric: frozenset(kinds) for fabric, kinds in models.items()}
        self._shown = {fabric: dict.fromkeys(kinds) for fabric, kinds in models.items()}
        for fabric in models:
            for phase in LIVE_PHASES:
                self.attachments(fabric, phase, 0)
            _begin_at_zero(fabric)

    def fabric(self, name: str, *, breaker: BreakerState, unsettled: int, orphans: int) -> None:
        """How one fabric stands."""
        self._gauges.show(_BREAKER, _BREAKERS[breaker], name)
        self._gauges.show(_UNSETTLED, unsettled, name)
        self._gauges.show(_ORPHANS, orphans, name)

    def survey_age(self, fabric: str, age_s: Callable[[], float]) -> None:
        """Computed whenever somebody looks, so that it grows also while nothing happens."""
        self._gauges.show_computed(_SURVEY_AGE, age_s, fabric)

    def pool(self, fabric: str, pool: Mapping[Kind, PoolModel]) -> None:
        """All that a pool holds now."""
        shown = self._shown.setdefault(fabric, {})
        totals = dict.fromkeys(shown, (0, 0))
        for kind, counts in pool.items():
            label = self._label(fabric, kind)
            free, attached = totals.get(label, (0, 0))
            totals[label] = free + counts.free, attached + counts.attached
        shown.update(dict.fromkeys(totals))
        for (type_, model), (free, attached) in totals.items():
            self._gauges.show(_POOL, free, fabric, type_, model, "free")
            self._gauges.show(_POOL, attached, fabric, type_, model, "attached")

    def attachments(self, fabric: str, phase: AttachmentPhase, count: int) -> None:
        """So many are in this phase."""
        self._gauges.show(_ATTACHMENTS, count, fabric, phase.value)

    def hide(self) -> None:
        """The term is over."""
        self._gauges.hide()

    def _label(self, fabric: str, kind: Kind) -> Kind:
        if kind in self._named.get(fabric, ()):
            return kind
        return (kind[0] if kind[0] in _TYPES else OTHER), OTHER


def _begin_at_zero(fabric: str) -> None:
    """What was never counted is shown too: or a rate would not see the first."""
    for counter in (_ADOPTED, _GIVEN_UP):
        counter.labels(fabric)
    for failure in (*(one.value for one in CallFailure), LATE):
        _FAILED.labels(fabric, failure)


def attached(fabric: str, took_s: float, *, trace: str = "") -> None:
    """A device may be used, so long after it was requested. trace: traceparent of what it was requested for."""
    _ATTACH_S.labels(fabric).observe(took_s, _EXEMPLARS.of(trace))


def detached(fabric: str, took_s: float, *, trace: str = "") -> None:
    """A device is back in the pool, so long after somebody wanted it gone."""
    _DETACH_S.labels(fabric).observe(took_s, _EXEMPLARS.of(trace))


def failed(fabric: str, failure: CallFailure | None) -> None:
    """An attachment will not be. failure: of its last call; None: its time was over without one."""
    _FAILED.labels(fabric, failure.value if failure is not None else LATE).inc()


def adopted(fabric: str) -> None:
    """A look showed the device that an attachment waited for."""
    _ADOPTED.labels(fabric).inc()


def given_up(fabric: str) -> None:
    """A device stays where it is though it was to go."""
    _GIVEN_UP.labels(fabric).inc()


def request(outcome: str) -> None:
    """A request was `accepted`, `refused`, `failed` or `ended`."""
    _REQUESTS.labels(outcome).inc()
