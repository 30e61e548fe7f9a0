"""Wires the scaler service: its settings, the queries that it answers, and its metrics while it leads.

Labels of the metrics have fixed vocabularies.
"""

from collections import Counter as Sums
from collections.abc import Sequence

from nats.aio.client import Client
from prometheus_client import Counter, Gauge, Histogram

from muster.bus.gauges import LeaderGauges
from muster.bus.service import CoreService, Hosted, LeaderHandle
from muster.bus.settings import Settings
from muster.bus.tracing import Exemplars
from muster.core import Fact, Instant
from muster.core.fact import Core
from muster.scaler.config import config_of
from muster.scaler.core import ScalerCore
from muster.scaler.core.answers import answer_choices
from muster.scaler.core.choices import ADD, ATTACH, NOTHING, REMOVE_GPU, REMOVE_NODE
from muster.scaler.declaration import DECLARATION
from muster.schemas.facts.scale import NothingChosen, ScaleChosen, ScaleEnded
from muster.schemas.registry import StreamRole

_NAMES = (ATTACH, ADD, REMOVE_GPU, REMOVE_NODE)
_DURATIONS_S = (1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1200.0)

_CHOICES = Counter(
    "muster_scale_choices",
    "Choices that ended, by outcome (done or failed); for nothing-chosen, the outcome is the reason code.",
    ("choice", "case", "outcome"),
)
_CHOICE_S = Histogram(
    "muster_scale_choice_seconds", "Time from a choice to its completion.", ("choice",), buckets=_DURATIONS_S
)
_EXEMPLARS = Exemplars(1)  # choices are few, so each one gets an exemplar
_OPEN = Gauge("muster_scale_choices_open", "Choices under way.", ("choice",))
_WAITING = Gauge("muster_scale_waiting_jobs", "Waiting jobs that more GPUs or nodes could help.", ("cluster",))


class ChoicesSink:
    """The scaler's metrics of one cluster, as a `Sink`. One instance serves successive leader terms."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._gauges = LeaderGauges()
        self._core: ScalerCore | None = None
        self._cases: dict[str, tuple[str, int]] = {}
        self._version = -1

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:  # noqa: ARG002 - the port
        """Show the choices and waiting jobs of the state."""
        assert isinstance(core, ScalerCore), "these are metrics of the scaler"
        self._core = core
        self._cases = {one.id: (one.name, one.chosen.case) for one in core.state.choices.open.values()}
        self._version = -1
        self._show_open()
        self._show_waiting(core)

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Count the choices that the folded facts made or ended."""
        assert self._core is not None, "a sink is opened first"
        mine = [fact for fact in facts if fact.kind == "scale"]
        for fact in mine:
            self._count(fact)
        if mine:
            self._show_open()
        self._show_waiting(self._core)

    async def close(self) -> None:
        """Remove the gauges."""
        self._core = None
        self._gauges.hide()

    def _count(self, fact: Fact) -> None:
        match fact.payload:
            case ScaleChosen(case=case):
                self._cases[fact.subject_id] = fact.name, case
            case NothingChosen(case=case, code=code):
                _CHOICES.labels(NOTHING, case, code).inc()
            case ScaleEnded(failed=failed, took_s=took_s) if fact.subject_id in self._cases:
                name, case = self._cases.pop(fact.subject_id)
                _CHOICES.labels(name, case, "failed" if failed else "done").inc()
                if not failed:
                    _CHOICE_S.labels(name).observe(took_s, _EXEMPLARS.of(fact.trace))

    def _show_open(self) -> None:
        sums = Sums(name for name, _ in self._cases.values())
        for name in _NAMES:
            self._gauges.show(_OPEN, sums[name], name)

    def _show_waiting(self, core: ScalerCore) -> None:
        """Update the number of waiting jobs if it changed: there may be thousands of shapes to count."""
        demand = core.state.demand
        if demand.version != self._version:
            self._version = demand.version
            self._gauges.show(_WAITING, len(demand), self._cluster)


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """Return the services of one cluster's scaler. Raise ScalingConfigError, which names the field."""
    config = config_of(settings.scaling, settings.fabrics, settings.composer)
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: ScalerCore(config),
            queries={"choices": answer_choices},
            sink=lambda: ChoicesSink(settings.cluster),
        ),
    )
