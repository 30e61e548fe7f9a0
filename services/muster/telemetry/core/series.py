"""A job's use over time in a bounded number of columns: when they are full, two become one and are twice as wide."""

from array import array
from collections.abc import Iterator

from muster.core import Instant, after, seconds_between
from muster.schemas.telemetry import DeviceSample
from muster.schemas.usage import COLUMNS_MAX, UseColumn
from muster.telemetry.core.sums import PCT, share_pct

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
        """A device did this for the `seconds` before `at`; it counts in the column of `at`."""
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
        """Those in which something was measured."""
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
