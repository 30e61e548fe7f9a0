"""What a simulated GPU does: functions of seed, device and the number of the exporter's reading. Pure."""

import hashlib
from dataclasses import dataclass, field

from muster.core import Instant, seconds_between
from muster.telemetry.simulator.faults import HOT_C, FaultKind, Faults

MEMORY_MIB = {"P100": 16_280, "V100M16": 16_160, "V100M32": 32_510, "T4": 15_360, "A10": 23_028, "H100": 81_559}
MEMORY_MIB_DEFAULT = 40_960  # models whose memory is not published (G2, G3)
IDLE_W, FULL_W = 68.0, 650.0
"""An idle H100 draws 65 to 68 W; one that trains comes near its 700."""
IDLE_C, FULL_C = 31.0, 74.0
MJ_PER_J = 1000.0
LINK_BYTES_S = 45e9
PCIE_BYTES_S = 12e9
RESERVED_MIB = 560


@dataclass(frozen=True, slots=True)
class Load:
    """What jobs make of a GPU. share: of it that is held, up to 1. busy, sm: of that, 0 to 1; None: as drawn."""

    share: float = 0.0
    busy: float | None = None
    sm: float | None = None


NO_LOAD = Load()


@dataclass(frozen=True, slots=True)
class Shown:
    """One reading."""

    busy_pct: int = 0
    engine: float = 0.0
    sm: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    memory_used_mib: int = 0
    memory_free_mib: int = 0
    power_w: float = IDLE_W
    temperature_c: int = 0
    memory_temperature_c: int = 0
    energy_mj: int = 0
    nvlink_mb_s: int = 0
    pcie_tx: int = 0
    pcie_rx: int = 0


@dataclass(slots=True)
class SimulatedGpu:
    """One device. It remembers its energy counter, and what is wrong with it."""

    uuid: str
    index: int
    model: str
    seed: int
    faults: Faults = field(default_factory=Faults)
    load: Load = NO_LOAD
    energy_j: float = 0.0
    _read_at: Instant = Instant(0)  # noqa: RUF009 - a number
    _power_w: float = IDLE_W

    def read(self, number: int, at: Instant) -> Shown:
        """The exporter's reading of this number. The counter goes on with the power of the reading before."""
        if self._read_at and at > self._read_at:
            self.energy_j += self._power_w * seconds_between(self._read_at, at)
        draw = hashlib.sha256(f"{self.seed}\x1f{self.uuid}\x1f{number}".encode()).digest()
        is_idle = FaultKind.IDLE in self.faults.values
        load = NO_LOAD if is_idle else self.load
        busy = load.share * (0.80 + 0.19 * draw[0] / 255 if load.busy is None else load.busy)
        sm = load.share * ((0.55 + 0.3 * draw[3] / 255) if load.sm is None else load.sm) if busy else 0.0
        total = MEMORY_MIB.get(self.model, MEMORY_MIB_DEFAULT)
        used = int((total - RESERVED_MIB) * self.load.share * (0.70 + 0.25 * draw[1] / 255))
        self._power_w = round(IDLE_W + draw[4] / 100 + max(busy * 0.5, sm) * (FULL_W - IDLE_W), 3)
        self._read_at = at
        temperature = IDLE_C + busy * (FULL_C - IDLE_C) + draw[2] / 64
        if FaultKind.HOT in self.faults.values:
            temperature = max(temperature, self.faults.values[FaultKind.HOT] or HOT_C)
        return Shown(
            busy_pct=round(100 * busy),
            engine=round(busy, 6),
            sm=round(sm, 6),
            tensor=round(sm * (0.4 + 0.3 * draw[5] / 255), 6),
            dram=round(sm * (0.3 + 0.3 * draw[6] / 255), 6),
            memory_used_mib=used,
            memory_free_mib=total - RESERVED_MIB - used,
            power_w=self._power_w,
            temperature_c=round(temperature),
            memory_temperature_c=round(temperature + 6),
            energy_mj=round(self.energy_j * MJ_PER_J),
            nvlink_mb_s=round(sm * LINK_BYTES_S / 1e6),
            pcie_tx=round(busy * PCIE_BYTES_S * draw[7] / 255),
            pcie_rx=round(busy * PCIE_BYTES_S * draw[8] / 255),
        )
