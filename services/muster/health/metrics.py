"""Metrics of a leading health service. Labels are bounded: phases, classes, codes of the rules; never nodes."""

from prometheus_client import Counter, Gauge

from muster.bus.gauges import LeaderGauges
from muster.health.core.verdicts import NodeVerdicts
from muster.schemas.facts.health import FaultClass, HealthPhase

CODES_MAX = 200
OTHER = "other"

_UNITS = Gauge("muster_health_units", "Nodes and devices that are not healthy, by phase.", ("kind", "phase"))
_PERSON = Gauge("muster_health_waiting_for_person", "Nodes and devices that nothing more is tried on.", ("kind",))
_TRIPPED = Gauge("muster_health_brake_tripped", "Whether the brake waits for a person.", ("cluster",))
_USED = Gauge("muster_health_brake_utilisation_ratio", "Nodes suspected lately over those that may be.", ("cluster",))
_FAULTS = Counter("muster_health_faults", "Faults that were told.", ("code", "fault_class"))
_LASTED = Counter("muster_health_illness_seconds", "From suspicion to health, of all illnesses that ended.", ("kind",))
_ENDED = Counter("muster_health_illnesses", "Illnesses that ended.", ("kind",))
_LOOKED = Counter("muster_health_readings", "Readings of nodes that were looked at.", ())
_UNREADABLE = Counter("muster_health_readings_unreadable", "Readings that could not be decoded.", ())
_WAITING = Gauge("muster_health_sightings", "What was seen and not told yet.", ("cluster",))
_DROPPED = Gauge("muster_health_sightings_dropped", "What was seen and had no room.", ("cluster",))
_UNKNOWN = Gauge("muster_health_unknown_codes", "Observations whose code has no rule.", ("cluster",))


class HealthMetrics:
    """The samples of one term."""

    def __init__(self, cluster: str = "") -> None:
        self._cluster = cluster
        self._gauges = LeaderGauges()
        self._told: dict[tuple[str, FaultClass], int] = {}
        self._episodes = 0

    def looked(self) -> None:
        """A reading."""
        _LOOKED.inc()

    def unreadable(self) -> None:
        """A reading that is none."""
        _UNREADABLE.inc()

    def show(self, verdicts: NodeVerdicts) -> None:
        """What is believed now. Work grows with what is ill."""
        state, show = verdicts.state, self._gauges.show
        counts: dict[tuple[str, str], int] = {}
        waiting: dict[str, int] = {}
        for key in state.ill:
            unit = state.units[key]
            counts[unit.kind, unit.phase.value] = counts.get((unit.kind, unit.phase.value), 0) + 1
            waiting[unit.kind] = waiting.get(unit.kind, 0) + unit.needs_person
        for kind in ("node", "device"):
            for phase in HealthPhase:
                if phase is not HealthPhase.HEALTHY:
                    show(_UNITS, counts.get((kind, phase.value), 0), kind, phase.value)
            show(_PERSON, waiting.get(kind, 0), kind)
        brake = state.brake
        show(_TRIPPED, brake.tripped is not None, self._cluster)
        show(_USED, len(brake.recent) / brake.most(len(state.nodes)), self._cluster)
        show(_WAITING, len(verdicts.sightings), self._cluster)
        show(_DROPPED, sum(verdicts.sightings.dropped.values()), self._cluster)
        show(_UNKNOWN, sum(verdicts.eyes.unknown.values()), self._cluster)
        self._count(verdicts)

    def hide(self) -> None:
        """The term is over."""
        self._gauges.hide()
        self._told.clear()

    def _count(self, verdicts: NodeVerdicts) -> None:
        state = verdicts.state
        for (code, fault_class), number in state.counted.items():
            more = number - self._told.get((code, fault_class), 0)
            if more > 0:
                is_shown = len(self._told) < CODES_MAX or (code, fault_class) in self._told
                _FAULTS.labels(code if is_shown else OTHER, fault_class.value).inc(more)
                self._told[code, fault_class] = number
        fresh = state.ended - self._episodes
        for episode in list(state.history)[-fresh:] if fresh > 0 else ():
            _ENDED.labels(episode.kind).inc()
            _LASTED.labels(episode.kind).inc(max(0.0, (episode.ended_at - episode.began_at) / 1e9))
        self._episodes = state.ended
