"""Who holds a node or device, by the cluster's one model of it."""

from muster.cluster import Holds
from muster.cluster.node_records import NODE, NodeTable


class Holders:
    """Answers by node or device. The devices that kubelets picked, and who may have one of them, are in `Holds`."""

    def __init__(self, nodes: NodeTable) -> None:
        self.holds = Holds()
        self._nodes = nodes

    def of(self, kind: str, name: str) -> tuple[str, ...]:
        """Return the ids of the jobs that hold the node or device, or may hold the device, also what they grow into."""
        if kind == NODE:
            return self.holds.jobs_on(name)
        place = self._nodes.place_of(name)
        description = self._nodes.description(place[0]) if place is not None else None
        if place is None or description is None:
            return ()
        shown = {uuid: index for index, uuid in description.present.items()}
        return self.holds.device_holders(place[0], name, shown).all
