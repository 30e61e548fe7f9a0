"""The scheduler's books: the fleet's, and in the same fleet what is proposed and what is booked."""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence

from muster.books.fleet_books import FleetBooks
from muster.books.gangs import same_places
from muster.books.node_records import DEVICE, NODE, DeviceRecord, NodeRecord
from muster.books.withholds import vacates_from
from muster.core import Instant
from muster.placement import GangRequest, Hold, HoldError
from muster.placement import Slot as Place
from muster.scheduler.core.bookings import Bookings
from muster.scheduler.core.exclusions import closed, is_apart
from muster.scheduler.core.planned import wanted_later
from muster.schemas.facts.node import WithholdWish
from muster.schemas.job import Slot

__all__ = ["DEVICE", "NODE", "Books", "DeviceRecord", "NodeRecord"]


class Books(FleetBooks):
    """The fleet, its grants, and the proposals of the decision that is being made.

    A proposal is held in the fleet until it is confirmed by its own `placed` or withdrawn by `settle`, which must come
    before anything else looks at what is free. withdrawn: proposals that were ever taken back. vacated: nodes and
    devices which some jobs are to leave before their end, and from when on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bookings = Bookings(self.fleet)
        self.withdrawn = 0
        self.vacated: dict[tuple[str, str], Instant] = {}
        self._later: list[tuple[Instant, str, str]] = []
        self._due: dict[tuple[str, str], Instant] = {}
        self._proposals: dict[str, tuple[Hold, ...]] = {}
        self._planned: dict[tuple[str, str], tuple[str, ...]] = {}

    @property
    def proposals(self) -> Mapping[str, tuple[Hold, ...]]:
        """What is proposed, by job."""
        return self._proposals

    # --- proposals -------------------------------------------------------------------------------------------

    def propose(self, job_id: str, gang: GangRequest) -> tuple[Hold, ...] | None:
        """Find a place for a whole gang and keep it for the time being; None if there is none."""
        holds = self.fleet.find(gang)
        if holds is None:
            return None
        for hold in holds:
            self.fleet.hold(hold)
        self._proposals[job_id] = holds
        return holds

    def propose_apart(self, job_id: str, gang: GangRequest, avoided: Collection[str]) -> tuple[Hold, ...] | None:
        """As `propose`, on none of the nodes that the job is kept off."""
        with closed(self.fleet, avoided):
            holds = self.fleet.find(gang)
        if holds is None or not is_apart(holds, avoided):
            return None
        for hold in holds:
            self.fleet.hold(hold)
        self._proposals[job_id] = holds
        return holds

    def propose_at(self, job_id: str, holds: Sequence[Hold]) -> bool:
        """Keep exactly these places for a job for the time being; False if not all of them are idle and usable."""
        if not all(self._is_usable(hold.slot) for hold in holds):
            return False
        for done, hold in enumerate(holds):
            try:
                self.fleet.hold(hold)
            except HoldError:
                for earlier in holds[:done]:
                    self.fleet.withdraw(earlier)
                return False
        self._proposals[job_id] = tuple(holds)
        return True

    def withdraw(self, job_id: str) -> None:
        """Take one proposal back."""
        self.withdrawn += 1
        for hold in self._proposals.pop(job_id):
            self.fleet.release(hold)
            self.bookings.touch(hold.slot.node)

    def retract(self, job_id: str) -> None:
        """Take the newest proposal back, before anybody was refused because of it."""
        for hold in self._proposals.pop(job_id):
            self.fleet.withdraw(hold)
            self.bookings.touch(hold.slot.node)

    def settle(self) -> None:
        """Take back every proposal that was not confirmed, and keep all that is booked and idle."""
        for job_id in tuple(self._proposals):
            self.withdraw(job_id)
        self.bookings.recall()
        self.bookings.settle()

    # --- holds -----------------------------------------------------------------------------------------------

    def confirm(self, job_id: str, slots: Sequence[Slot], gang: GangRequest) -> None:
        """The job has these slots from now on, beside those that it had, also on nodes that are not there."""
        holds = self._proposals.pop(job_id, None)
        if holds is not None and same_places(holds, slots):
            self._note_holds(job_id, holds, gang)
            return
        for hold in holds or ():
            self.fleet.release(hold)
            self.bookings.touch(hold.slot.node)
        self.withdrawn += holds is not None
        for other in tuple(self._proposals):
            self.withdraw(other)
        self.take(job_id, slots, gang)

    # --- requests that come into force later ---------------------------------------------------------------

    def pend_later(self, kind: str, name: str, wishes: Iterable[WithholdWish]) -> None:
        """These are to be answered from their moments on."""
        moment = min((Instant(wish.from_at) for wish in wishes), default=None)
        if moment is not None and moment < self._due.get((kind, name), _NEVER):
            self._due[kind, name] = moment
            heapq.heappush(self._later, (moment, kind, name))

    def pend_due(self, now: Instant) -> None:
        """Those whose moment has come wait for an answer."""
        while self._later and self._later[0][0] <= now:
            moment, kind, name = heapq.heappop(self._later)
            if self._due.get((kind, name)) == moment:
                del self._due[kind, name]
                self.pending[kind, name] = None

    def next_due(self) -> Instant | None:
        """When the next moment comes; perhaps of a request that is over."""
        return self._later[0][0] if self._later else None

    # --- inside ----------------------------------------------------------------------------------------------

    def _is_usable(self, place: Place) -> bool:
        """Whether the node and the devices of this slot take new jobs."""
        record, node = self.nodes.get(place.node), self.fleet.ledger.nodes.get(place.node)
        return record is not None and record.usable and node is not None and node.broken.isdisjoint(place.devices)

    def _asked(self, kind: str, name: str) -> None:
        """Keep what services want free later, and know which jobs are to leave."""
        record = self.nodes.get(name) if kind == NODE else self.devices.get(name)
        begins = vacates_from(record.wishes) if record is not None and record.wishes else None
        if isinstance(record, NodeRecord) and record.cordon is not None and record.cordon.draining:
            begins = Instant(min(record.cordon.since, _NEVER if begins is None else begins))
        if begins is None:
            self.vacated.pop((kind, name), None)
        else:
            self.vacated[kind, name] = begins
        wanted = wanted_later(self, kind, name)
        for key in self._planned.pop((kind, name), ()):
            known = self.bookings.withholds[key]
            if key in wanted and (wanted[key].of, wanted[key].wants) == (known.of, known.wants):
                wanted[key] = known
            else:
                self.bookings.unbook(key)
        for key, booking in wanted.items():
            if key not in self.bookings.withholds:
                self.bookings.book(booking)
        if wanted:
            self._planned[kind, name] = tuple(wanted)

    def _make_way(self, name: str) -> None:
        self.bookings.give_way(name)

    def _touched(self, name: str) -> None:
        self.bookings.touch(name)

    def _before_reshape(self, name: str) -> None:
        self.settle()
        self.bookings.give_way(name)


_NEVER = Instant(1 << 62)
