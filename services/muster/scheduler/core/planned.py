"""What services want free from a moment on: kept as bookings, and which jobs may still use it until then.

A job may if it is sure to have left by then: at the end of its total run time, since nobody is stopped for it. Only
where jobs are moved away at that moment, and for a job that allows it (it may be preempted and checkpoints), the end of
its slice is enough: it is stopped after a checkpoint then and goes on elsewhere.
"""

from collections.abc import Iterator

from muster.books.node_records import DEVICE, NODE, NodeRecords
from muster.books.withholds import planned
from muster.core import NS_PER_S, Instant, after
from muster.placement import DEVICE_MILLI
from muster.scheduler.core.bookings import WITHHOLD, Booking, Bookings, Want
from muster.scheduler.core.jobs import JobRecord, bound_ns
from muster.schemas.facts.node import RunningJobs
from muster.schemas.job import JobSpec

START_S = 30.0
"""So long after it is placed a gang may begin to run; its slice and its total run time count from then on."""


def may_be_moved(spec: JobSpec) -> bool:
    """Whether the job may be stopped for a node's sake: it allows it, and goes on from a checkpoint."""
    return spec.preemptible and spec.checkpointing is not None


def gone_by(record: JobRecord, now: Instant) -> Instant:
    """When a waiting job, placed now, has left its place at the latest, if others ask for it then."""
    return after(bound_ns(record, now), START_S)


def ended_by(record: JobRecord, now: Instant) -> Instant:
    """When a waiting job, placed now, is at its end at the latest, if nobody stops it."""
    grace_ns = round(record.job.spec.grace_s * NS_PER_S)
    return after(Instant(now + record.left_ns() + grace_ns), START_S)


class Passable:
    """What a waiting job, placed at `now`, may use of what is to be free later.

    left_by: when it has left where jobs are moved; ended_by: where they are not.
    """

    def __init__(self, record: JobRecord, now: Instant) -> None:
        self.ended_by = ended_by(record, now)
        self.left_by = gone_by(record, now) if may_be_moved(record.job.spec) else self.ended_by

    def is_open(self, booking: Booking) -> bool:
        """Whether the job is gone before."""
        return booking.starts_at >= (self.left_by if booking.moves else self.ended_by)


def passable(bookings: Bookings, record: JobRecord, now: Instant) -> tuple[str, ...]:
    """Keys of what is to be free for services only after the job, placed now, is gone."""
    if not bookings.withholds:
        return ()
    its = Passable(record, now)
    return tuple(key for key, booking in bookings.withholds.items() if its.is_open(booking))


def wanted_later(records: NodeRecords, kind: str, name: str) -> dict[str, Booking]:
    """What services want of the node or device, free later, by key."""
    return {booking.key: booking for booking in _bookings(records, kind, name)}


def _bookings(records: NodeRecords, kind: str, name: str) -> Iterator[Booking]:
    record = records.nodes.get(name) if kind == NODE else records.devices.get(name)
    wishes = planned(record.wishes) if record is not None and record.wishes else ()
    for wish in wishes:
        place = records.place_of(name) if kind == DEVICE else (name, -1)
        if place is None:
            continue
        node = records.nodes.get(place[0])
        is_whole = kind == NODE or (node is not None and node.is_by_count)
        want = Want(whole=True) if is_whole else Want(devices=((place[1], DEVICE_MILLI),))
        moves = wish.running is not RunningJobs.FINISH
        key = f"{WITHHOLD}{kind}/{name}/{wish.request_id}"
        yield Booking(key, wish.from_at, {place[0]: want}, of=wish, moves=moves)
