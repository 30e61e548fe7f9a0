"""Which devices a simulated kubelet picks where a placement says only how many.

It turns the places of the scheduler's books around, so that no place is ever the device of the same number: whoever
takes one for the other is found out. No device is picked twice, since no place is held twice.
"""

from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Slot


def devices_of(slot: Slot, node: NodeJoined) -> tuple[int, ...]:
    """The indexes of the devices that the slot's pod has on this node, ascending."""
    if not slot.gpus:
        return slot.devices
    present = tuple(node.present)
    turned = dict(zip(present, reversed(present), strict=True))
    places = slot.places or present[: slot.gpus]
    return tuple(sorted(turned[place] for place in places if place in turned))
