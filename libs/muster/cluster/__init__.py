"""The cluster model: the one place where facts about nodes and holds are interpreted. Pure: no I/O, no clock."""

from muster.cluster.holds import (
    FREEING_FACTS,
    HOLDING_PHASES,
    DeviceHolders,
    Hold,
    HoldChange,
    Holds,
)
from muster.cluster.nodes import Node, NodeChange, Nodes

__all__ = [
    "FREEING_FACTS",
    "HOLDING_PHASES",
    "DeviceHolders",
    "Hold",
    "HoldChange",
    "Holds",
    "Node",
    "NodeChange",
    "Nodes",
]
