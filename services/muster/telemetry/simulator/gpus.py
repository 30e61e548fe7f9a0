"""Simulated GPUs with their activity and faults. Functions of seed, device and number of the reading."""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum

from muster.core import Instant, seconds_between
from muster.schemas.facts.operations import NodeAction

XID_WINDOW_S = 300.0
"""Window in which the exporter counts XIDs (--xid-count-window-size)."""
XIDS_KEPT = 64
HOT_C = 96.0


class FaultKind(StrEnum):
    """Faults. Of a node's exporter: hung (accepts connections, sends nothing), down (closes them), nonsense, stale
    (never changes), slow (`value` seconds late). Of a GPU: xid (`value`: the code), off-bus (its series stop), ecc-dbe
    and ecc-sbe (`value` more errors), remap-pending, remap-failed, hot (`value` degrees), throttled, idle (in spite of
    its jobs), watch (DCGM's health reports `value`: 10 warns, 20 fails), recovery (DCGM advises `value`: 1 to 4)."""

    HUNG = "hung"
    DOWN = "down"
    NONSENSE = "nonsense"
    STALE = "stale"
    SLOW = "slow"
    XID = "xid"
    OFF_BUS = "off-bus"
    ECC_DBE = "ecc-dbe"
    ECC_SBE = "ecc-sbe"
    REMAP_PENDING = "remap-pending"
    REMAP_FAILED = "remap-failed"
    HOT = "hot"
    THROTTLED = "throttled"
    IDLE = "idle"
    WATCH = "watch"
    RECOVERY = "recovery"


OF_NODES = frozenset({FaultKind.HUNG, FaultKind.DOWN, FaultKind.NONSENSE, FaultKind.STALE, FaultKind.SLOW})
_RESET = frozenset(
    {FaultKind.XID, FaultKind.ECC_DBE, FaultKind.ECC_SBE, FaultKind.REMAP_PENDING, FaultKind.WATCH, FaultKind.RECOVERY}
)
_REBOOT = _RESET | OF_NODES | {FaultKind.OFF_BUS, FaultKind.IDLE}
_HEALED = {
    NodeAction.RESET: _RESET,
    NodeAction.REBOOT: _REBOOT,
    NodeAction.OS: _REBOOT,
    NodeAction.DRIVER: _RESET,
    NodeAction.REPLACE: frozenset(FaultKind),
}


@dataclass(slots=True)
class Faults:
    """Faults of one node or one GPU. values: by kind, with the injected value. xids: codes with their times."""

    values: dict[FaultKind, float] = field(default_factory=dict)
    xids: list[tuple[Instant, int]] = field(default_factory=list)
    stale_since: Instant = Instant(0)  # noqa: RUF009 - a number

    def inject(self, kind: FaultKind, value: float, at: Instant) -> None:
        """Inject a fault from now on. Errors and XIDs are added to earlier ones."""
        if kind in (FaultKind.ECC_DBE, FaultKind.ECC_SBE):
            value += self.values.get(kind, 0.0)
        if kind is FaultKind.XID:
            self.xids = [*self.xids, (at, int(value))][-XIDS_KEPT:]
        if kind is FaultKind.STALE:
            self.stale_since = at
        self.values[kind] = value

    def clear(self, kinds: frozenset[FaultKind] = frozenset(FaultKind)) -> None:
        """Clear these faults."""
        for kind in kinds & self.values.keys():
            del self.values[kind]
        if FaultKind.XID in kinds:
            self.xids.clear()

    def heal(self, action: NodeAction) -> None:
        """Remove the faults that the action repairs."""
        self.clear(_HEALED.get(action, frozenset()))

    def counted(self, at: Instant) -> dict[int, int]:
        """Return the XIDs within the exporter's window, by code."""
        counts: dict[int, int] = {}
        for came_at, code in self.xids:
            if seconds_between(came_at, at) <= XID_WINDOW_S:
                counts[code] = counts.get(code, 0) + 1
        return counts

    @property
    def last_xid(self) -> int:
        """Return the newest code, as DCGM shows it until the driver is loaded anew."""
        return self.xids[-1][1] if self.xids else 0


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
    """Load of a GPU by jobs. share: held part of it, up to 1. busy, sm: of that, 0 to 1; None: as drawn."""

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
        """Return the exporter's reading of this number. The energy counter continues with the last reading's power."""
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
