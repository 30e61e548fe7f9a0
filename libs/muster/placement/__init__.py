"""Where gangs go: the fleet's books, gang placement, topology and the fragmentation score. Pure: no I/O, no clock."""

from muster.placement.fleet import Fleet
from muster.placement.shapes import (
    DEVICE_MILLI,
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
    TopologyWish,
)

__all__ = [
    "DEVICE_MILLI",
    "NODE_LEVEL",
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
    "TopologyWish",
]
