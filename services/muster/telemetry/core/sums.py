"""Sums of what GPUs did over time: of one device for one job, and of several together."""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.schemas.facts.telemetry import Use
from muster.schemas.telemetry import DeviceSample

PCT = 100.0
J_PER_KWH = 3.6e6
S_PER_HOUR = 3600.0
DIGITS = 3


@dataclass(slots=True)
class Sums:
    """See `Use`."""

    measured_s: float = 0.0
    busy_s: float = 0.0
    idle_s: float = 0.0
    sm_active_s: float = 0.0
    sm_measured_s: float = 0.0
    tensor_active_s: float = 0.0
    tensor_measured_s: float = 0.0
    dram_active_s: float = 0.0
    dram_measured_s: float = 0.0
    energy_j: float = 0.0
    memory_mib_max: int = 0
    memory_total_mib: int = 0
    power_w_max: float = 0.0
    temperature_c_max: float = 0.0

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

    def add(self, other: "Sums") -> None:
        """Both together."""
        self.measured_s += other.measured_s
        self.busy_s += other.busy_s
        self.idle_s += other.idle_s
        self.sm_active_s += other.sm_active_s
        self.sm_measured_s += other.sm_measured_s
        self.tensor_active_s += other.tensor_active_s
        self.tensor_measured_s += other.tensor_measured_s
        self.dram_active_s += other.dram_active_s
        self.dram_measured_s += other.dram_measured_s
        self.energy_j += other.energy_j
        if other.memory_mib_max >= self.memory_mib_max:
            self.memory_mib_max, self.memory_total_mib = other.memory_mib_max, other.memory_total_mib
        self.power_w_max = max(self.power_w_max, other.power_w_max)
        self.temperature_c_max = max(self.temperature_c_max, other.temperature_c_max)

    def use(self) -> Use:
        """For the wire: milliseconds and millijoules are enough."""
        return Use(
            measured_s=round(self.measured_s, DIGITS),
            busy_s=round(self.busy_s, DIGITS),
            idle_s=round(self.idle_s, DIGITS),
            sm_active_s=round(self.sm_active_s, DIGITS),
            sm_measured_s=round(self.sm_measured_s, DIGITS),
            tensor_active_s=round(self.tensor_active_s, DIGITS),
            tensor_measured_s=round(self.tensor_measured_s, DIGITS),
            dram_active_s=round(self.dram_active_s, DIGITS),
            dram_measured_s=round(self.dram_measured_s, DIGITS),
            energy_j=round(self.energy_j, DIGITS),
            memory_mib_max=self.memory_mib_max,
            memory_total_mib=self.memory_total_mib,
            power_w_max=self.power_w_max,
            temperature_c_max=self.temperature_c_max,
        )


def sums_of(use: Use) -> Sums:
    """The sums that a report says."""
    return Sums(
        measured_s=use.measured_s,
        busy_s=use.busy_s,
        idle_s=use.idle_s,
        sm_active_s=use.sm_active_s,
        sm_measured_s=use.sm_measured_s,
        tensor_active_s=use.tensor_active_s,
        tensor_measured_s=use.tensor_measured_s,
        dram_active_s=use.dram_active_s,
        dram_measured_s=use.dram_measured_s,
        energy_j=use.energy_j,
        memory_mib_max=use.memory_mib_max,
        memory_total_mib=use.memory_total_mib,
        power_w_max=use.power_w_max,
        temperature_c_max=use.temperature_c_max,
    )


def together(sums: Iterable[Sums]) -> Sums:
    """All of these."""
    total = Sums()
    for one in sums:
        total.add(one)
    return total


def share_pct(part: float, whole: float) -> float | None:
    """`part` of `whole` in per cent; None if there is no whole."""
    return round(PCT * part / whole, 2) if whole > 0 else None
