"""What people see of preemption, slices, reservations and elastic jobs."""

import pytest

from kit.log import a_fact
from kit.projector import Story, a_job
from muster.core.instant import NS_PER_S
from muster.projector.core import ProjectorCore
from muster.schemas.facts import job as jobs
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job_requests import JobEdited, JobHeld, JobReprioritised
from muster.schemas.facts.telemetry import JobUseReported, JobUseState, Use
from muster.schemas.job import Job, JobSpec, Phase, Slot, TaskGroup
from muster.schemas.registry import STATE_NAME
from muster.schemas.views import JobView, NodeView, QueueView

HOUR_NS = 3600 * NS_PER_S


class Seen:
    """A projection of a story that goes on."""

    def __init__(self) -> None:
        self.story = Story()
        self.core = ProjectorCore("atlas")
        self.folded = 0
        self.story.queue("blue")
        self.story.node("n1")
        self.story.node("n2")

    def job(self, job: Job) -> JobView:
        for fact in self.story.facts[self.folded :]:
            self.core.apply(fact)
        self.folded = len(self.story.facts)
        changes = self.core.take_all(rows_after=0)
        self.nodes = {name: NodeView.model_validate_json(body) for name, body in changes.nodes.items() if body}
        self.queues = {name: QueueView.model_validate_json(body) for name, body in changes.queues.items() if body}
        return next(JobView.model_validate_json(change.body) for change in changes.jobs if change.id == job.id)


@pytest.fixture
def seen() -> Seen:
    return Seen()


def run(seen: Seen, job: Job, *, slots: tuple[Slot, ...] = (), attempt: int = 1) -> None:
    seen.story.add("job", job.id, "queued", jobs.JobQueued(queue="blue", attempt=attempt))
    if slots:
        seen.story.add("job", job.id, "placed", jobs.JobPlaced(attempt=attempt, slots=slots))
    else:
        seen.story.placed(job, attempt=attempt)
    seen.story.add("job", job.id, "running", jobs.JobRunning(attempt=attempt))


def slot(replica: int, node: str = "n1") -> Slot:
    return Slot(group=0, replica=replica, node=node, devices=(replica,), gpu_milli=1000)


def elastic() -> Job:
    group = TaskGroup(gpus=1, replicas=3, min_replicas=1, cpu_milli=1000, memory_mib=1000)
    return a_job(1).model_copy(update={"spec": JobSpec(name="e", team="blue", task_groups=(group,))})


def test_a_running_job_shows_until_when_it_is_left_alone(seen: Seen) -> None:
    job = a_job(1)
    seen.story.routed(job)
    run(seen, job)
    view = seen.job(job)
    assert (view.preemptible, view.slice_ends_at) == (True, view.running_at + HOUR_NS)
    seen.story.queued(job, attempt=2)
    assert seen.job(job).slice_ends_at == 0


def test_the_queue_s_word_on_slices_counts_more_than_the_job_s(seen: Seen) -> None:
    job = a_job(1)
    seen.story.routed(job)
    seen.story.add("job", job.id, "queued", jobs.JobQueued(queue="blue", attempt=1, min_slice_s=60))
    seen.story.placed(job)
    seen.story.running(job)
    view = seen.job(job)
    assert view.slice_ends_at == view.running_at + 60 * NS_PER_S


def test_a_job_that_is_never_preempted_has_no_slice(seen: Seen) -> None:
    job = a_job(1)
    job = job.model_copy(update={"spec": job.spec.model_copy(update={"preemptible": False})})
    seen.story.routed(job)
    run(seen, job)
    assert (seen.job(job).preemptible, seen.job(job).slice_ends_at) == (False, 0)


def test_a_preempted_job_shows_for_whom_then_how_often_and_how_long_it_ran(seen: Seen) -> None:
    job = a_job(1)
    seen.story.routed(job)
    for attempt in (1, 2):
        run(seen, job, attempt=attempt)
        stop = jobs.JobStopRequested(attempt=attempt, reason=jobs.StopReason.PREEMPTED, made_way_for="B" * 26)
        seen.story.add("job", job.id, "stop-requested", stop)
        view = seen.job(job)
        assert (view.phase, view.made_way_for, view.preemptions) == (Phase.STOPPING, "B" * 26, attempt - 1)
        exited = jobs.PodsExited(attempt=attempt, outcome=jobs.PodsOutcome.STOPPED, ran_s=100)
        seen.story.add("job", job.id, "pods-exited", exited)
        again = jobs.JobQueued(queue="blue", attempt=attempt + 1, reason=jobs.QueuedReason.PREEMPTED, detail="for B")
        seen.story.add("job", job.id, "queued", again)
        view = seen.job(job)
        assert (view.preemptions, view.made_way_for, view.ran_s) == (attempt, "", 100.0 * attempt)
        assert (view.reason, view.detail) == ("preempted", "for B")


def test_pods_of_a_run_that_is_over_change_nothing(seen: Seen) -> None:
    job = a_job(1)
    seen.story.routed(job)
    run(seen, job, attempt=2)
    late = jobs.PodsExited(attempt=1, outcome=jobs.PodsOutcome.STOPPED, ran_s=100)
    seen.story.add("job", job.id, "pods-exited", late)
    seen.story.add("job", job.id, "checkpointed", jobs.JobCheckpointed(attempt=1))
    seen.story.queued(job, attempt=3)
    view = seen.job(job)
    assert (view.ran_s, view.checkpointed_at, seen.core.anomalies) == (0.0, 0, 2)


def test_a_checkpoint_shows_when_it_was_written(seen: Seen) -> None:
    job = a_job(1)
    seen.story.routed(job)
    run(seen, job)
    written = seen.story.add("job", job.id, "checkpointed", jobs.JobCheckpointed(attempt=1))
    assert seen.job(job).checkpointed_at == written.time


@pytest.mark.parametrize("end", ["lifted", "placed", "ended"])
def test_a_reservation_shows_when_the_job_starts_until_it_is_over(seen: Seen, end: str) -> None:
    job = a_job(1)
    seen.story.routed(job)
    seen.story.queued(job)
    seen.story.add("job", job.id, "reserved", jobs.JobReserved(attempt=1, slots=(slot(0),), starts_at=7_000))
    assert seen.job(job).reserved_at == 7_000
    match end:
        case "lifted":
            seen.story.add("job", job.id, "reservation-lifted", jobs.JobReservationLifted(attempt=1))
        case "placed":
            seen.story.placed(job)
        case _:
            seen.story.ended(job, "cancelled")
    assert seen.job(job).reserved_at == 0


def test_a_held_job_shows_so_by_whom_and_that_nothing_is_reserved_for_it(seen: Seen) -> None:
    job = a_job(1)
    seen.story.routed(job)
    seen.story.queued(job)
    seen.story.add("job", job.id, "reserved", jobs.JobReserved(attempt=1, slots=(slot(0),), starts_at=7_000))
    seen.story.add("job", job.id, "held", JobHeld(principal="ann", reason="wrong data"))
    view = seen.job(job)
    assert (view.held, view.phase, view.reserved_at) == (True, Phase.QUEUED, 0)
    assert (view.reason, view.detail) == ("held", "by ann: wrong data")
    seen.story.add("job", job.id, "unheld", JobHeld(principal="olga"))
    view = seen.job(job)
    assert (view.held, view.reason, view.detail) == (False, "released", "by olga")


def test_a_held_job_that_ends_is_held_no_more(seen: Seen) -> None:
    job = a_job(1)
    seen.story.routed(job)
    seen.story.queued(job)
    seen.story.add("job", job.id, "held", JobHeld(principal="ann"))
    seen.story.ended(job, "cancelled")
    assert not seen.job(job).held


def test_a_job_shows_the_priority_that_was_asked_for_last(seen: Seen) -> None:
    job = a_job(1)
    seen.story.routed(job)
    seen.story.queued(job)
    assert seen.job(job).priority == 50
    seen.story.add("job", job.id, "reprioritised", JobReprioritised(priority=90, was=50, principal="ann"))
    assert seen.job(job).priority == 90


def test_a_checkpoint_restores_who_is_held_and_how_urgent_it_is(seen: Seen) -> None:
    job, held = a_job(1), JobHeld(principal="ann")
    state = jobs.JobState(
        job=job, phase=Phase.QUEUED, queue="blue", held=held, priority=90, reason="held", detail="by ann",
        queued_reason=jobs.QueuedReason.SUBMITTED,
    )  # fmt: skip
    seen.core.apply(a_fact("scheduler", "job", job.id, "state-recorded", state))
    view = seen.job(job)
    assert (view.held, view.priority, view.reason, view.detail) == (True, 90, "held", "by ann")


def test_what_a_growing_job_is_to_get_is_held_from_the_request_on(seen: Seen) -> None:
    job = elastic()
    seen.story.routed(job)
    run(seen, job, slots=(slot(0),))
    wider = jobs.JobResizeRequested(attempt=1, slots=(slot(0), slot(1, "n2"), slot(2, "n2")))
    seen.story.add("job", job.id, "resize-requested", wider)
    view = seen.job(job)
    assert (view.min_replicas, view.replicas, len(view.slots)) == (1, 3, 1)
    assert seen.nodes["n2"].gpu_milli_held == 2000
    assert seen.queues["blue"].held["gpu_milli"] == 3000
    seen.story.add("job", job.id, "resized", jobs.JobResized(attempt=1, slots=wider.slots))
    assert seen.job(job).nodes == ("n1", "n2")
    assert seen.queues["blue"].held["gpu_milli"] == 3000
    seen.story.ended(job)
    seen.job(job)
    assert seen.queues["blue"].held == {}
    assert seen.nodes["n2"].jobs == ()


def test_what_a_shrinking_job_gives_up_is_held_until_it_has_shrunk(seen: Seen) -> None:
    job = elastic()
    seen.story.routed(job)
    run(seen, job, slots=(slot(0), slot(1, "n2")))
    smaller = jobs.JobResizeRequested(attempt=1, slots=(slot(0),), made_way_for="B" * 26)
    seen.story.add("job", job.id, "resize-requested", smaller)
    assert seen.job(job).made_way_for == "B" * 26
    assert seen.nodes["n2"].gpu_milli_held == 1000
    seen.story.add("job", job.id, "resized", jobs.JobResized(attempt=1, slots=smaller.slots))
    assert (seen.job(job).made_way_for, seen.job(job).nodes) == ("", ("n1",))
    assert seen.nodes["n2"].gpu_milli_held == 0


def test_a_checkpoint_restores_all_of_it(seen: Seen) -> None:
    job = elastic()
    running_at = 9 * HOUR_NS
    resize = jobs.JobResizeRequested(attempt=3, slots=(slot(0), slot(1)), made_way_for="B" * 26)
    state = jobs.JobState(
        job=job, phase=Phase.RUNNING, attempt=3, queue="blue", slots=(slot(0),), placed_at=1, running_at=running_at,
        ran_s=50.0, checkpointed_at=running_at + 1, min_slice_s=60, resize=resize, made_way_for="B" * 26, preemptions=2,
        exited=jobs.PodsExited(attempt=3, outcome=jobs.PodsOutcome.STOPPED, ran_s=7.0),
    )  # fmt: skip
    seen.core.apply(a_fact("scheduler", "job", job.id, "state-recorded", state))
    view = seen.job(job)
    assert (view.preemptions, view.ran_s, view.checkpointed_at) == (2, 50.0, running_at + 1)
    assert (view.slice_ends_at, view.made_way_for) == (running_at + 60 * NS_PER_S, "B" * 26)
    assert seen.queues["blue"].held["gpu_milli"] == 2000
    seen.story.queued(job, attempt=4)
    assert seen.job(job).ran_s == 57.0
    assert seen.queues["blue"].held == {}


def test_a_job_that_the_federation_took_back_has_no_row_here_and_holds_nothing(seen: Seen) -> None:
    gone, stays = a_job(1), a_job(2)
    for job in (gone, stays):
        seen.story.routed(job)
        run(seen, job)
    seen.job(gone)
    seen.story.add("job", gone.id, "returned", JobReturned(assignment=1))
    for fact in seen.story.facts[seen.folded :]:
        seen.core.apply(fact)
    seen.folded = len(seen.story.facts)
    changes = seen.core.take(facts_after=0)
    assert [change.id for change in changes.removed] == [gone.id]
    assert not seen.core.knows(gone.id)
    seen.job(stays)
    assert seen.queues["blue"].jobs_running == 1
    assert sum(node.gpu_milli_held for node in seen.nodes.values()) == 2_000


def test_a_job_that_came_back_to_a_cluster_has_a_row_again(seen: Seen) -> None:
    job = a_job(1)
    seen.story.routed(job)
    run(seen, job)
    seen.story.add("job", job.id, "returned", JobReturned(assignment=1))
    seen.story.routed(job)
    run(seen, job)
    assert seen.job(job).phase is Phase.RUNNING
    assert seen.core.anomalies == 0


def use_reported(seen: Seen, job: Job, *, measured_s: float, busy_s: float) -> None:
    payload = JobUseReported(use=Use(measured_s=measured_s, busy_s=busy_s))
    fact = a_fact("telemetry", "job", job.id, "use-reported", payload, seq=len(seen.story.facts) + 1)
    seen.story.facts.append(fact)


def test_what_telemetry_measured_is_shown_also_if_it_is_reported_after_the_end(seen: Seen) -> None:
    job = a_job(1)
    seen.story.routed(job)
    run(seen, job)
    use_reported(seen, job, measured_s=100.0, busy_s=40.0)
    assert (seen.job(job).measured_s, seen.job(job).busy_s) == (100.0, 40.0)
    seen.story.ended(job)
    use_reported(seen, job, measured_s=150.0, busy_s=60.0)
    view = seen.job(job)
    assert (view.phase, view.measured_s, view.busy_s) == (Phase.SUCCEEDED, 150.0, 60.0)
    assert view.seq == len(seen.story.facts), "the row is written again"


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.SUCCEEDED])
@pytest.mark.parametrize("first", ["job", "use"])
def test_a_checkpoint_restores_what_was_measured_in_any_order(seen: Seen, phase: Phase, first: str) -> None:
    job = a_job(1)
    state = jobs.JobState(job=job, phase=phase, queue="blue")
    use = JobUseState(reported=JobUseReported(use=Use(measured_s=100.0, busy_s=40.0)))
    told = [("scheduler", state), ("telemetry", use)]
    for writer, body in told if first == "job" else told[::-1]:
        seq = len(seen.story.facts) + 1
        seen.story.facts.append(a_fact(writer, "job", job.id, STATE_NAME, body, seq=seq))
    assert (seen.job(job).measured_s, seen.job(job).busy_s) == (100.0, 40.0)


def test_the_run_times_are_those_of_the_job_of_its_queue_and_of_the_last_edit(seen: Seen) -> None:
    job = a_job(1)
    seen.story.routed(job)
    assert (seen.job(job).total_run_time_s, seen.job(job).min_slice_s) == (7 * 86_400.0, 3_600.0)
    seen.story.add("job", job.id, "queued", jobs.JobQueued(queue="blue", attempt=1, total_run_time_s=600.0))
    assert (seen.job(job).total_run_time_s, seen.job(job).min_slice_s) == (600.0, 3_600.0)
    seen.story.add("job", job.id, "edited", JobEdited(total_run_time_s=300.0, min_slice_s=60.0, principal="ann"))
    seen.story.placed(job)
    seen.story.running(job)
    view = seen.job(job)
    assert (view.total_run_time_s, view.min_slice_s) == (300.0, 60.0)
    assert view.slice_ends_at == view.running_at + 60 * NS_PER_S
