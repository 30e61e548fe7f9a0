"""Nodes on which the kubelet picks the devices: the ledger keeps places there, and only their number means something.

A hold keeps the places that its fact names. Where the node is described anew and has fewer, or other, it moves to idle
ones: as many devices are held, whichever they are.
"""

from dataclasses import replace

from muster.placement import DEVICE_MILLI, Hold
from muster.placement.node import Node


def elsewhere(node: Node, hold: Hold) -> Hold | None:
    """The same hold at idle places of the node, usable ones and the tightest first; None if it has not so many."""
    slot = hold.slot
    able = [
        (index in node.broken, node.idle[index] if slot.gpu_milli < DEVICE_MILLI else 0, index)
        for index in node.shape.devices
        if node.idle[index] >= slot.gpu_milli
    ]
    if not slot.devices or len(able) < len(slot.devices):
        return None
    places = sorted(index for *_, index in sorted(able)[: len(slot.devices)])
    return replace(hold, slot=replace(slot, devices=tuple(places)))
