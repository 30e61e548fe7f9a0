"""Proposals of the present decision: held in the fleet until they are folded or retracted."""

from collections.abc import Collection, Mapping, Sequence

from muster.cluster.gangs import same_places
from muster.cluster.node_records import NodeTable
from muster.placement import Fleet, GangRequest, Hold, HoldError
from muster.placement import Slot as Place
from muster.scheduler.core.stores.bookings import Bookings
from muster.scheduler.core.stores.exclusions import closed, is_apart
from muster.schemas.job import Slot


class Proposals:
    """The proposals of the present decision, by job.

    A proposal is held in the fleet until it is confirmed by its own `placed` or withdrawn by `settle`, which must run
    before anything else reads free capacity.
    """

    def __init__(self, nodes: NodeTable, fleet: Fleet, bookings: Bookings) -> None:
        self.withdrawn = 0
        """Number of proposals ever withdrawn."""
        self._nodes = nodes
        self._fleet = fleet
        self._bookings = bookings
        self._holds: dict[str, tuple[Hold, ...]] = {}

    @property
    def holds(self) -> Mapping[str, tuple[Hold, ...]]:
        """The proposed holds, by job."""
        return self._holds

    def propose(self, job_id: str, gang: GangRequest) -> tuple[Hold, ...] | None:
        """Find places for a whole gang and propose them; return None if there are none."""
        return self._keep(job_id, self._fleet.find(gang))

    def propose_apart(self, job_id: str, gang: GangRequest, avoided: Collection[str]) -> tuple[Hold, ...] | None:
        """Propose places as `propose`, on none of the nodes from which the job is excluded."""
        with closed(self._fleet, avoided):
            holds = self._fleet.find(gang)
        return self._keep(job_id, holds if holds is not None and is_apart(holds, avoided) else None)

    def propose_at(self, job_id: str, holds: Sequence[Hold]) -> bool:
        """Propose exactly these places for a job; return False if not all of them are idle and usable."""
        if not all(self._is_usable(hold.slot) for hold in holds):
            return False
        for done, hold in enumerate(holds):
            try:
                self._fleet.hold(hold)
            except HoldError:
                for earlier in holds[:done]:
                    self._fleet.withdraw(earlier)
                return False
        self._holds[job_id] = tuple(holds)
        return True

    def withdraw(self, job_id: str) -> None:
        """Withdraw one proposal."""
        self.withdrawn += 1
        for hold in self._holds.pop(job_id):
            self._fleet.release(hold)
            self._bookings.touch(hold.slot.node)

    def retract(self, job_id: str) -> None:
        """Retract the newest proposal, before any job was refused because of it."""
        for hold in self._holds.pop(job_id):
            self._fleet.withdraw(hold)
            self._bookings.touch(hold.slot.node)

    def settle(self) -> None:
        """Withdraw every proposal that was not confirmed, and update the bookings."""
        for job_id in tuple(self._holds):
            self.withdraw(job_id)
        self._bookings.recall()
        self._bookings.settle()

    def clear(self, node: str) -> None:
        """Remove all holds from a node except those of jobs."""
        self.settle()
        self._bookings.give_way(node)

    def confirm(self, job_id: str, slots: Sequence[Slot]) -> tuple[Hold, ...] | None:
        """Return what the fleet already holds of a job that was placed on these slots.

        None if it holds nothing: then every proposal is withdrawn, so that the slots can be entered.
        """
        holds = self._holds.get(job_id)
        if holds is not None and same_places(holds, slots):
            return self._holds.pop(job_id)
        if holds is not None:
            self.withdraw(job_id)
        for other in tuple(self._holds):
            self.withdraw(other)
        return None

    def _keep(self, job_id: str, holds: tuple[Hold, ...] | None) -> tuple[Hold, ...] | None:
        if holds is None:
            return None
        for hold in holds:
            self._fleet.hold(hold)
        self._holds[job_id] = holds
        return holds

    def _is_usable(self, place: Place) -> bool:
        record, node = self._nodes.get(place.node), self._fleet.ledger.nodes.get(place.node)
        return record is not None and record.usable and node is not None and node.broken.isdisjoint(place.devices)
