"""The scheduler's record of a job, and the one table of its transitions.

A job changes its phase only by the scheduler's own facts. Observations of others (pods started, pods exited, cancel
forwarded) are kept on the record until one of these facts answers them.
"""

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from muster.cluster.gangs import gang_of
from muster.core import NS_PER_S, Instant, seconds_between
from muster.placement import DEVICE_MILLI, GangRequest
from muster.quota.amounts import NO_AMOUNTS, Amounts, gang_amounts
from muster.schemas.facts.job import JobState
from muster.schemas.facts.job_requests import Ask
from muster.schemas.job import Job, JobKind, Phase, Slot

ENDED_KEPT = 4_000
"""Number of ended jobs that are remembered, the newest ones; the read model keeps them all."""

PROGRESS_S = 3_600.0
"""A run of this length made progress, even if it reported no checkpoint."""

SERVING = frozenset({JobKind.INTERACTIVE, JobKind.INFERENCE})
"""Kinds of jobs that serve users: a restart repeats no work."""

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
"""(phase, own fact) -> phase. A fact that is not listed for the job's phase does not change it."""


class EquivalenceClass:
    """Jobs that the scheduler treats alike; compared by identity, because requests are costly to hash.

    They agree in gang, in whether they are preemptible, in `bound_s` and in `avoided`.
    """

    __slots__ = (
        "amounts", "amounts_least", "avoided", "bound_s", "gang", "gpu_milli", "has_fixed_size", "has_shares",
        "held_on", "is_counted_by_place", "preemptible", "replicas", "users",
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
        """How long other jobs must expect a run to last, in seconds."""
        self.avoided = avoided
        """Nodes from which the jobs are excluded."""
        self.replicas = sum(group.replicas for group in gang.groups)
        self.gpu_milli = sum(
            group.replicas * (group.shape.gpus * DEVICE_MILLI + group.shape.gpu_milli) for group in gang.groups
        )
        self.amounts = gang_amounts(gang)
        least = [group.replicas_least for group in gang.groups]
        self.amounts_least = gang_amounts(gang, least) if gang.is_elastic else self.amounts
        self.has_fixed_size = not any(group.shape.full_node for group in gang.groups)
        """Whether the held amounts follow from the number of slots and the model, and with `has_shares` from their
        size."""
        self.has_shares = any(g.shape.gpu_milli and not g.shape.full_node for g in gang.groups)
        shapes = [group.shape for group in gang.groups]
        self.is_counted_by_place = any(
            shape.full_node or (shape.holds_devices and len(shape.gpu_models) != 1) for shape in shapes
        )
        """Whether the nodes determine what is held: of which GPU model, or how many GPUs."""
        self.held_on: dict[tuple[str | int, ...], dict[str, int]] = {}
        """Cached held amounts."""
        self.users = 0

    @property
    def key(self) -> "ClassKey":
        """The values by which classes differ."""
        return self.gang, self.preemptible, self.bound_s, self.avoided


ClassKey = tuple[GangRequest, bool, float, frozenset[str]]


@dataclass(slots=True, kw_only=True)
class JobRecord(JobState):
    """One job. It always has the values that may be missing in the state of an older checkpoint."""

    job_class: EquivalenceClass
    total_run_time_s: float
    min_slice_s: float
    rank: int
    failures_in_row: int = 0
    is_cut_off: bool = False
    """Whether the job may not run because the federation is silent."""
    counted: Amounts = field(default_factory=lambda: NO_AMOUNTS)
    """The amounts that its queue counts for it, derived from the other fields."""

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    @property
    def effective_priority(self) -> int:
        """The job's priority after the last change."""
        return self.job.spec.priority if self.priority is None else self.priority

    @property
    def is_set_aside(self) -> bool:
        """Whether it must not be placed: it is or will be held, is edited or recalled, or the federation is silent."""
        if self.held is not None or self.edit is not None or self.recall is not None or self.is_cut_off:
            return True
        return any(request.ask is Ask.HOLD for request in self.wishes)

    @property
    def held_slots(self) -> tuple[Slot, ...]:
        """All slots that it holds: during a resize, the present and the new ones."""
        if self.resize is None:
            return self.slots
        return (*self.slots, *(slot for slot in self.resize.slots if slot not in self.slots))

    @property
    def held_milli(self) -> int:
        """Milli-GPUs that it holds."""
        return sum(slot.gpu_milli_held for slot in self.held_slots)

    def lost_by(self, moment: int) -> float:
        """Return the seconds of work since the newest checkpoint or the start of its run; 0 if it does not run yet."""
        since = max(self.checkpointed_at, self.running_at)
        return max(0.0, seconds_between(since, moment)) if self.running_at else 0.0

    def made_progress(self, by: int) -> bool:
        """Return whether this run made progress: it wrote a checkpoint or ran for PROGRESS_S."""
        if not self.running_at:
            return False
        return self.checkpointed_at > self.running_at or seconds_between(self.running_at, by) >= PROGRESS_S

    def came_further(self, by: int) -> bool:
        """Return whether the next run would continue further on, so that this failure is the first of a row.

        Time alone shows it only for a job that writes checkpoints, reported or not, or that repeats no work: any other
        job starts from the beginning, and would fail at the same step until its total run time is over.
        """
        spec = self.job.spec
        if spec.checkpointing is None and spec.kind not in SERVING and self.checkpointed_at <= self.running_at:
            return False
        return self.made_progress(by)

    def deadline(self) -> Instant:
        """Return when its total run time ends, if it keeps running."""
        return Instant(self.running_at + self.left_ns())

    def slice_end(self) -> Instant:
        """Return the end of its time slice, before which it is not preempted."""
        return Instant(self.running_at + round(self.min_slice_s * NS_PER_S))

    def left_ns(self) -> int:
        """Return how long it may still run, from the start of its present run."""
        return max(0, round((self.total_run_time_s - self.ran_s) * NS_PER_S))


def bound_ns(record: JobRecord, now: Instant) -> Instant:
    """Return when other jobs may count on the place of a job that holds one, at the latest.

    That is the end of its time slice if it is preemptible, else of its total run time, but not before now; plus its
    grace period. A job that does not run yet has all of that time ahead.
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
    """Return the nodes from which the job is excluded at a time."""
    return frozenset(one.node for one in record.excluded if not one.until or one.until > now)


class JobBook:
    """All remembered jobs: the live ones, and the newest ended ones."""

    def __init__(self) -> None:
        self.records: dict[str, JobRecord] = {}
        self.counts: dict[Phase, int] = dict.fromkeys(Phase, 0)
        self._ended: dict[str, None] = {}
        self._classes: dict[ClassKey, EquivalenceClass] = {}

    def add(self, record: JobRecord) -> None:
        """Add a job that is not known yet."""
        assert record.id not in self.records
        self.records[record.id] = record
        self.counts[record.phase] += 1
        record.job_class.users += 1
        if record.phase.is_terminal:
            self._end(record)

    def first_of_runs(self, heap: list[tuple[Instant, str, int]]) -> Instant | None:
        """Return the first time on a heap of runs (time, job, attempt); drop entries of runs that are over."""
        while heap:
            when, job_id, attempt = heap[0]
            record = self.records.get(job_id)
            if record is not None and record.phase is Phase.RUNNING and record.attempt == attempt:
                return when
            heapq.heappop(heap)
        return None

    def move(self, record: JobRecord, phase: Phase) -> None:
        """Set the job's phase."""
        self.counts[record.phase] -= 1
        self.counts[phase] += 1
        record.phase = phase
        if phase in _ENDS:
            self._end(record)

    def forget(self, record: JobRecord) -> None:
        """Remove the job and every trace of it."""
        self._ended.pop(record.id, None)
        del self.records[record.id]
        self.counts[record.phase] -= 1
        record.job_class.users -= 1
        self._forget_class(record.job_class)

    def class_of(
        self, job: Job, *, total_run_time_s: float, min_slice_s: float, avoided: frozenset[str] = frozenset()
    ) -> EquivalenceClass:
        """Return the job's equivalence class; equal requests share one object while their jobs are remembered."""
        preemptible = job.spec.preemptible
        key = gang_of(job), preemptible, min_slice_s if preemptible else total_run_time_s, avoided
        job_class = self._classes.get(key)
        if job_class is None:
            job_class = self._classes[key] = EquivalenceClass(
                key[0], preemptible=preemptible, bound_s=key[2], avoided=avoided
            )
        return job_class

    def classes(self) -> Collection[EquivalenceClass]:
        """Return the equivalence classes of all remembered jobs."""
        return self._classes.values()

    def reclassify(self, record: JobRecord, avoided: frozenset[str]) -> None:
        """Set the job's class from its run times and the avoided nodes. It must not be in a pending queue."""
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
        """Return the record of a checkpoint's state; it is not added yet."""
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
        """Yield every record, the ended ones last and in the order of their ends."""
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
