"""Requested drains of nodes and devices, and the bookings that keep them free from a planned time on.

Which jobs may still use the capacity until then: see `muster.scheduler.core.admit.access`.
"""

import heapq
from collections.abc import Iterable, Iterator

from muster.cluster.node_records import NODE, DeviceRecord, NodeRecord, NodeTable
from muster.cluster.withholds import planned, vacates_from
from muster.core import Instant
from muster.placement import DEVICE_MILLI
from muster.scheduler.core.stores.bookings import WITHHOLD, Booking, Bookings, Want
from muster.schemas.facts.node import DrainRequest, RunningJobs


class PlannedDrains:
    """Follows the drain requests of nodes and devices: which jobs have to leave them, and what is drained later."""

    def __init__(self, nodes: NodeTable, bookings: Bookings) -> None:
        self.vacated: dict[tuple[str, str], Instant] = {}
        """Kind and name of nodes and devices that some jobs have to leave before their end, and from when on."""
        self._nodes = nodes
        self._bookings = bookings
        self._keys: dict[tuple[str, str], tuple[str, ...]] = {}

    def follow(self, kind: str, name: str, record: NodeRecord | DeviceRecord) -> None:
        """Follow the requests for a node or device as they are now."""
        begins = vacates_from(record.wishes) if record.wishes else None
        if isinstance(record, NodeRecord) and record.cordon is not None and record.cordon.draining:
            begins = Instant(min(record.cordon.since, _NEVER if begins is None else begins))
        if begins is None:
            self.vacated.pop((kind, name), None)
        else:
            self.vacated[kind, name] = begins
        wanted = {booking.key: booking for booking in self._wanted(kind, name, record)}
        for key in self._keys.pop((kind, name), ()):
            known = self._bookings.withholds[key]
            if key in wanted and (wanted[key].of, wanted[key].wants) == (known.of, known.wants):
                wanted[key] = known
            else:
                self._bookings.unbook(key)
        for key, booking in wanted.items():
            if key not in self._bookings.withholds:
                self._bookings.book(booking)
        if wanted:
            self._keys[kind, name] = tuple(wanted)

    def _wanted(self, kind: str, name: str, record: NodeRecord | DeviceRecord) -> Iterator[Booking]:
        for request in planned(record.wishes) if record.wishes else ():
            place = (name, -1) if kind == NODE else self._nodes.place_of(name)
            if place is None:
                continue
            node = self._nodes.get(place[0])
            is_whole = kind == NODE or (node is not None and node.is_by_count)
            want = Want(whole=True) if is_whole else Want(devices=((place[1], DEVICE_MILLI),))
            moves = request.running is not RunningJobs.FINISH
            key = f"{WITHHOLD}{kind}/{name}/{request.request_id}"
            yield Booking(key, request.from_at, {place[0]: want}, of=request, moves=moves)


class LaterRequests:
    """Requests that take effect, and have to be answered, at a later time."""

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, str, str]] = []
        self._due: dict[tuple[str, str], Instant] = {}

    def add(self, kind: str, name: str, requests: Iterable[DrainRequest]) -> None:
        """Answer these requests from their start on."""
        moment = min((Instant(request.from_at) for request in requests), default=None)
        if moment is not None and moment < self._due.get((kind, name), _NEVER):
            self._due[kind, name] = moment
            heapq.heappush(self._heap, (moment, kind, name))

    def pop_due(self, now: Instant) -> Iterator[tuple[str, str]]:
        """Yield kind and name of the nodes and devices whose requests became due, once each."""
        while self._heap and self._heap[0][0] <= now:
            moment, *_ = entry = heapq.heappop(self._heap)
            if self._due.get(entry[1:]) == moment:
                del self._due[entry[1:]]
                yield entry[1:]

    @property
    def next_due(self) -> Instant | None:
        """When the next request is due; the request may be withdrawn by then."""
        return self._heap[0][0] if self._heap else None


_NEVER = Instant(1 << 62)
