"""Whose failure it was: the job's own, which uses a retry, or that of what it ran on, which does not."""

import pytest

from muster.scheduler.core import answers
from muster.scheduler.core.cycle import Limits
from muster.scheduler.core.follow import NODE_LOSSES_MAX
from muster.schemas.facts.job import QueuedReason
from muster.schemas.job import Checkpointing, Job, Phase
from muster.schemas.queries import AskJob
from unit.scheduler.closing import ask, checkpointed
from unit.scheduler.world import World

BLAME_S = 12.0


def running(world: World, name: str = "one", **spec: object) -> Job:
    one = world.submit(name, **spec)
    world.started(one)
    return one


def watched() -> World:
    """A cluster whose hardware health watches."""
    return World(nodes=2, gpus=2, limits=Limits(blame_s=BLAME_S))


@pytest.mark.parametrize("kind", ["node", "device"])
def test_an_error_on_what_health_withholds_is_no_failure_of_the_job(kind: str) -> None:
    world = World(nodes=2, gpus=2)
    one = running(world)
    ((node, (device,)),) = world.slots(one)
    ask(world, node if kind == "node" else f"{node}-gpu-{device}", kind=kind, by="health")
    world.exited(one, "failed", exit_code=1)
    queued = world.last(one.id, "queued").payload
    assert queued.reason is QueuedReason.NODE_LOST
    assert queued.detail.startswith(f"health withholds {kind}")


def test_what_others_withhold_or_another_device_is_no_excuse() -> None:
    world = World(nodes=1, gpus=2)
    one = running(world)
    ((_, (device,)),) = world.slots(one)
    ask(world, "n0", by="upgrader")
    ask(world, f"n0-gpu-{1 - device}", kind="device", by="health", request="h")
    world.exited(one, "failed", exit_code=1)
    assert world.phase(one) is Phase.FAILED


def test_where_health_watches_an_error_is_judged_a_moment_later() -> None:
    world = watched()
    one = running(world)
    ((node, _),) = world.slots(one)
    world.exited(one, "failed", exit_code=1)
    assert world.phase(one) is Phase.RUNNING
    world.later(BLAME_S / 2)
    ask(world, node, by="health")
    world.run()
    assert world.last(one.id, "queued").payload.reason is QueuedReason.NODE_LOST
    assert world.core.state.jobs.records[one.id].retries_used == 0


def test_if_health_finds_nothing_it_was_the_job() -> None:
    world = watched()
    one = running(world, retries=1)
    world.exited(one, "failed", exit_code=1)
    world.later(BLAME_S - 1)
    assert world.phase(one) is Phase.RUNNING
    world.later(2)
    assert world.last(one.id, "queued").payload.reason is QueuedReason.RETRY


@pytest.mark.parametrize("how", ["succeeded", "node-lost", "no-gpu", "cancelled"])
def test_nothing_else_is_waited_for(how: str) -> None:
    world = watched()
    one = running(world, gpus=0 if how == "no-gpu" else 1)
    if how == "cancelled":
        world.cancel(one)
    world.exited(one, "failed" if how in ("no-gpu", "cancelled") else how)
    assert world.phase(one) is not Phase.RUNNING


def test_the_view_tells_failures_apart_and_the_work_that_was_lost() -> None:
    world = World(nodes=2, gpus=2)
    one = running(world, retries=3, checkpointing=Checkpointing(interval_s=600))
    world.later(600)
    checkpointed(world, one)
    world.later(40)
    world.exited(one, "node-lost", ran_s=640)
    world.started(one, attempt=2)
    world.later(100)
    world.exited(one, "failed", attempt=2, exit_code=1, ran_s=100)
    view = answers.answer_why(world.core, AskJob(job_id=one.id), world.now).job
    assert view is not None
    assert (view.node_losses, view.retries_used, view.retries) == (1, 1, 3)
    assert (view.lost_s, view.lost_last_s) == (140.0, 100.0)
    recovered = answers.answer_job(world.recover(), AskJob(job_id=one.id), world.now).job
    assert recovered == view


@pytest.mark.parametrize("progress", ["none", "checkpoint", "an-hour"])
def test_losses_between_which_nothing_came_of_it_are_bounded_and_others_are_not(progress: str) -> None:
    world = World(nodes=1)
    one = world.submit("one", total_run_time_s=90 * 86_400.0)
    for number in range(1, NODE_LOSSES_MAX + 2):
        world.started(one, attempt=number)
        world.later(3_600 if progress == "an-hour" else 60)
        if progress == "checkpoint":
            checkpointed(world, one, attempt=number)
        world.exited(one, "node-lost", attempt=number, ran_s=60)
    assert (world.phase(one) is Phase.FAILED) is (progress == "none")
    assert world.core.state.jobs.records[one.id].node_losses >= NODE_LOSSES_MAX
