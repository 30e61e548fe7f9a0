"""A user edits a waiting job: what changes, what stays, and what is refused."""

import pytest

from kit.scheduler import VirtualScheduler, belief
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.facts.job import PodsExited, PodsOutcome
from muster.schemas.facts.job_requests import JobEditRequested
from muster.schemas.job import Job, Phase


def full(**queue: object) -> tuple[VirtualScheduler, Job]:
    """A cluster whose one job holds everything."""
    world = VirtualScheduler(nodes=1, gpus=1)
    if queue:
        world.queue("lab", **queue)
    return world, world.submit("runs", gpus=1)


def record_of(world: VirtualScheduler, one: Job) -> JobRecord:
    return world.core.state.jobs.records[one.id]


def times(world: VirtualScheduler, one: Job) -> tuple[float, float]:
    record = record_of(world, one)
    return record.total_run_time_s, record.min_slice_s


def test_a_waiting_job_gets_other_run_times_and_keeps_its_position() -> None:
    world, runs = full()
    one, behind = world.submit("one", gpus=1), world.submit("behind", gpus=1)
    asked = world.edit(one, total_run_time_s=600.0, reason="shorter data")
    edited = world.last("edited", one.id)
    assert (edited.causes, edited.payload.reason) == ((asked.id,), "shorter data")
    assert times(world, one) == (600.0, one.spec.min_slice_s)
    assert record_of(world, one).edit is None
    world.started(runs)
    world.exited(runs)
    assert (record_of(world, one).phase, record_of(world, behind).phase) == (Phase.PLACED, Phase.QUEUED)


def test_the_new_limit_ends_the_run() -> None:
    world, runs = full()
    one = world.submit("one", gpus=1)
    world.edit(one, total_run_time_s=600.0)
    world.started(runs)
    world.exited(runs)
    world.started(one)
    assert record_of(world, one).deadline() == record_of(world, one).running_at + 600 * 10**9


def test_it_holds_for_later_attempts_and_after_a_restart() -> None:
    world, runs = full()
    one = world.submit("one", gpus=1)
    world.edit(one, total_run_time_s=600.0, min_slice_s=30.0)
    recovered = world.recover()
    assert belief(recovered) == belief(world.core)
    world.core = recovered
    world.started(runs)
    world.exited(runs)
    world.started(one)
    world.requeue(one)
    world.exited(one, "stopped", ran_s=10.0)
    assert times(world, one) == (600.0, 30.0)


def test_a_held_job_is_edited_and_stays_held() -> None:
    world, _ = full()
    one = world.submit("one", gpus=1)
    world.hold(one)
    world.edit(one, min_slice_s=30.0)
    assert times(world, one)[1] == 30.0
    assert record_of(world, one).held is not None


def test_a_job_is_not_placed_by_the_decision_that_answers_an_edit() -> None:
    world, runs = full()
    one = world.submit("one", gpus=1)
    world.write("agent", "job", runs.id, "pods-exited", PodsExited(attempt=1, outcome=PodsOutcome.SUCCEEDED))
    asked = JobEditRequested(principal="ada", min_slice_s=30.0)
    world.decide_once("scheduler")
    world.write("federation", "job", one.id, "edit-forwarded", asked)
    assert [draft.name for draft in world.core.decide(world.now) if draft.subject_id == one.id] == ["edited"]
    world.settle()
    placed = world.last("placed", one.id).payload
    assert placed.slice_s == 30.0


def test_a_job_with_pods_is_not_edited() -> None:
    world, runs = full()
    before = times(world, runs)
    world.edit(runs, total_run_time_s=600.0)
    reason = world.last("edit-refused", runs.id).payload.reason
    assert reason == "it has its places already, and its pods are starting: only a job that waits can be edited"
    world.started(runs)
    world.edit(runs, total_run_time_s=600.0)
    assert world.last("edit-refused", runs.id).payload.reason == "it runs: only a job that waits can be edited"
    assert times(world, runs) == before


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"total_run_time_s": 7_200.0},
            "total_run_time_s 7200 is above 3600, the maximum of queue lab: ask for at most 3600",
        ),
        ({"min_slice_s": 61.0, "total_run_time_s": 60.0}, "min_slice_s 61 is above 60, the maximum of queue lab: "),
    ],
)
def test_the_maximum_of_the_queue_counts(fields: dict[str, float], reason: str) -> None:
    world, _ = full(run_time_max_s=3_600.0, min_slice_max_s=60.0)
    one = world.submit("one", gpus=1, queue="lab")
    before = times(world, one)
    world.edit(one, **fields)
    assert world.last("edit-refused", one.id).payload.reason.startswith(reason)
    assert times(world, one) == before


def test_a_limit_that_is_used_up_is_refused() -> None:
    world, runs = full()
    world.started(runs)
    world.requeue(runs)
    world.submit("urgent", gpus=1, priority=900)
    world.exited(runs, "stopped", ran_s=100.0)
    assert record_of(world, runs).phase is Phase.QUEUED
    world.edit(runs, total_run_time_s=100.0)
    reason = world.last("edit-refused", runs.id).payload.reason
    assert reason == "total_run_time_s 100 is used up: its attempts ran for 100 s; ask for more"


def test_a_request_for_a_job_that_ended_is_counted_and_changes_nothing() -> None:
    world, runs = full()
    world.exited(runs)
    before = world.names(runs)
    world.edit(runs, min_slice_s=1.0)
    assert world.names(runs) == before
    assert world.core.state.anomalies["edit-forwarded of no live job"] == 1
