"""What the scheduler knows of a job, and the one table of how a job moves.

A job moves only by the scheduler's own facts. What others observe (pods started, pods exited, cancel forwarded) is kept
on the record until one of these facts answers it.
"""

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from muster.cluster.gangs import gang_of
from muster.core import NS_PER_S, Instant, seconds_between
from muster.placement import DEVICE_MILLI, GangRequest
from muster.quota.amounts import NO_AMOUNTS, Amounts, gang_amounts
from muster.schemas.facts.job import JobState
from muster.schemas.facts.job_wishes import Ask
from muster.schemas.job import Job, JobKind, Phase, Slot

ENDED_KEPT = 4_000
"""Ended jobs that are remembered, newest first to last; the read model keeps them all."""

PROGRESS_S = 3_600.0
"""A run that lasted so long came somewhere, also if it told of no checkpoint."""

SERVING = frozenset({JobKind.INTERACTIVE, JobKind.INFERENCE})
"""Kinds of jobs that are there to be used: of them nothing has to be done again."""

WAITING = frozenset({Phase.SUBMITTED, Phase.QUEUED})

HOLDING = frozenset({Phase.PLACED, Phase.RUNNING, Phase.STOPPING})

_TERMINAL = {
    "succeeded": Phase.SUCCEEDED,
    "failed": Phase.FAILED,
    "cancelled": Phase.CANCELLED,
    "timed-out": Phase.TIMED_OUT,
}

TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.SUBMITTED, "queued"): Phase.QUEUED,
    (Phase.QUEUED, "placed"): Phase.PLACED,
    (Phase.PLACED, "running"): Phase.RUNNING,
    (Phase.PLACED, "stop-requested"): Phase.STOPPING,
    (Phase.RUNNING, "stop-requested"): Phase.STOPPING,
    **{(phase, "queued"): Phase.QUEUED for phase in HOLDING},
    **{(phase, name): end for phase in (*WAITING, *HOLDING) for name, end in _TERMINAL.items()},
}
"""(phase, own fact) -> phase. A fact that is not here for the job's phase does not move it."""


class EquivalenceClass:
    """What jobs ask for that the scheduler treats alike; compared by identity, because requests are costly to hash.

    They agree in gang, in whether they may be preempted, in bound_s: how long others must reckon with a run of theirs,
    and in avoided: nodes that they are kept off. amounts: of all replicas, by resource; amounts_least: of the replicas
    that they cannot run without. has_fixed_size: what they hold follows from the number of slots and the model, and
    where it has_shares from what these take there. held_on: by that, as far as it was needed.
    """

    __slots__ = (
        "amounts", "amounts_least", "avoided", "bound_s", "gang", "gpu_milli", "has_fixed_size", "has_shares",
        "held_on", "preemptible", "replicas", "users",
    )  # fmt: skip

    def __init__(
        self,
        gang: GangRequest,
        *,
        preemptible: bool = True,
        bound_s: float = 0.0,
        avoided: frozenset[str] = frozenset(),
    ) -> None:
        self.gang = gang
        self.preemptible = preemptible
        self.bound_s = bound_s
        self.avoided = avoided
        self.replicas = sum(group.replicas for group in gang.groups)
        self.gpu_milli = sum(
            group.replicas * (group.shape.gpus * DEVICE_MILLI + group.shape.gpu_milli) for group in gang.groups
        )
        self.amounts = gang_amounts(gang)
        least = [group.replicas_least for group in gang.groups]
        self.amounts_least = gang_amounts(gang, least) if gang.is_elastic else self.amounts
        self.has_fixed_size = not any(group.shape.full_node for group in gang.groups)
        self.has_shares = any(g.shape.gpu_milli and not g.shape.full_node for g in gang.groups)
        self.held_on: dict[tuple[str | int, ...], dict[str, int]] = {}
        self.users = 0

    @property
    def key(self) -> "ClassKey":
        """What tells classes apart."""
        return self.gang, self.preemptible, self.bound_s, self.avoided


ClassKey = tuple[GangRequest, bool, float, frozenset[str]]


@dataclass(slots=True, kw_only=True)
class JobRecord(JobState):
    """One job. It always has the values that the state of an older checkpoint may lack."""

    job_class: EquivalenceClass
    total_run_time_s: float
    min_slice_s: float
    rank: int
    failures_in_row: int = 0
    is_cut_off: bool = False
    """Whether the federation is silent, so that it may not run."""
    counted: Amounts = field(default_factory=lambda: NO_AMOUNTS)
    """What its queue counts as held by it, which follows from the rest."""

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    @property
    def effective_priority(self) -> int:
        """Its priority: as asked last."""
        return self.job.spec.priority if self.priority is None else self.priority

    @property
    def is_set_aside(self) -> bool:
        """Whether it is not to be placed: it is held, or is to be, or the federation wants it back, or is silent."""
        if self.held is not None or self.recall is not None or self.is_cut_off:
            return True
        return any(wish.ask is Ask.HOLD for wish in self.wishes)

    @property
    def held_slots(self) -> tuple[Slot, ...]:
        """All that it holds: while it is resized, what it has and what it gets."""
        if self.resize is None:
            return self.slots
        return (*self.slots, *(slot for slot in self.resize.slots if slot not in self.slots))

    @property
    def held_milli(self) -> int:
        """Milli-GPUs that it holds."""
        return sum(slot.gpu_milli_held for slot in self.held_slots)

    def lost_by(self, moment: int) -> float:
        """Seconds of work of its run since the newest checkpoint or the start, 0 if it does not run yet."""
        since = max(self.checkpointed_at, self.running_at)
        return max(0.0, seconds_between(since, moment)) if self.running_at else 0.0

    def made_progress(self, by: int) -> bool:
        """Whether its run came somewhere: it wrote a checkpoint, or ran for PROGRESS_S."""
        if not self.running_at:
            return False
        return self.checkpointed_at > self.running_at or seconds_between(self.running_at, by) >= PROGRESS_S

    def came_further(self, by: int) -> bool:
        """Whether a run after it goes on from further than it began, so that its failure is the first of a row.

        Time alone says so only of a job that writes checkpoints, told or not, or has nothing to do again: any other
        begins anew, and would fail at the same step until its total run time is over.
        """
        spec = self.job.spec
        if spec.checkpointing is None and spec.kind not in SERVING and self.checkpointed_at <= self.running_at:
            return False
        return self.made_progress(by)

    def deadline(self) -> Instant:
        """When its total run time is over, if it goes on running."""
        return Instant(self.running_at + self.left_ns())

    def slice_end(self) -> Instant:
        """Until then its run is not preempted, whoever wants its place."""
        return Instant(self.running_at + round(self.min_slice_s * NS_PER_S))

    def left_ns(self) -> int:
        """How long it may still run, from the start of its present run."""
        return max(0, round((self.total_run_time_s - self.ran_s) * NS_PER_S))


def bound_ns(record: JobRecord, now: Instant) -> Instant:
    """When others may count on the place of a job that holds one, at the latest: nothing keeps it there longer.

    The end of its slice if it may be preempted, else of its total run time; not before now; and the grace after it is
    told. One that does not run yet has all of that before it.
    """
    grace_ns = round(record.job.spec.grace_s * NS_PER_S)
    if record.phase is Phase.STOPPING:
        return Instant(now + grace_ns)
    begins = record.running_at or now
    end = begins + record.left_ns()
    if record.job.spec.preemptible:
        end = min(end, begins + round(record.min_slice_s * NS_PER_S))
    return Instant(max(now, end) + grace_ns)


def avoided_at(record: JobRecord, now: int) -> frozenset[str]:
    """Nodes that the job is kept off then."""
    return frozenset(one.node for one in record.excluded if not one.until or one.until > now)


class JobBook:
    """All jobs that are remembered: the live ones, and the newest of the ended."""

    def __init__(self) -> None:
        self.records: dict[str, JobRecord] = {}
        self.counts: dict[Phase, int] = dict.fromkeys(Phase, 0)
        self._ended: dict[str, None] = {}
        self._classes: dict[ClassKey, EquivalenceClass] = {}

    def add(self, record: JobRecord) -> None:
        """Remember a job that is not known yet."""
        assert record.id not in self.records
        self.records[record.id] = record
        self.counts[record.phase] += 1
        record.job_class.users += 1
        if record.phase.is_terminal:
            self._end(record)

    def first_of_runs(self, heap: list[tuple[Instant, str, int]]) -> Instant | None:
        """Return the first moment on a heap by job and attempt; entries of runs that are over are dropped."""
        while heap:
            when, job_id, attempt = heap[0]
            record = self.records.get(job_id)
            if record is not None and record.phase is Phase.RUNNING and record.attempt == attempt:
                return when
            heapq.heappop(heap)
        return None

    def move(self, record: JobRecord, phase: Phase) -> None:
        """The job stands there from now on."""
        self.counts[record.phase] -= 1
        self.counts[phase] += 1
        record.phase = phase
        if phase in _ENDS:
            self._end(record)

    def forget(self, record: JobRecord) -> None:
        """The job was never here, as far as anybody will ask."""
        self._ended.pop(record.id, None)
        del self.records[record.id]
        self.counts[record.phase] -= 1
        record.job_class.users -= 1
        self._forget_class(record.job_class)

    def class_of(
        self, job: Job, *, total_run_time_s: float, min_slice_s: float, avoided: frozenset[str] = frozenset()
    ) -> EquivalenceClass:
        """What the job asks for; one object for equal requests, while jobs that ask for it are remembered."""
        preemptible = job.spec.preemptible
        key = gang_of(job), preemptible, min_slice_s if preemptible else total_run_time_s, avoided
        job_class = self._classes.get(key)
        if job_class is None:
            job_class = self._classes[key] = EquivalenceClass(
                key[0], preemptible=preemptible, bound_s=key[2], avoided=avoided
            )
        return job_class

    def classes(self) -> Collection[EquivalenceClass]:
        """All that jobs which are remembered ask for."""
        return self._classes.values()

    def reclassify(self, record: JobRecord, avoided: frozenset[str]) -> None:
        """Let the job ask for what its run times and these avoided nodes say. It must stand in no pending queue."""
        job_class = self.class_of(
            record.job, total_run_time_s=record.total_run_time_s, min_slice_s=record.min_slice_s, avoided=avoided
        )
        if job_class is record.job_class:
            return
        record.job_class.users -= 1
        job_class.users += 1
        self._forget_class(record.job_class)
        record.job_class = job_class

    def restored(self, state: JobState) -> JobRecord:
        """The record of which a checkpoint has this state; it is not added yet."""
        spec = state.job.spec
        total_s = spec.total_run_time_s if state.total_run_time_s is None else state.total_run_time_s
        slice_s = spec.min_slice_s if state.min_slice_s is None else state.min_slice_s
        avoided = frozenset(one.node for one in state.excluded)
        job_class = self.class_of(state.job, total_run_time_s=total_s, min_slice_s=slice_s, avoided=avoided)
        record = JobRecord.restored(state, job_class=job_class)
        record.total_run_time_s, record.min_slice_s = total_s, slice_s
        record.rank = state.routed_seq if state.rank is None else state.rank
        record.failures_in_row = state.retries_used if state.failures_in_row is None else state.failures_in_row
        return record

    def stored(self) -> Iterator[JobRecord]:
        """Every record, the ended ones last and in the order of their ends."""
        for record in self.records.values():
            if record.id not in self._ended:
                yield record
        for job_id in self._ended:
            yield self.records[job_id]

    def _end(self, record: JobRecord) -> None:
        self._ended[record.id] = None
        while len(self._ended) > ENDED_KEPT:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            gone = self.records.pop(oldest)
            self.counts[gone.phase] -= 1
            gone.job_class.users -= 1
            self._forget_class(gone.job_class)

    def _forget_class(self, job_class: EquivalenceClass) -> None:
        if not job_class.users:
            self._classes.pop(job_class.key, None)


_ENDS = frozenset(_TERMINAL.values())
