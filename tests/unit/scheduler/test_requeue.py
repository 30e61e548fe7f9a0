"""A user requeues a job: what is stopped, how it counts, and what is refused."""

import pytest

from kit.scheduler import VirtualScheduler, belief
from kit.scheduler_yard import HOUR_S, Yard
from muster.schemas.facts.job import StopReason
from muster.schemas.job import Phase


def test_the_attempt_is_stopped_with_its_grace_and_the_job_is_queued_again() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", grace_s=45.0)
    world.started(one)
    asked = world.requeue(one, reason="new data")
    stop = world.last("stop-requested", one.id)
    assert stop.causes == (asked.id,)
    assert (stop.payload.attempt, stop.payload.reason, stop.payload.grace_s) == (1, StopReason.PREEMPTED, 45.0)
    assert (stop.payload.requeued, stop.payload.shown_reason) == (True, "requeued")
    world.exited(one, "stopped", ran_s=10.0)
    queued = world.last("queued", one.id).payload
    assert (queued.attempt, queued.shown_reason, queued.detail) == (2, "requeued", "requested by ada: new data")
    assert world.names(one)[-2:] == ["queued", "placed"], "it may run again at once"


def test_it_counts_neither_as_a_failure_nor_as_a_preemption() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one", retries=0)
    world.started(one)
    world.requeue(one)
    world.exited(one, "failed", exit_code=143, ran_s=10.0)
    record = world.core.state.jobs.records[one.id]
    assert record.phase is Phase.PLACED
    assert (record.preemptions, record.retries_used, record.failures_in_row, record.node_losses) == (0, 0, 0, 0)
    assert record.ran_s == 10.0


def test_a_later_preemption_counts_again() -> None:
    yard = Yard(gpus=1, quotas={"a": 1})
    low = yard.runs("low", queue="a", priority=10)
    yard.requeue(low)
    yard.exited(low, "stopped")
    yard.started(low, attempt=2)
    yard.advance(HOUR_S)
    yard.waits("mine", queue="a", priority=50)
    assert yard.told() == {"low": "mine"}
    assert not yard.last("stop-requested", low.id).payload.requeued
    yard.exited(low, "stopped", attempt=2)
    record = yard.core.state.jobs.records[low.id]
    assert (record.preemptions, record.requeued) == (1, False)


def test_a_job_that_waits_keeps_its_position_and_the_request_is_refused() -> None:
    world = VirtualScheduler(nodes=1, gpus=1)
    world.submit("runs")
    one = world.submit("waits")
    world.requeue(one)
    refused = world.last("requeue-refused", one.id).payload
    assert refused.reason == "it waits: only a job that is placed or running can be requeued"
    assert world.core.state.jobs.records[one.id].requeue is None


def test_a_job_whose_pods_are_being_ended_is_not_requeued() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    world.started(one)
    world.cancel(one)
    world.requeue(one)
    assert world.last("requeue-refused", one.id).payload.reason.startswith("its pods are being ended: ")
    world.exited(one, "stopped")
    assert world.core.state.jobs.records[one.id].phase is Phase.CANCELLED


@pytest.mark.parametrize(("ends", "phase"), [("succeeded", Phase.SUCCEEDED), ("cancelled", Phase.CANCELLED)])
def test_success_and_cancellation_during_the_grace_period_end_the_job(ends: str, phase: Phase) -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    world.started(one)
    world.requeue(one)
    if ends == "cancelled":
        world.cancel(one)
        ends = "stopped"
    world.exited(one, ends)
    assert world.core.state.jobs.records[one.id].phase is phase


def test_it_is_the_same_after_a_restart_between_the_stop_and_the_exit() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    world.started(one)
    world.requeue(one)
    recovered = world.recover()
    assert belief(recovered) == belief(world.core)
    world.core = recovered
    world.exited(one, "stopped")
    assert world.last("queued", one.id).payload.requeued


def test_a_request_for_a_job_that_ended_is_counted_and_changes_nothing() -> None:
    world = VirtualScheduler(nodes=1)
    one = world.submit("one")
    world.exited(one)
    before = world.names(one)
    world.requeue(one)
    assert world.names(one) == before
    assert world.core.state.anomalies["requeue-forwarded of no live job"] == 1
