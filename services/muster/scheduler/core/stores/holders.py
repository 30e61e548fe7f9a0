"""The holders of a node or device, from the cluster model."""

from muster.cluster import Holds
from muster.cluster.node_records import NODE, NodeTable


class Holders:
    """Returns holders by node or device. `Holds` has the devices picked by kubelets, and the jobs that may have one."""

    def __init__(self, nodes: NodeTable) -> None:
        self.holds = Holds()
        self._nodes = nodes

    def of(self, kind: str, name: str) -> tuple[str, ...]:
        """Return the ids of the jobs that hold the node, or hold or may hold the device, with pending growth."""
        if kind == NODE:
            return self.holds.jobs_on(name)
        place = self._nodes.place_of(name)
        description = self._nodes.description(place[0]) if place is not None else None
        if place is None or description is None:
            return ()
        shown = {uuid: index for index, uuid in description.present.items()}
        return self.holds.device_holders(place[0], name, shown).all
