"""Placement of gangs: the fleet's ledger, topology and the fragmentation score. Pure: no I/O, no clock."""

from muster.placement.fleet import Fleet
from muster.placement.shapes import (
    DEVICE_MILLI,
    NO_SHARES,
    NODE_LEVEL,
    GangRequest,
    GpuTotals,
    GroupRequest,
    Hold,
    HoldError,
    NodeShape,
    ShapeError,
    Shortage,
    ShortageReason,
    Slot,
    TaskShape,
    TopologyRequest,
    share_of,
)

__all__ = [
    "DEVICE_MILLI",
    "NODE_LEVEL",
    "NO_SHARES",
    "Fleet",
    "GangRequest",
    "GpuTotals",
    "GroupRequest",
    "Hold",
    "HoldError",
    "NodeShape",
    "ShapeError",
    "Shortage",
    "ShortageReason",
    "Slot",
    "TaskShape",
    "TopologyRequest",
    "share_of",
]
