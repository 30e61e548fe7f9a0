"""What is kept for jobs follows from their records: `reserved` stands on the record, and `Bookings` keeps it."""

from muster.cluster.gangs import hold_of
from muster.placement import Fleet, Hold
from muster.scheduler.core.bookings import Booking, Bookings, wants_of
from muster.scheduler.core.jobs import WAITING, JobRecord


def follow(bookings: Bookings, record: JobRecord) -> None:
    """The job's record changed: keep what is reserved for it, as long as it waits."""
    reserved = record.reserved
    if reserved is None or record.phase not in WAITING:
        bookings.unbook(record.id)
        return
    known = bookings.all.get(record.id)
    if known is not None and known.of is reserved:
        return
    gang = record.kind.gang
    whole = any(group.shape.full_node for group in gang.groups)
    wants = wants_of((hold_of(slot, gang) for slot in reserved.slots), whole=whole)
    bookings.book(Booking(record.id, reserved.starts_at, wants, job_id=record.id, of=reserved))


def holds_of(fleet: Fleet, record: JobRecord) -> tuple[Hold, ...]:
    """What a reserved job will hold; of whole nodes what they have now. Empty if one of them is not there."""
    gang, holds = record.kind.gang, list[Hold]()
    for slot in record.reserved.slots if record.reserved is not None else ():
        hold = hold_of(slot, gang)
        if gang.groups[slot.group].shape.full_node:
            node = fleet.ledger.nodes.get(slot.node)
            if node is None:
                return ()
            hold = Hold(node.shape.cpu_milli, node.shape.memory_mib, hold.slot)
        holds.append(hold)
    return tuple(holds)
