"""Facts of jobs folded into their rows, and into what nodes and queues hold by them."""

from muster.core.fact import Fact
from muster.core.folding import Folds
from muster.core.instant import NS_PER_S
from muster.projector.core.fleet import FleetRows
from muster.projector.core.job_table import JobTable, LiveJob
from muster.projector.core.projection import Anomalies
from muster.projector.core.queues import HOLDING, Queues
from muster.schemas.facts import job as jobs
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job_requests import JobEdited, JobHeld, JobReprioritised
from muster.schemas.facts.queue import CPU, GPU, MEMORY
from muster.schemas.facts.telemetry import JobUseReported, JobUseState, Use
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
    row.slice_ends_at = slice_ends_at(job) if state.phase is Phase.RUNNING else 0


def lost_work_s(row: JobView, at: int) -> float:
    """Seconds of work of the run that ended at `at`, since its newest checkpoint or its start."""
    return max(0.0, (at - max(row.checkpointed_at, row.running_at)) / NS_PER_S) if row.running_at else 0.0


def slice_ends_at(job: LiveJob) -> int:
    """Return when the present run may be preempted at the earliest; 0 if it does not run, or is never preempted."""
    row = job.row
    return row.running_at + round(row.min_slice_s * NS_PER_S) if row.running_at and row.preemptible else 0


def slots_added(slots: tuple[Slot, ...], resize: jobs.JobResizeRequested | None) -> tuple[Slot, ...]:
    """Return the slots that a resize adds to `slots`: the job holds them from the request on."""
    if resize is None:
        return ()
    known = frozenset(slots)
    return tuple(slot for slot in resize.slots if slot not in known)


def explanation(state: jobs.JobState) -> tuple[str, str]:
    """Reason and detail as the job's newest fact left them in its row."""
    if state.phase is Phase.STOPPING and state.stop_reason is not None:
        return jobs.REQUEUED if state.requeued else state.stop_reason.value, state.detail
    if state.phase is Phase.QUEUED and not state.reason and state.queued_reason is not None:
        return jobs.REQUEUED if state.requeued else state.queued_reason.value, state.queued_detail
    return state.reason, state.detail


USES_KEPT = 8_000

_TERMINAL = {phase.value: phase for phase in Phase if phase.is_terminal}


class JobFacts:
    """The folds of a cluster's facts of jobs. Work per fact grows with the slots that it names."""

    FOLDS = Folds["JobFacts", None]()

    def __init__(self, cluster: str, *, jobs: JobTable, fleet: FleetRows, queues: Queues, anomalies: Anomalies) -> None:
        """Change these: rows of jobs, and what of nodes and queues is held by them."""
        self._cluster = cluster
        self._jobs = jobs
        self._fleet = fleet
        self._queues = queues
        self._anomalies = anomalies
        self._uses: dict[str, Use] = {}  # of a checkpoint, for jobs whose own state did not come yet

    def _job(self, fact: Fact) -> LiveJob | None:
        job = self._jobs.live(fact.subject_id)
        if job is None:
            self._anomalies.count += 1
            return None
        self._jobs.touch(job, fact)
        return job

    def _observed(self, fact: Fact, attempt: int) -> LiveJob | None:
        """Return the job whose present run was observed."""
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
        """Record that the job has these slots, and holds those of `slots_added` as well."""
        row = job.row
        row.slots, job.coming = slots, slots_added
        row.nodes = tuple(dict.fromkeys(slot.node for slot in slots))
        self._fleet.hold(row.id, (*slots, *slots_added), needs=job.needs, sign=1)
        job.held = self._amounts((*slots, *slots_added), job.needs)
        self._queues.hold(row.queue, job.held, sign=1)

    def _give_back(self, job: LiveJob) -> None:
        """Record that the job holds nothing; the row still shows its last slots."""
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
        """Recount the job's holds for a node whose model differs from the one they were counted by."""
        for job_id in self._fleet.holders(node):
            job = self._jobs.live(job_id)
            assert job is not None, "what holds something lives"
            self._queues.hold(job.row.queue, job.held, sign=-1)
            job.held = self._amounts((*job.row.slots, *job.coming), job.needs)
            self._queues.hold(job.row.queue, job.held, sign=1)

    def _admit(self, job: Job, fact: Fact, *, submitted_at: int) -> LiveJob:
        row = job_view(job, cluster=self._cluster, submitted_at=submitted_at, seq=fact.seq)
        needs = tuple((group.cpu_milli, group.memory_mib) for group in job.spec.task_groups)
        live = LiveJob(row, needs=needs, own_times_s=(row.total_run_time_s, row.min_slice_s))
        self._jobs.enter(live)
        return live

    @FOLDS.on("job", "routed", jobs.JobRouted)
    def _routed(self, fact: Fact, routed: jobs.JobRouted) -> None:
        job = routed.job
        if job.id in self._jobs:
            self._anomalies.count += 1
            return
        self._admit(job, fact, submitted_at=job.submitted_at or fact.time)

    @FOLDS.on("job", "queued", jobs.JobQueued)
    def _queued(self, fact: Fact, queued: jobs.JobQueued) -> None:
        job = self._job(fact)
        if job is None:
            return
        row = job.row
        self._give_back(job)
        if row.queue != queued.queue:
            self._queues.move(row.queue, before=row.phase, after=None)
            row.queue = queued.queue
            row.phase = Phase.SUBMITTED
        self._move(job, Phase.QUEUED)
        row.slots = row.nodes = ()
        row.attempt = queued.attempt
        row.queued_at = fact.time
        row.placed_at = row.running_at = row.slice_ends_at = 0
        row.reason = queued.shown_reason
        row.detail = queued.detail
        row.made_way_for = ""
        queued.count_run(row)
        row.excluded = (*row.excluded, *(one.node for one in queued.excluded if one.node not in row.excluded))
        row.lost_s += 0.0 if job.exited_s is None else row.lost_last_s
        row.ran_s += job.exited_s or 0.0
        job.exited_s = None
        total_s, slice_s = job.own_times_s
        row.total_run_time_s = total_s if queued.total_run_time_s is None else queued.total_run_time_s
        row.min_slice_s = slice_s if queued.min_slice_s is None else queued.min_slice_s

    @FOLDS.on("job", "reserved", jobs.JobReserved)
    def _reserved(self, fact: Fact, reserved: jobs.JobReserved) -> None:
        job = self._job(fact)
        if job is not None:
            job.row.reserved_at = reserved.starts_at

    @FOLDS.on("job", "reservation-lifted", jobs.JobReservationLifted)
    def _reservation_lifted(self, fact: Fact, _: jobs.JobReservationLifted) -> None:
        job = self._job(fact)
        if job is not None:
            job.row.reserved_at = 0

    @FOLDS.on("job", "held", JobHeld)
    def _held(self, fact: Fact, held: JobHeld) -> None:
        job = self._job(fact)
        if job is not None:
            row = job.row
            row.held, row.reserved_at = True, 0
            row.reason, row.detail = "held", held.words

    @FOLDS.on("job", "unheld", JobHeld)
    def _unheld(self, fact: Fact, unheld: JobHeld) -> None:
        job = self._job(fact)
        if job is not None:
            row = job.row
            row.held = False
            row.reason, row.detail = "released", unheld.words

    @FOLDS.on("job", "reprioritised", JobReprioritised)
    def _reprioritised(self, fact: Fact, reprioritised: JobReprioritised) -> None:
        job = self._job(fact)
        if job is not None:
            job.row.priority = reprioritised.priority

    @FOLDS.on("job", "edited", JobEdited)
    def _edited(self, fact: Fact, edited: JobEdited) -> None:
        job = self._job(fact)
        if job is not None:
            job.row.total_run_time_s, job.row.min_slice_s = edited.total_run_time_s, edited.min_slice_s

    @FOLDS.on("job", "placed", jobs.JobPlaced)
    def _placed(self, fact: Fact, placed: jobs.JobPlaced) -> None:
        job = self._job(fact)
        if job is None:
            return
        self._give_back(job)
        self._hold(job, placed.slots)
        self._move(job, Phase.PLACED)
        row = job.row
        row.attempt = placed.attempt
        row.placed_at = fact.time
        row.reserved_at = 0
        row.reason = row.detail = ""

    @FOLDS.on("job", "running", jobs.JobRunning)
    def _running(self, fact: Fact, running: jobs.JobRunning) -> None:
        job = self._job(fact)
        if job is None:
            return
        self._move(job, Phase.RUNNING)
        job.row.running_at = fact.time
        job.row.preflight_failures = 0
        job.row.slice_ends_at = slice_ends_at(job)
        job.row.preflight = running.preflight

    @FOLDS.on("job", "checkpointed", jobs.JobCheckpointed)
    def _checkpointed(self, fact: Fact, checkpointed: jobs.JobCheckpointed) -> None:
        job = self._observed(fact, checkpointed.attempt)
        if job is not None:
            job.row.checkpointed_at = fact.time

    @FOLDS.on("job", "unschedulable", jobs.JobUnschedulable)
    def _unschedulable(self, fact: Fact, short: jobs.JobUnschedulable) -> None:
        job = self._job(fact)
        if job is not None:
            job.row.reason = short.reason
            job.row.detail = short.detail

    @FOLDS.on("job", "resize-requested", jobs.JobResizeRequested)
    def _resizing(self, fact: Fact, wanted: jobs.JobResizeRequested) -> None:
        job = self._job(fact)
        if job is None:
            return
        slots = job.row.slots
        self._give_back(job)
        self._hold(job, slots, slots_added=slots_added(slots, wanted))
        job.row.made_way_for = wanted.made_way_for

    @FOLDS.on("job", "resized", jobs.JobResized)
    def _resized(self, fact: Fact, resized: jobs.JobResized) -> None:
        job = self._job(fact)
        if job is None:
            return
        self._give_back(job)
        self._hold(job, resized.slots)
        job.row.made_way_for = ""

    @FOLDS.on("job", "stop-requested", jobs.JobStopRequested)
    def _stopping(self, fact: Fact, stop: jobs.JobStopRequested) -> None:
        job = self._job(fact)
        if job is not None:
            self._move(job, Phase.STOPPING)
            job.row.reason = stop.shown_reason
            job.row.made_way_for = stop.made_way_for
            job.row.slice_ends_at = 0

    @FOLDS.on("job", "pods-exited", jobs.PodsExited)
    def _pods_exited(self, fact: Fact, exited: jobs.PodsExited) -> None:
        job = self._observed(fact, exited.attempt)
        if job is not None and job.exited_s is None:
            job.exited_s = exited.ran_s
            if exited.outcome is not jobs.PodsOutcome.SUCCEEDED:
                job.row.lost_last_s = lost_work_s(job.row, fact.time)

    @FOLDS.on("job", tuple(_TERMINAL), jobs.JobFinished)
    def _ended_as(self, fact: Fact, finished: jobs.JobFinished) -> None:
        job = self._job(fact)
        if job is None:
            return
        self._give_back(job)
        self._move(job, _TERMINAL[fact.name])
        row = job.row
        row.ended_at = fact.time
        row.exit_code = finished.exit_code
        row.reason = finished.reason
        row.detail = row.made_way_for = ""
        row.reserved_at = row.slice_ends_at = 0
        row.held = False
        row.lost_last_s = 0.0
        row.ran_s = finished.ran_s
        self._jobs.end(job)

    @FOLDS.on("job", "returned", JobReturned)
    def _gone_elsewhere(self, fact: Fact, _: JobReturned) -> None:
        """Remove the row after the federation rerouted the job; the row of the new cluster replaces it."""
        job = self._jobs.live(fact.subject_id)
        if job is not None:
            self._give_back(job)
            self._queues.move(job.row.queue, before=job.row.phase, after=None)
        if not self._jobs.forget(fact.subject_id):
            self._anomalies.count += 1

    @FOLDS.on("job", "use-reported", JobUseReported)
    def _use_reported(self, fact: Fact, reported: JobUseReported) -> None:
        """Show what telemetry measured. The last report comes after the job ended or left, perhaps without a row."""
        self._jobs.report_use(fact.subject_id, reported.use, seq=fact.seq)

    @FOLDS.on("job", STATE_NAME, JobUseState)
    def _use_state(self, fact: Fact, state: JobUseState) -> None:
        """Restore what telemetry measured; the state of the job itself may come later in the checkpoint."""
        if state.reported is None or self._jobs.report_use(fact.subject_id, state.reported.use, seq=fact.seq):
            return
        self._uses[fact.subject_id] = state.reported.use
        if len(self._uses) > USES_KEPT:
            del self._uses[next(iter(self._uses))]

    @FOLDS.on("job", STATE_NAME, jobs.JobState)
    def _job_state(self, fact: Fact, state: jobs.JobState) -> None:
        job = self._admit(state.job, fact, submitted_at=state.job.submitted_at or state.queued_at)
        restore_row(job, state)
        if state.phase.is_terminal:
            self._jobs.end(job)
        else:
            before, job.row.phase = job.row.phase, Phase.SUBMITTED
            self._hold(job, state.slots, slots_added=slots_added(state.slots, state.resize))
            self._move(job, before)
        use = self._uses.pop(fact.subject_id, None)
        if use is not None:
            self._jobs.report_use(fact.subject_id, use, seq=fact.seq)
