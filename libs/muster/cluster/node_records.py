"""Records of nodes, and of devices whose grant differs from their node's, shared by the ledger and the grants."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.cluster.withholds import OpenDrains, is_closed, is_doubted
from muster.placement import Hold
from muster.schemas.facts.node import Cordon, NodeJoined

NODE, DEVICE = "node", "device"


@dataclass(slots=True)
class NodeRecord:
    """One node: its description, the part of `Grants` (who may use it), and the part of `Ledger` (who holds it)."""

    description: NodeJoined | None = None
    """None while the node is not part of the cluster."""
    lost: bool = False
    """Whether the node does not answer."""
    released: bool = False
    """Whether the scheduler's `released` is in force. This and the fields up to `barred` belong to `Grants`."""
    wishes: OpenDrains = ()
    """Requests to drain (withhold) it."""
    cordon: Cordon | None = None
    """The cordon of a user."""
    last_fact: str = ""
    """The newest fact that changed whether it may be used."""
    barred: dict[str, bool] = field(default_factory=dict)
    """Drained devices that its kubelet might still pick, and whether they are faulty."""
    jobs: dict[str, list[Hold]] = field(default_factory=dict)
    """What each job holds here. This and the following fields belong to `Ledger`."""
    cut: dict[tuple[str, Hold], Hold | None] = field(default_factory=dict)
    """By job and hold, what the fleet took instead of a hold that it could not take as it is; None: nothing."""
    whole: str = ""
    """The job that holds the whole node."""

    @property
    def usable(self) -> bool:
        """Whether the node takes new jobs."""
        is_free = self.description is not None and self.released and not self.lost and self.cordon is None
        return is_free and not is_closed(self.wishes) and not self.barred and not self.is_overdrawn

    @property
    def is_overdrawn(self) -> bool:
        """Whether more is held than the node has, if its kubelet picks: then devices that look idle are not."""
        return bool(self.cut) and self.is_by_count

    @property
    def is_by_count(self) -> bool:
        """Whether the kubelet picks its devices, so that holds are numbers of devices."""
        return self.description is not None and self.description.kubelet_picks

    @property
    def is_ill(self) -> bool:
        """Whether an unusable node is faulty or closed by a user; else it waits for `released` or is leaving."""
        return self.lost or self.cordon is not None or is_doubted(self.wishes) or any(self.barred.values())

    def entered(self, job_id: str) -> Sequence[Hold]:
        """Return the job's holds here as the fleet has them; none while the node is not part of the cluster."""
        if self.description is None:
            return ()
        holds = self.jobs.get(job_id, ())
        if not self.cut:
            return holds
        kept = (self.cut.get((job_id, hold), hold) for hold in holds)
        return [hold for hold in kept if hold is not None]


@dataclass(slots=True)
class DeviceRecord:
    """A device whose grant differs from its node's: new and not yet released, or drained. Others have no record."""

    released: bool = True
    wishes: OpenDrains = ()
    last_fact: str = ""

    @property
    def usable(self) -> bool:
        """Whether the device takes new jobs."""
        return self.released and not is_closed(self.wishes)

    @property
    def is_ill(self) -> bool:
        """Whether the device is faulty, if it is not usable."""
        return is_doubted(self.wishes)


class NodeTable(dict[str, NodeRecord]):
    """The records of nodes that are part of the cluster, or that have a request, a cordon or a hold."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[str, tuple[str, int]] = {}

    def record(self, name: str) -> NodeRecord:
        """Return the record of a node, created if there is none."""
        record = self.get(name)
        if record is None:
            record = self[name] = NodeRecord()
        return record

    def forget(self, name: str) -> None:
        """Drop the record of a node that left, once it has no request, hold or cordon."""
        record = self[name]
        if record.description is None and not record.wishes and not record.jobs and record.cordon is None:
            del self[name]

    def description(self, name: str) -> NodeJoined | None:
        """Return a node's description; None if it is not part of the cluster."""
        record = self.get(name)
        return None if record is None else record.description

    def place_of(self, uuid: str) -> tuple[str, int] | None:
        """Return the node that shows a device, and the device's index there."""
        return self._places.get(uuid)

    def node_of(self, kind: str, name: str) -> str:
        """Return the node that a fact of a node or device is about; "" if no node shows the device."""
        if kind == NODE:
            return name
        place = self._places.get(name)
        return "" if place is None else place[0]

    def is_there(self, kind: str, name: str) -> bool:
        """Return whether the node is part of the cluster, or a node shows the device."""
        return name in self._places if kind == DEVICE else self.description(name) is not None

    def describe(self, name: str, now: NodeJoined | None) -> list[str]:
        """Set a node's description; None: it left. Return the UUIDs of devices that no node shows any more."""
        record, shown, gone = self.record(name), now.present if now is not None else {}, list[str]()
        if record.description is not None:
            for uuid in set(record.description.present.values()).difference(shown.values()):
                if (
                    self._places.get(uuid, _NOWHERE)[0] == name
                ):  # else another node shows it, or was the last to show it
                    del self._places[uuid]
                    gone.append(uuid)
        for index, uuid in shown.items():
            self._places[uuid] = (name, index)
        record.description = now
        return gone


_NOWHERE = "", -1
