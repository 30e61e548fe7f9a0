"""Moving running jobs so that a gang fits: who, where to, what it costs and what it saves.

Only jobs are moved that may be preempted, are past their slice, have reported a checkpoint, and have another place at
once beside the gang. Cost and gain are both GPU hours: the work that the moved jobs do again, and what the gang would
otherwise wait, times its GPUs. It is never done, nor advised, when it costs more than it gains.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.core import NS_PER_S, Instant
from muster.placement import DEVICE_MILLI, Fleet, GangRequest, Hold
from muster.placement.relief import Victim, Way, make_way
from muster.scheduler.core.candidates import Candidates
from muster.scheduler.core.jobs import JobRecord
from muster.scheduler.core.outlook import foresee
from muster.scheduler.core.state import State
from muster.schemas.facts.queue import GPU, Defragment
from muster.schemas.job import Phase

MOVED_MAX = 16
"""Jobs moved for one gang."""

VICTIMS_MAX = 1_024
"""Jobs of which these are chosen: those that lose least."""

AGAIN_MAX = 4
"""Times that the search begins again without those that found no other place."""

NAMED_MAX = 3
"""Jobs that are named where a person reads it."""


class Move(NamedTuple):
    """Who moves, the gang's place, and both sides of the bargain in GPU hours."""

    records: tuple[JobRecord, ...]
    way: Way
    lost_gpu_h: float
    saved_gpu_h: float

    @property
    def words(self) -> str:
        """As people are told."""
        names = ", ".join(record.job.spec.name for record in self.records[:NAMED_MAX])
        more = f" and {len(self.records) - NAMED_MAX} more" if len(self.records) > NAMED_MAX else ""
        cost = f"costs {self.lost_gpu_h:.1f} GPU hours and saves {self.saved_gpu_h:.1f}"
        return f"moving {names}{more} to other nodes would make room: it {cost}"


def find_move(state: State, record: JobRecord, now: Instant, *, spoken: Collection[str] = ()) -> Move | None:
    """The cheapest move found that pays; None if there is none. spoken: jobs that are not to be touched."""
    queues, kind = state.queues, record.kind
    if record.phase is not Phase.QUEUED or record.reserved is not None or record.queue not in queues.queues:
        return None
    if queues.policy(record.queue).defragment is Defragment.NEVER:
        return None
    if queues.ceiling(record.queue, kind.amounts_least, preemptible=kind.preemptible) is not None:
        return None
    candidates = Candidates(state, now)
    movable = {r.id: r for r in map(state.jobs.records.__getitem__, state.runs.reporting) if _may_move(state, r, now)}
    ranked = sorted((candidates.lost(r), r.id) for r in movable.values() if r.id not in spoken)[:VICTIMS_MAX]
    victims = [Victim(job_id, _holds(state, movable[job_id]), (0,), lost) for lost, job_id in ranked]
    found = _search(state.fleet, _least(kind.gang), victims, movable)
    if found is None:
        return None
    records = tuple(movable[key] for key in found.victims)
    lost = sum(candidates.lost(one) for one in records) / 3_600
    saved = _saved_gpu_h(state, record, records, now)
    return Move(records, found, lost, saved) if lost < saved else None


def _may_move(state: State, record: JobRecord, now: Instant) -> bool:
    """Whether it may be stopped now, resumes from a checkpoint, and its place is not spoken for."""
    if not record.kind.preemptible or record.slice_end() > now or record.resize is not None or record.cancel_fact:
        return False
    if record.exited is not None or record.checkpointed_at < record.running_at:
        return False
    bookings = state.bookings
    if bookings.all and any(bookings.at(slot.node) for slot in record.slots):
        return False
    return state.queues.policy(record.queue).defragment is not Defragment.NEVER


def _search(fleet: Fleet, gang: GangRequest, victims: Sequence[Victim], movable: dict[str, JobRecord]) -> Way | None:
    """Victims who all have another place at once; those who turn out to have none are left out the next time."""
    rules = _Movable()
    for _ in range(AGAIN_MAX):
        way = make_way(fleet, gang, [victim for victim in victims if victim.key not in rules.homeless], rules)
        if way is None or not way.victims:
            return None
        by_key = {victim.key: victim for victim in victims}
        homeless = _homeless(fleet, way, [(by_key[key], movable[key]) for key in way.victims])
        if homeless is None:
            return way
        rules.homeless.add(homeless)
    return None


def _homeless(fleet: Fleet, way: Way, moved: Sequence[tuple[Victim, JobRecord]]) -> str | None:
    """The first of these jobs for which there is no other place beside the gang; None if all have one."""
    taken: list[Hold] = []
    gone = [hold for victim, _ in moved for hold in victim.holds]
    try:
        for hold in gone:
            fleet.withdraw(hold)
        for hold in way.holds:
            fleet.hold(hold)
            taken.append(hold)
        for victim, record in sorted(moved, key=lambda one: (-len(one[0].holds), one[0].key)):
            holds = fleet.find(_as_it_is(record))
            if holds is None:
                return victim.key
            for hold in holds:
                fleet.hold(hold)
                taken.append(hold)
        return None
    finally:
        for hold in reversed(taken):
            fleet.withdraw(hold)
        for hold in reversed(gone):
            fleet.hold(hold)


def _saved_gpu_h(state: State, record: JobRecord, moved: Sequence[JobRecord], now: Instant) -> float:
    """GPU hours that the gang does not wait: until it would fit anyway, or for a day if that is not known."""
    expected = foresee(state, record, now)
    wait_s = _DAY_S if expected is None else (expected.at - now) / NS_PER_S
    grace_s = max(one.job.spec.grace_s for one in moved)
    return max(0.0, min(wait_s, _DAY_S) - grace_s) / 3_600 * record.kind.amounts_least.get(GPU, 0) / DEVICE_MILLI


_DAY_S = 86_400.0


def _least(gang: GangRequest) -> GangRequest:
    return gang.limited([group.replicas_least for group in gang.groups])


def _as_it_is(record: JobRecord) -> GangRequest:
    """The job with as many replicas as it has."""
    gang = record.kind.gang
    counts = [sum(slot.group == index for slot in record.slots) for index in range(len(gang.groups))]
    return gang.limited([max(n, group.replicas_least) for n, group in zip(counts, gang.groups, strict=True)])


def _holds(state: State, record: JobRecord) -> tuple[Hold, ...]:
    """What the job holds in the fleet."""
    holds = list[Hold]()
    for name in dict.fromkeys(slot.node for slot in record.slots):
        node = state.nodes.get(name)
        if node is not None:
            holds += node.entered(record.id)
    return tuple(holds)


@dataclass(slots=True)
class _Movable:
    """Rules for moving: anybody who is not homeless, not too many; quota is as before when they run again."""

    homeless: set[str] = field(default_factory=set)
    taken: int = 0

    def may_take(self, key: str) -> bool:
        """Whether it may move besides the others."""
        return self.taken < MOVED_MAX and key not in self.homeless

    def take(self, _key: str) -> None:
        """It moves."""
        self.taken += 1

    def put_back(self, _key: str) -> None:
        """It stays."""
        self.taken -= 1

    def admits(self) -> bool:
        """Quota admits the gang already."""
        return True
