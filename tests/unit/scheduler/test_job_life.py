"""A job's way from routed to its one terminal fact."""

import pytest

from kit.scheduler import VirtualScheduler, job
from muster.schemas.base import TEXT_CHARS_MAX
from muster.schemas.facts.job import JobCancelRequested, PodsExited, PodsOutcome, PodsStarted
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.job import Phase


def test_a_job_that_fits_is_queued_and_placed_by_one_decision() -> None:
    world = VirtualScheduler(nodes=1)
    one = job("one", gpus=2)
    world.route(one)
    assert [fact.name for fact in world.decide_once("scheduler") if fact.kind == "job"] == ["queued", "placed"]
    assert world.slots(one) == [("n0", (0, 1))]


def test_it_runs_when_its_pods_started_and_ends_when_they_exited() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    world.started(one)
    assert world.phase(one) is Phase.RUNNING
    world.exited(one, ran_s=7.0)
    assert world.names(one) == ["queued", "placed", "running", "succeeded"]
    assert world.last("succeeded", one.id).payload.ran_s == 7.0


def test_every_fact_of_a_job_carries_its_trace_and_what_led_to_it() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    world.started(one)
    world.exited(one)
    own = [fact for fact in world.log if fact.subject_id == one.id and fact.writer == "scheduler"]
    assert {fact.trace for fact in own} == {one.trace}
    assert world.last("queued", one.id).causes == (world.last("routed", one.id).id,)
    assert world.last("running", one.id).causes == (world.last("pods-started", one.id).id,)
    assert world.last("succeeded", one.id).causes == (world.last("pods-exited", one.id).id,)


def test_a_placement_after_waiting_names_what_came_free() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    first, second = world.submit("first"), world.submit("second")
    world.exited(first)
    assert world.last("succeeded", first.id).id in world.last("placed", second.id).causes


def test_a_failed_job_is_retried_as_often_as_it_may() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", retries=1)
    world.exited(one, "failed", attempt=1, exit_code=3, ran_s=1.0)
    assert world.phase(one) is Phase.PLACED, "the second run"
    world.exited(one, "failed", attempt=2, exit_code=4, ran_s=2.0)
    ended = world.last("failed", one.id).payload
    assert (ended.attempt, ended.exit_code, ended.ran_s) == (2, 4, 3.0)


def test_a_lost_node_uses_no_retry_and_the_whole_gang_is_queued_again() -> None:
    world = VirtualScheduler(nodes=3, gpus=1)
    one = world.submit("one", replicas=2)
    assert len(world.slots(one)) == 2
    lost = world.slots(one)[0][0]
    world.lose(lost)
    world.exited(one, "node-lost")
    assert world.last("queued", one.id).payload.reason == "node-lost"
    assert world.phase(one) is Phase.PLACED
    assert lost not in {node for node, _ in world.slots(one)}
    world.exited(one, "failed", attempt=2)
    assert world.phase(one) is Phase.FAILED, "it had no retry, and none was given or taken"


def test_a_job_that_waits_again_holds_nothing() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    world.lose("n0")
    world.exited(one, "node-lost")
    assert world.phase(one) is Phase.QUEUED
    assert world.slots(one) == []


def test_a_queued_job_that_is_cancelled_as_its_place_comes_free_is_not_placed() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    world.submit("first")
    second = world.submit("second")
    world.join_quietly("n1", gpus=1)
    world.decide_once("scheduler")  # n1 is released now
    world.write("federation", "job", second.id, "cancel-forwarded", JobCancelRequested(principal="ada"))
    world.settle()
    assert world.names(second)[-1] == "cancelled"
    assert world.count(second.id, "placed") == 0


def test_a_job_whose_nodes_keep_dying_ends() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    attempt = 1
    while not world.phase(one).is_terminal:
        world.exited(one, "node-lost", attempt=attempt)
        attempt += 1
        assert attempt < 100
    assert world.phase(one) is Phase.FAILED
    assert "node-losses" in world.last("failed", one.id).payload.reason


def test_what_the_cluster_said_of_an_exit_is_said_of_the_job() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", retries=1)
    for attempt, outcome, detail in ((1, "node-lost", "OutOfcpu"), (2, "failed", "exit code 128: no image")):
        world.exited(one, outcome, attempt=attempt, exit_code=128, reason=detail.split(": ")[-1])
        assert world.last("queued", one.id).payload.detail == detail
    world.exited(one, "failed", attempt=3, exit_code=128, reason=TEXT_CHARS_MAX * "x")
    assert world.last("failed", one.id).payload.reason.startswith("exit code 128: xxx")


def test_total_run_time_counts_over_all_runs() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", total_run_time_s=100.0)
    world.started(one)
    world.advance(60)
    world.exited(one, "node-lost", ran_s=60.0)
    world.started(one, attempt=2)
    world.advance(39)
    assert world.phase(one) is Phase.RUNNING
    world.advance(1)
    assert world.phase(one) is Phase.STOPPING
    assert world.last("stop-requested", one.id).payload.reason == "timed-out"
    world.exited(one, "stopped", attempt=2, ran_s=40.0)
    assert world.phase(one) is Phase.TIMED_OUT
    assert world.count(one.id, "stop-requested") == 1


@pytest.mark.parametrize("phase", [Phase.SUBMITTED, Phase.QUEUED, Phase.PLACED, Phase.RUNNING, Phase.STOPPING])
def test_a_job_can_be_cancelled_in_every_phase(phase: Phase) -> None:
    world = VirtualScheduler(nodes=0 if phase is Phase.QUEUED else 1)
    one = job("one", total_run_time_s=10.0)
    world.route(one)
    if phase is not Phase.SUBMITTED:
        world.settle()
    if phase in (Phase.RUNNING, Phase.STOPPING):
        world.started(one)
    if phase is Phase.STOPPING:
        world.advance(10)
    assert world.phase(one) is phase
    world.cancel(one)
    if phase in (Phase.PLACED, Phase.RUNNING, Phase.STOPPING):
        assert world.phase(one) is Phase.STOPPING
        world.exited(one, "stopped")
    assert world.phase(one) is Phase.CANCELLED
    assert world.count(one.id, "stop-requested") <= 1
    assert world.core.state.fleet.totals.get("H100") is None or world.core.state.fleet.totals["H100"].used_milli == 0


def test_a_job_that_succeeded_before_its_cancellation_arrived_succeeded() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    world.started(one)
    world.cancel(one)
    world.exited(one, "succeeded")
    assert world.phase(one) is Phase.SUCCEEDED


def test_pods_that_start_while_they_are_asked_to_stop_do_not_make_the_job_run() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    world.cancel(one)
    world.started(one)
    assert world.phase(one) is Phase.STOPPING
    assert "running" not in world.names(one)


def test_late_and_doubled_observations_are_counted_and_change_nothing() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", retries=3)
    world.exited(one, "failed", attempt=1)
    said = world.names(one)
    world.exited(one, "failed", attempt=1)
    world.started(one, attempt=1)
    world.write("agent", "job", "A" * 26, "pods-started", PodsStarted(attempt=1))
    world.settle()
    assert world.names(one) == said
    assert world.core.state.anomalies["observation of no present run"] == 3
    twice = PodsExited(attempt=2, outcome=PodsOutcome.FAILED)
    world.write("agent", "job", one.id, "pods-exited", twice)
    world.write("agent", "job", one.id, "pods-exited", twice)
    world.settle()
    assert world.core.state.jobs.records[one.id].retries_used == 2


def test_a_job_routed_twice_runs_once() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    world.route(one)
    world.settle()
    world.exited(one)
    world.route(one)
    world.settle()
    assert world.names(one) == ["queued", "placed", "succeeded"]


def test_a_job_of_an_unknown_queue_fails_and_says_so() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", queue="nowhere")
    assert world.names(one) == ["failed"]
    assert "unknown-queue" in world.last("failed", one.id).payload.reason


def test_a_job_whose_queue_is_about_to_be_made_waits_for_it() -> None:
    world = VirtualScheduler(nodes=1, queues=())
    spec = QueueSpec(name="lab")
    world.write("federation", "queue", "lab", "change-forwarded", QueueChangeRequested(spec=spec, principal="root"))
    one = job("one")
    world.route(one)
    world.settle()
    assert world.phase(one) is Phase.PLACED


def test_a_closed_queue_takes_no_new_job_and_keeps_those_it_has() -> None:
    world = VirtualScheduler(nodes=0)
    old = world.submit("old")
    world.queue("lab", closed=True)
    new = world.submit("new")
    world.join("n0")
    assert world.phase(new) is Phase.FAILED
    assert world.phase(old) is Phase.PLACED


def test_a_gang_too_large_for_one_fact_fails() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", replicas=4_096)
    assert world.phase(one) is Phase.QUEUED
    groups = one.spec.task_groups * 1
    two = groups[0].model_copy(update={"name": "other"})
    large = job("large").model_copy(update={"spec": one.spec.model_copy(update={"task_groups": (groups[0], two)})})
    world.route(large)
    world.settle()
    assert world.phase(large) is Phase.FAILED
