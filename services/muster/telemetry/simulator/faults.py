"""What can be wrong with a simulated GPU or exporter, and what makes it well again. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum

from muster.core import Instant, seconds_between
from muster.schemas.facts.operations import NodeAction

XID_WINDOW_S = 300.0
"""For which the exporter counts XIDs (--xid-count-window-size)."""
XIDS_KEPT = 64
HOT_C = 96.0


class FaultKind(StrEnum):
    """Of a node's exporter: hung (takes connections and says nothing), down (hangs up), nonsense, stale (says the same
    for ever), slow (`value` seconds late). Of a GPU: xid (`value`: the code), off-bus (its series stop), ecc-dbe and
    ecc-sbe (`value` more errors), remap-pending, remap-failed, hot (`value` degrees), throttled, idle (whatever runs
    does nothing), watch (DCGM's health says `value`: 10 warns, 20 fails), recovery (DCGM advises `value`: 1 to 4).
    """

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
    """Of one node, or of one GPU. values: by kind, with what it was injected with. xids: codes and when they came."""

    values: dict[FaultKind, float] = field(default_factory=dict)
    xids: list[tuple[Instant, int]] = field(default_factory=list)
    stale_since: Instant = Instant(0)  # noqa: RUF009 - a number

    def inject(self, kind: FaultKind, value: float, at: Instant) -> None:
        """It is so from now on. Errors and XIDs come on top of those before."""
        if kind in (FaultKind.ECC_DBE, FaultKind.ECC_SBE):
            value += self.values.get(kind, 0.0)
        if kind is FaultKind.XID:
            self.xids = [*self.xids, (at, int(value))][-XIDS_KEPT:]
        if kind is FaultKind.STALE:
            self.stale_since = at
        self.values[kind] = value

    def clear(self, kinds: frozenset[FaultKind] = frozenset(FaultKind)) -> None:
        """These are no more."""
        for kind in kinds & self.values.keys():
            del self.values[kind]
        if FaultKind.XID in kinds:
            self.xids.clear()

    def heal(self, action: NodeAction) -> None:
        """What the action makes well."""
        self.clear(_HEALED.get(action, frozenset()))

    def counted(self, at: Instant) -> dict[int, int]:
        """XIDs within the exporter's window, by code."""
        counts: dict[int, int] = {}
        for came_at, code in self.xids:
            if seconds_between(came_at, at) <= XID_WINDOW_S:
                counts[code] = counts.get(code, 0) + 1
        return counts

    @property
    def last_xid(self) -> int:
        """As DCGM shows it: the newest code, which stays until the driver is loaded anew."""
        return self.xids[-1][1] if self.xids else 0
