"""Metrics of what nodes measured of their GPUs, over the fleet: sums and means by model, never a node or a device."""

from collections import defaultdict
from dataclasses import dataclass

from prometheus_client import Gauge

from muster.bus.gauges import BoundedLabels, LeaderGauges
from muster.core.instant import seconds_between
from muster.schemas.telemetry import NodeReading

MODELS_MAX = 32
SILENT_S = 60.0

_REPORTING = Gauge("muster_gpus_reporting", "GPUs whose node reported lately.", ("model",))
_BUSY = Gauge("muster_gpu_utilisation_ratio", "Mean utilisation of the reporting GPUs.", ("model",))
_HELD_BUSY = Gauge(
    "muster_gpu_held_utilisation_ratio", "Mean utilisation of the reporting GPUs that jobs hold.", ("model",)
)
_POWER = Gauge("muster_gpu_power_watts", "What the reporting GPUs draw together.", ("model",))
_HOTTEST = Gauge("muster_gpu_temperature_max_celsius", "Of the hottest reporting GPU.", ("model",))


@dataclass(slots=True)
class _Sums:
    """Of one node: GPUs, of these held; their utilisation in percent; power; the highest temperature."""

    gpus: int = 0
    held: int = 0
    busy_pct: float = 0.0
    held_busy_pct: float = 0.0
    power_w: float = 0.0
    hottest_c: float = 0.0

    def add(self, other: "_Sums") -> None:
        self.gpus += other.gpus
        self.held += other.held
        self.busy_pct += other.busy_pct
        self.held_busy_pct += other.held_busy_pct
        self.power_w += other.power_w
        self.hottest_c = max(self.hottest_c, other.hottest_c)


class FleetMetrics:
    """Of a leader: the newest report of every node, folded into a few figures by model."""

    def __init__(self) -> None:
        self._gauges = LeaderGauges()
        self._models = BoundedLabels(MODELS_MAX)
        self._shown: set[str] = set()
        self._of: dict[str, tuple[int, str, _Sums]] = {}

    def report(self, sample: NodeReading) -> None:
        """A node reported."""
        sums = _Sums()
        for device in sample.devices:
            is_held = bool(device.job_ids)
            sums.gpus += 1
            sums.held += is_held
            sums.busy_pct += device.utilisation_pct
            sums.held_busy_pct += device.utilisation_pct if is_held else 0.0
            sums.power_w += device.power_w
            sums.hottest_c = max(sums.hottest_c, device.temperature_c)
        self._of[sample.node] = sample.at, sample.gpu_model, sums

    def show(self) -> None:
        """Set the gauges; nodes that were silent for `SILENT_S` do not count. Work grows with the nodes."""
        newest = max((at for at, _, _ in self._of.values()), default=0)
        by_model: defaultdict[str, _Sums] = defaultdict(_Sums)
        for node, (at, model, sums) in tuple(self._of.items()):
            if seconds_between(at, newest) > SILENT_S:
                del self._of[node]
            elif sums.gpus:
                by_model[self._models.of(model)].add(sums)
        self._shown |= by_model.keys()  # one that is gone is shown as 0
        for model in self._shown:
            sums = by_model[model]
            self._gauges.show(_REPORTING, sums.gpus, model)
            self._gauges.show(_BUSY, sums.busy_pct / 100 / max(1, sums.gpus), model)
            self._gauges.show(_HELD_BUSY, sums.held_busy_pct / 100 / max(1, sums.held), model)
            self._gauges.show(_POWER, sums.power_w, model)
            self._gauges.show(_HOTTEST, sums.hottest_c, model)

    def hide(self) -> None:
        """The term is over."""
        self._gauges.hide()
        self._of.clear()
        self._shown.clear()
