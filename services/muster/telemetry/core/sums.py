"""Sums of what GPUs did: of one device for one job, of several together, and of a job over time."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster.core import Instant, after, seconds_between
from muster.schemas.facts.telemetry import Use
from muster.schemas.telemetry import DeviceSample
from muster.schemas.usage import COLUMNS_MAX, UseColumn

PCT = 100.0
J_PER_KWH = 3.6e6
S_PER_HOUR = 3600.0
DIGITS = 3


ADDED = (
    "measured_s", "busy_s", "idle_s", "sm_active_s", "sm_measured_s", "tensor_active_s", "tensor_measured_s",
    "dram_active_s", "dram_measured_s", "energy_j",
)  # fmt: skip
"""Fields of which those of several devices are added; of the others the largest counts."""


@dataclass(slots=True)
class Sums(Use):
    """Use that grows with every reading."""

    def measure(self, device: DeviceSample, seconds: float, *, energy_j: float, is_idle: bool) -> None:
        """Add `seconds` GPU-seconds of this activity, and `energy_j` used over them."""
        self.measured_s += seconds
        self.busy_s += seconds * device.utilisation_pct / PCT
        if is_idle:
            self.idle_s += seconds
        if (sm := device.sm_active_pct) is not None:
            self.sm_active_s += seconds * sm / PCT
            self.sm_measured_s += seconds
        if (tensor := device.tensor_active_pct) is not None:
            self.tensor_active_s += seconds * tensor / PCT
            self.tensor_measured_s += seconds
        if (dram := device.dram_active_pct) is not None:
            self.dram_active_s += seconds * dram / PCT
            self.dram_measured_s += seconds
        self.energy_j += energy_j
        if device.memory_used_mib >= self.memory_mib_max:
            self.memory_mib_max, self.memory_total_mib = device.memory_used_mib, device.memory_total_mib
        self.power_w_max = max(self.power_w_max, device.power_w)
        self.temperature_c_max = max(self.temperature_c_max, device.temperature_c)

    def add(self, other: Use) -> None:
        """Add the amounts of another use."""
        for name in ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.memory_mib_max >= self.memory_mib_max:
            self.memory_mib_max, self.memory_total_mib = other.memory_mib_max, other.memory_total_mib
        self.power_w_max = max(self.power_w_max, other.power_w_max)
        self.temperature_c_max = max(self.temperature_c_max, other.temperature_c_max)

    def use(self) -> Use:
        """Return the use in the form of the wire, in milliseconds and millijoules."""
        use = self.as_body(Use)
        for name in ADDED:
            setattr(use, name, round(getattr(use, name), DIGITS))
        return use


def together(sums: Iterable[Sums]) -> Sums:
    """Return the total of these sums."""
    total = Sums()
    for one in sums:
        total.add(one)
    return total


def share_pct(part: float, whole: float) -> float | None:
    """Return `part` of `whole` in percent; None if `whole` is 0."""
    return round(PCT * part / whole, 2) if whole > 0 else None


FIRST_WIDTH_S = 30.0
_FIELDS = 7
_SECONDS, _BUSY, _SM, _SM_SECONDS, _TENSOR, _TENSOR_SECONDS, _ENERGY = range(_FIELDS)


class Series:
    """Columns from `start` on. width_s: of one."""

    __slots__ = ("_memory", "_sums", "start", "width_s")

    def __init__(self, start: Instant) -> None:
        self.start = start
        self.width_s = FIRST_WIDTH_S
        self._sums = array("d")
        self._memory = array("q")

    def measure(self, device: DeviceSample, seconds: float, *, energy_j: float, at: Instant) -> None:
        """Add the activity of a device in the `seconds` before `at`; it counts in the column of `at`."""
        place = max(0, int(seconds_between(self.start, at) / self.width_s))
        while place >= COLUMNS_MAX:
            self._halve()
            place //= 2
        while len(self._memory) <= place:
            self._sums.extend((0.0,) * _FIELDS)
            self._memory.append(0)
        sums, first = self._sums, place * _FIELDS
        sums[first + _SECONDS] += seconds
        sums[first + _BUSY] += seconds * device.utilisation_pct
        if (sm := device.sm_active_pct) is not None:
            sums[first + _SM] += seconds * sm
            sums[first + _SM_SECONDS] += seconds
        if (tensor := device.tensor_active_pct) is not None:
            sums[first + _TENSOR] += seconds * tensor
            sums[first + _TENSOR_SECONDS] += seconds
        sums[first + _ENERGY] += energy_j
        self._memory[place] = max(self._memory[place], device.memory_used_mib)

    def columns(self) -> Iterator[UseColumn]:
        """Yield the columns with measurements."""
        for place, memory_mib in enumerate(self._memory):
            sums = self._sums[place * _FIELDS : (place + 1) * _FIELDS]
            if not sums[_SECONDS]:
                continue
            gpus = sums[_SECONDS] / self.width_s
            yield UseColumn(
                at=after(self.start, place * self.width_s),
                gpus=round(gpus, 2),
                busy_pct=round(sums[_BUSY] / sums[_SECONDS], 2),
                sm_active_pct=share_pct(sums[_SM] / PCT, sums[_SM_SECONDS]),
                tensor_active_pct=share_pct(sums[_TENSOR] / PCT, sums[_TENSOR_SECONDS]),
                power_w=round(gpus * sums[_ENERGY] / sums[_SECONDS], 1),
                memory_mib_max=memory_mib,
            )

    def _halve(self) -> None:
        self.width_s *= 2
        sums, memory = array("d"), array("q")
        for place in range(0, len(self._memory), 2):
            pair = self._memory[place : place + 2]
            memory.append(max(pair))
            for of in range(_FIELDS):
                sums.append(sum(self._sums[(place + other) * _FIELDS + of] for other in range(len(pair))))
        self._sums, self._memory = sums, memory
