"""Sums of what GPUs did over time: of one device for one job, and of several together."""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.schemas.facts.telemetry import Use
from muster.schemas.telemetry import DeviceSample

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
        """The device did this for `seconds` GPU-seconds, and used `energy_j` over them."""
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
        """Both together."""
        for name in ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.memory_mib_max >= self.memory_mib_max:
            self.memory_mib_max, self.memory_total_mib = other.memory_mib_max, other.memory_total_mib
        self.power_w_max = max(self.power_w_max, other.power_w_max)
        self.temperature_c_max = max(self.temperature_c_max, other.temperature_c_max)

    def use(self) -> Use:
        """For the wire: milliseconds and millijoules are enough."""
        told = self.as_body(Use)
        for name in ADDED:
            setattr(told, name, round(getattr(told, name), DIGITS))
        return told


def together(sums: Iterable[Sums]) -> Sums:
    """All of these."""
    total = Sums()
    for one in sums:
        total.add(one)
    return total


def share_pct(part: float, whole: float) -> float | None:
    """`part` of `whole` in per cent; None if there is no whole."""
    return round(PCT * part / whole, 2) if whole > 0 else None
