"""Prometheus metrics of fabrics, attachments and requests. Labels come from the settings or a fixed vocabulary."""

from collections.abc import Callable, Mapping, Sequence

from prometheus_client import Counter, Gauge, Histogram

from muster.bus.gauges import LeaderGauges
from muster.bus.tracing import Exemplars
from muster.composer.core.records import Kind
from muster.schemas.devices import CXL_MEMORY, GPU, AttachmentPhase, BreakerState, PoolModel
from muster.schemas.facts.device import CallFailure

LATE = "late"
"""Failure of an attachment that ran out of time without a failed call."""

OTHER = "other"
"""Label for types and models that no settings name: a manager's names create no labels."""
LIVE_PHASES = tuple(phase for phase in AttachmentPhase if not phase.is_over)

_BREAKERS = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}
_TYPES = (GPU, CXL_MEMORY)
_DURATIONS_S = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1200.0)

_EXEMPLARS = Exemplars(1)  # changes are rare: keep an exemplar of each

_BREAKER = Gauge("muster_fabric_breaker", "Circuit breaker: 0 closed, 1 half-open, 2 open.", ("fabric",))
_POOL = Gauge("muster_fabric_devices", "Devices, free in the pool or attached.", ("fabric", "type", "model", "place"))
_ORPHANS = Gauge("muster_fabric_orphans", "Devices on machines without a request.", ("fabric",))
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
    """Gauges of all fabrics of one composer; `models` has the (type, model) pairs of the settings by fabric."""

    def __init__(self, models: Mapping[str, Sequence[Kind]]) -> None:
        self._gauges = LeaderGauges()
        self._named = {fabric: frozenset(kinds) for fabric, kinds in models.items()}
        self._shown = {fabric: dict.fromkeys(kinds) for fabric, kinds in models.items()}
        for fabric in models:
            for phase in LIVE_PHASES:
                self.attachments(fabric, phase, 0)
            _begin_at_zero(fabric)

    def fabric(self, name: str, *, breaker: BreakerState, unsettled: int, orphans: int) -> None:
        """Show the state of one fabric."""
        self._gauges.show(_BREAKER, _BREAKERS[breaker], name)
        self._gauges.show(_UNSETTLED, unsettled, name)
        self._gauges.show(_ORPHANS, orphans, name)

    def survey_age(self, fabric: str, age_s: Callable[[], float]) -> None:
        """Show the age of the survey, computed at each scrape, so that it grows between events."""
        self._gauges.show_computed(_SURVEY_AGE, age_s, fabric)

    def pool(self, fabric: str, pool: Mapping[Kind, PoolModel]) -> None:
        """Show the contents of a pool."""
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
        """Show the number of attachments in a phase."""
        self._gauges.show(_ATTACHMENTS, count, fabric, phase.value)

    def hide(self) -> None:
        """Hide all samples at the end of the term."""
        self._gauges.hide()

    def _label(self, fabric: str, kind: Kind) -> Kind:
        if kind in self._named.get(fabric, ()):
            return kind
        return (kind[0] if kind[0] in _TYPES else OTHER), OTHER


def _begin_at_zero(fabric: str) -> None:
    """Create counters at 0: otherwise a rate would miss the first event."""
    for counter in (_ADOPTED, _GIVEN_UP):
        counter.labels(fabric)
    for failure in (*(one.value for one in CallFailure), LATE):
        _FAILED.labels(fabric, failure)


def attached(fabric: str, took_s: float, *, trace: str = "") -> None:
    """Count an attached device, and the seconds since its request; `trace` is the request's traceparent."""
    _ATTACH_S.labels(fabric).observe(took_s, _EXEMPLARS.of(trace))


def detached(fabric: str, took_s: float, *, trace: str = "") -> None:
    """Count a device that is back in the pool, and the seconds since its detachment was requested."""
    _DETACH_S.labels(fabric).observe(took_s, _EXEMPLARS.of(trace))


def failed(fabric: str, failure: CallFailure | None) -> None:
    """Count a failed attachment by the failure of its last call; None: it ran out of time without one."""
    _FAILED.labels(fabric, failure.value if failure is not None else LATE).inc()


def adopted(fabric: str) -> None:
    """Count a device that a survey showed for a waiting attachment."""
    _ADOPTED.labels(fabric).inc()


def given_up(fabric: str) -> None:
    """Count a detachment that was given up."""
    _GIVEN_UP.labels(fabric).inc()


def request(outcome: str) -> None:
    """Count a request that was `accepted`, `refused`, `failed` or `ended`."""
    _REQUESTS.labels(outcome).inc()
