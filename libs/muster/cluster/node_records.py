"""One record per node and per device that is not as its node, which the ledger and the grants share."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.cluster.withholds import Wishes, is_closed, is_doubted
from muster.placement import Hold
from muster.schemas.facts.node import Cordon, NodeJoined

NODE, DEVICE = "node", "device"


@dataclass(slots=True)
class NodeRecord:
    """One node: what it is, what `Grants` knows of who may use it, and what `Ledger` knows of who holds it."""

    description: NodeJoined | None = None
    """None while it is not part of the cluster."""
    lost: bool = False
    """True while it does not answer."""
    released: bool = False
    """The scheduler's `released` stands. Of `Grants`, as all up to `barred`."""
    wishes: Wishes = ()
    """Requests to withhold it."""
    cordon: Cordon | None = None
    """By which a person closed it."""
    last_fact: str = ""
    """The newest fact by which it may be used or not."""
    barred: dict[str, bool] = field(default_factory=dict)
    """Withheld devices that its kubelet might pick nevertheless, and whether they are ill."""
    jobs: dict[str, list[Hold]] = field(default_factory=dict)
    """What each job holds here. Of `Ledger`, as all that follows."""
    cut: dict[tuple[str, Hold], Hold | None] = field(default_factory=dict)
    """By job and hold: what the fleet took instead of a hold that it could not take as it is; None: nothing."""
    whole: str = ""
    """The job that has the node as one piece."""

    @property
    def usable(self) -> bool:
        """Whether it takes new jobs."""
        is_free = self.description is not None and self.released and not self.lost and self.cordon is None
        return is_free and not is_closed(self.wishes) and not self.barred and not self.is_overdrawn

    @property
    def is_overdrawn(self) -> bool:
        """Whether more is held than the node has, where the kubelet picks: then what looks idle is not."""
        return bool(self.cut) and self.is_by_count

    @property
    def is_by_count(self) -> bool:
        """Whether the kubelet picks its devices, so that what is held there is a number of them."""
        return self.description is not None and self.description.kubelet_picks

    @property
    def is_ill(self) -> bool:
        """Whether something is wrong with it, if it is not usable: else it waits for `released`, or is about to go."""
        return self.lost or self.cordon is not None or is_doubted(self.wishes) or any(self.barred.values())

    def entered(self, job_id: str) -> Sequence[Hold]:
        """What the fleet has of the job's holds here; nothing while the node is not part of the cluster."""
        if self.description is None:
            return ()
        holds = self.jobs.get(job_id, ())
        if not self.cut:
            return holds
        kept = (self.cut.get((job_id, hold), hold) for hold in holds)
        return [hold for hold in kept if hold is not None]


@dataclass(slots=True)
class DeviceRecord:
    """A device that is not as its node: new and not yet released, or withheld. Other devices have no record."""

    released: bool = True
    wishes: Wishes = ()
    last_fact: str = ""

    @property
    def usable(self) -> bool:
        """Whether it takes new jobs."""
        return self.released and not is_closed(self.wishes)

    @property
    def is_ill(self) -> bool:
        """As of a node."""
        return is_doubted(self.wishes)


class NodeTable(dict[str, NodeRecord]):
    """The record of each node that is part of the cluster, or of which a request, a cordon or a hold is known."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[str, tuple[str, int]] = {}

    def record(self, name: str) -> NodeRecord:
        """Return the record of a node; a new one if nothing is known of it."""
        record = self.get(name)
        if record is None:
            record = self[name] = NodeRecord()
        return record

    def forget(self, name: str) -> None:
        """Drop the record of a node that left, once nothing more is known of it."""
        record = self[name]
        if record.description is None and not record.wishes and not record.jobs and record.cordon is None:
            del self[name]

    def description(self, name: str) -> NodeJoined | None:
        """Return what a node is; None if it is not part of the cluster."""
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
        """Set what a node is; None: it left. Return the UUIDs of devices that no node shows any more."""
        record, shown, gone = self.record(name), now.present if now is not None else {}, list[str]()
        if record.description is not None:
            for uuid in set(record.description.present.values()).difference(shown.values()):
                if self._places.get(uuid, _NOWHERE)[0] == name:  # else another node shows it, or showed it last
                    del self._places[uuid]
                    gone.append(uuid)
        for index, uuid in shown.items():
            self._places[uuid] = (name, index)
        record.description = now
        return gone


_NOWHERE = "", -1
