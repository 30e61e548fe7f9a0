"""Facts of jobs folded into their rows, and into what nodes and queues hold by them."""

from collections.abc import Callable
from typing import cast

from muster.core.fact import Fact
from muster.core.instant import NS_PER_S
from muster.projector.core.fleet import FleetRows
from muster.projector.core.job_table import JobTable, LiveJob
from muster.projector.core.projection import Anomalies
from muster.projector.core.queues import HOLDING, Queues
from muster.schemas.facts import job as jobs
from muster.schemas.facts.job_wishes import JobHeld, JobReprioritised
from muster.schemas.facts.queue import CPU, GPU, MEMORY
from muster.schemas.job import Job, Phase, Slot
from muster.schemas.registry import STATE_NAME
from muster.schemas.views import JobView, follow_state, job_view


def restore_row(job: LiveJob, state: jobs.JobState) -> None:
    """Bring the row to how the job's newest facts left it. What it holds is still to be counted."""
    row = job.row
    follow_state(row, state)
    row.reason, row.detail = explanation(state)
    if state.phase is Phase.SUBMITTED:
        row.attempt = 0
    if state.phase.is_terminal:
        row.reserved_at, row.made_way_for = 0, ""
        return
    row.exit_code = 0  # a row tells it of the job alone, not of runs before
    job.exited_s = state.exited.ran_s if state.exited is not None else None
    if state.min_slice_s is not None:
        job.slice_s = state.min_slice_s
    row.slice_ends_at = slice_ends_at(job) if state.phase is Phase.RUNNING else 0


def lost_work_s(row: JobView, at: int) -> float:
    """Seconds of work of the run that ended at `at`, since its newest checkpoint or its start."""
    return max(0.0, (at - max(row.checkpointed_at, row.running_at)) / NS_PER_S) if row.running_at else 0.0


def slice_ends_at(job: LiveJob) -> int:
    """Until when the present run is left alone; 0 if it does not run, or is never made to make way."""
    row = job.row
    return row.running_at + round(job.slice_s * NS_PER_S) if row.running_at and row.preemptible else 0


def slots_added(slots: tuple[Slot, ...], resize: jobs.JobResizeRequested | None) -> tuple[Slot, ...]:
    """What the job is to get beside `slots`: it is held from the request on."""
    if resize is None:
        return ()
    known = frozenset(slots)
    return tuple(slot for slot in resize.slots if slot not in known)


def explanation(state: jobs.JobState) -> tuple[str, str]:
    """Reason and detail as the job's newest fact left them in its row."""
    if state.phase is Phase.STOPPING and state.stop_reason is not None:
        return state.stop_reason.value, state.detail
    if state.phase is Phase.QUEUED and not state.reason and state.queued_reason is not None:
        return state.queued_reason.value, state.queued_detail
    return state.reason, state.detail


_TERMINAL = {phase.value: phase for phase in Phase if phase.is_terminal}


class JobFacts:
    """The folds of a cluster's facts of jobs. Work per fact grows with the slots that it names."""

    def __init__(self, cluster: str, *, jobs: JobTable, fleet: FleetRows, queues: Queues, anomalies: Anomalies) -> None:
        """Change these: rows of jobs, and what of nodes and queues is held by them."""
        self._cluster = cluster
        self._jobs = jobs
        self._fleet = fleet
        self._queues = queues
        self._anomalies = anomalies
        self.folds: dict[tuple[str, str], Callable[[Fact], None]] = {
            ("job", "routed"): self._routed,
            ("job", "queued"): self._queued,
            ("job", "reserved"): self._reserved,
            ("job", "reservation-lifted"): self._reservation_lifted,
            ("job", "held"): self._held,
            ("job", "unheld"): self._unheld,
            ("job", "reprioritised"): self._reprioritised,
            ("job", "placed"): self._placed,
            ("job", "running"): self._running,
            ("job", "checkpointed"): self._checkpointed,
            ("job", "unschedulable"): self._unschedulable,
            ("job", "resize-requested"): self._resizing,
            ("job", "resized"): self._resized,
            ("job", "stop-requested"): self._stopping,
            ("job", "pods-exited"): self._pods_exited,
            ("job", "returned"): self._gone_elsewhere,
            **{("job", name): self._ended_as for name in _TERMINAL},
            ("job", STATE_NAME): self._job_state,
        }

    def _job(self, fact: Fact) -> LiveJob | None:
        job = self._jobs.live(fact.subject_id)
        if job is None:
            self._anomalies.count += 1
            return None
        self._jobs.touch(job, fact)
        return job

    def _observed(self, fact: Fact, attempt: int) -> LiveJob | None:
        """The job whose present run was observed."""
        job = self._jobs.live(fact.subject_id)
        if job is None or job.row.phase not in HOLDING or job.row.attempt != attempt:
            self._anomalies.count += 1
            return None
        self._jobs.touch(job, fact)
        return job

    def _move(self, job: LiveJob, phase: Phase) -> None:
        row = job.row
        after = None if phase.is_terminal else phase
        self._queues.move(row.queue, before=row.phase, after=after)
        row.phase = phase

    def _hold(self, job: LiveJob, slots: tuple[Slot, ...], *, slots_added: tuple[Slot, ...] = ()) -> None:
        """The job has these slots, and holds those of `slots_added` as well."""
        row = job.row
        row.slots, job.coming = slots, slots_added
        row.nodes = tuple(dict.fromkeys(slot.node for slot in slots))
        self._fleet.hold(row.id, (*slots, *slots_added), needs=job.needs, sign=1)
        job.held = self._amounts((*slots, *slots_added), job.needs)
        self._queues.hold(row.queue, job.held, sign=1)

    def _give_back(self, job: LiveJob) -> None:
        """Nothing is held; the row still shows where the job was."""
        row = job.row
        self._fleet.hold(row.id, (*row.slots, *job.coming), needs=job.needs, sign=-1)
        self._queues.hold(row.queue, job.held, sign=-1)
        job.held, job.coming = {}, ()

    def _amounts(self, slots: tuple[Slot, ...], needs: tuple[tuple[int, int], ...]) -> dict[str, int]:
        found: dict[str, int] = {}
        for slot in slots:
            gpu_milli = slot.gpu_milli_held
            cpu_milli, memory_mib = needs[slot.group] if slot.group < len(needs) else (0, 0)
            model = self._fleet.model(slot.node)
            of_slot = [(GPU, gpu_milli), (CPU, cpu_milli), (MEMORY, memory_mib)]
            if model:
                of_slot.append((f"{GPU}:{model}", gpu_milli))
            for resource, amount in of_slot:
                if amount:
                    found[resource] = found.get(resource, 0) + amount
        return found

    def recount(self, node: str) -> None:
        """The node turned out to be of another model than its holds were counted by."""
        for job_id in self._fleet.holders(node):
            job = self._jobs.live(job_id)
            assert job is not None, "what holds something lives"
            self._queues.hold(job.row.queue, job.held, sign=-1)
            job.held = self._amounts((*job.row.slots, *job.coming), job.needs)
            self._queues.hold(job.row.queue, job.held, sign=1)

    def _admit(self, job: Job, fact: Fact, *, submitted_at: int) -> LiveJob:
        row = job_view(job, cluster=self._cluster, submitted_at=submitted_at, seq=fact.seq)
        needs = tuple((group.cpu_milli, group.memory_mib) for group in job.spec.task_groups)
        slice_s = job.spec.min_slice_s
        live = LiveJob(row, needs=needs, slice_s=slice_s, own_slice_s=slice_s)
        self._jobs.enter(live)
        return live

    def _routed(self, fact: Fact) -> None:
        job = cast("jobs.JobRouted", fact.payload).job
        if job.id in self._jobs:
            self._anomalies.count += 1
            return
        self._admit(job, fact, submitted_at=job.submitted_at or fact.time)

    def _queued(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is None:
            return
        payload = cast("jobs.JobQueued", fact.payload)
        row = job.row
        self._give_back(job)
        if row.queue != payload.queue:
            self._queues.move(row.queue, before=row.phase, after=None)
            row.queue = payload.queue
            row.phase = Phase.SUBMITTED
        self._move(job, Phase.QUEUED)
        row.slots = row.nodes = ()
        row.attempt = payload.attempt
        row.queued_at = fact.time
        row.placed_at = row.running_at = row.slice_ends_at = 0
        row.reason = payload.reason.value
        row.detail = payload.detail
        row.made_way_for = ""
        payload.count_run(row)
        row.excluded = (*row.excluded, *(one.node for one in payload.excluded if one.node not in row.excluded))
        row.lost_s += 0.0 if job.exited_s is None else row.lost_last_s
        row.ran_s += job.exited_s or 0.0
        job.exited_s = None
        job.slice_s = job.own_slice_s if payload.min_slice_s is None else payload.min_slice_s

    def _reserved(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None:
            job.row.reserved_at = cast("jobs.JobReserved", fact.payload).starts_at

    def _reservation_lifted(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None:
            job.row.reserved_at = 0

    def _held(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None:
            row = job.row
            row.held, row.reserved_at = True, 0
            row.reason, row.detail = "held", cast("JobHeld", fact.payload).words

    def _unheld(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None:
            row = job.row
            row.held = False
            row.reason, row.detail = "released", cast("JobHeld", fact.payload).words

    def _reprioritised(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None:
            job.row.priority = cast("JobReprioritised", fact.payload).priority

    def _placed(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is None:
            return
        payload = cast("jobs.JobPlaced", fact.payload)
        self._give_back(job)
        self._hold(job, payload.slots)
        self._move(job, Phase.PLACED)
        row = job.row
        row.attempt = payload.attempt
        row.placed_at = fact.time
        row.reserved_at = 0
        row.reason = row.detail = ""

    def _running(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is None:
            return
        payload = cast("jobs.JobRunning", fact.payload)
        self._move(job, Phase.RUNNING)
        job.row.running_at = fact.time
        job.row.preflight_failures = 0
        job.row.slice_ends_at = slice_ends_at(job)
        job.row.preflight = payload.preflight

    def _checkpointed(self, fact: Fact) -> None:
        job = self._observed(fact, cast("jobs.JobCheckpointed", fact.payload).attempt)
        if job is not None:
            job.row.checkpointed_at = fact.time

    def _unschedulable(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None:
            payload = cast("jobs.JobUnschedulable", fact.payload)
            job.row.reason = payload.reason
            job.row.detail = payload.detail

    def _resizing(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is None:
            return
        payload = cast("jobs.JobResizeRequested", fact.payload)
        slots = job.row.slots
        self._give_back(job)
        self._hold(job, slots, slots_added=slots_added(slots, payload))
        job.row.made_way_for = payload.made_way_for

    def _resized(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is None:
            return
        self._give_back(job)
        self._hold(job, cast("jobs.JobResized", fact.payload).slots)
        job.row.made_way_for = ""

    def _stopping(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is not None:
            payload = cast("jobs.JobStopRequested", fact.payload)
            self._move(job, Phase.STOPPING)
            job.row.reason = payload.reason.value
            job.row.made_way_for = payload.made_way_for
            job.row.slice_ends_at = 0

    def _pods_exited(self, fact: Fact) -> None:
        payload = cast("jobs.PodsExited", fact.payload)
        job = self._observed(fact, payload.attempt)
        if job is not None and job.exited_s is None:
            job.exited_s = payload.ran_s
            if payload.outcome is not jobs.PodsOutcome.SUCCEEDED:
                job.row.lost_last_s = lost_work_s(job.row, fact.time)

    def _ended_as(self, fact: Fact) -> None:
        job = self._job(fact)
        if job is None:
            return
        payload = cast("jobs.JobFinished", fact.payload)
        self._give_back(job)
        self._move(job, _TERMINAL[fact.name])
        row = job.row
        row.ended_at = fact.time
        row.exit_code = payload.exit_code
        row.reason = payload.reason
        row.detail = row.made_way_for = ""
        row.reserved_at = row.slice_ends_at = 0
        row.held = False
        row.lost_last_s = 0.0
        row.ran_s = payload.ran_s
        self._jobs.end(job)

    def _gone_elsewhere(self, fact: Fact) -> None:
        """The federation took the job back, so the row is another cluster's to tell."""
        job = self._jobs.live(fact.subject_id)
        if job is not None:
            self._give_back(job)
            self._queues.move(job.row.queue, before=job.row.phase, after=None)
        if not self._jobs.forget(fact.subject_id):
            self._anomalies.count += 1

    def _job_state(self, fact: Fact) -> None:
        if not isinstance(fact.payload, jobs.JobState):
            return  # the agent's state of the pods
        state = fact.payload
        job = self._admit(state.job, fact, submitted_at=state.job.submitted_at or state.queued_at)
        restore_row(job, state)
        if state.phase.is_terminal:
            self._jobs.end(job)
        else:
            before, job.row.phase = job.row.phase, Phase.SUBMITTED
            self._hold(job, state.slots, slots_added=slots_added(state.slots, state.resize))
            self._move(job, before)
