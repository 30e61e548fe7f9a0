"""Jobs on what is withheld or drained: who finishes, who is moved and when, who is stopped at once."""

import pytest

from kit.closing import FINISH, MOVE, REQUEUE, ask, checkpointed, person
from kit.scheduler import VirtualScheduler
from muster.cluster.withholds import MOVE_WAIT_S
from muster.schemas.facts.job import JobStopRequested, PodsOutcome, QueuedReason, StopReason
from muster.schemas.facts.node import RunningJobs
from muster.schemas.job import Checkpointing, Job, Phase

DAY = 86_400.0
MOVABLE = {"checkpointing": Checkpointing(interval_s=600), "min_slice_s": 0, "total_run_time_s": 7 * DAY}


def running(world: VirtualScheduler, name: str = "one", **spec: object) -> Job:
    one = world.submit(name, **spec)
    world.started(one)
    return one


def stop(world: VirtualScheduler, one: Job) -> JobStopRequested:
    payload = world.last("stop-requested", one.id).payload
    assert isinstance(payload, JobStopRequested)
    return payload


@pytest.mark.parametrize("asked", [FINISH, MOVE])
def test_nobody_without_checkpoints_is_stopped(asked: RunningJobs) -> None:
    world = VirtualScheduler(nodes=1)
    one = running(world, total_run_time_s=7 * DAY, min_slice_s=0)
    ask(world, "n0", running=asked)
    world.advance(DAY)
    assert world.phase(one) is Phase.RUNNING
    world.exited(one)
    assert world.count("n0", "withheld") == 1


@pytest.mark.parametrize("asked", [FINISH, MOVE])
def test_nobody_is_stopped_who_may_not_be(asked: RunningJobs) -> None:
    world = VirtualScheduler(nodes=1)
    one = running(world, **MOVABLE, preemptible=False)
    ask(world, "n0", running=asked)
    world.advance(DAY)
    assert world.phase(one) is Phase.RUNNING


def test_a_job_is_moved_after_a_checkpoint_and_goes_on_elsewhere_without_using_a_retry() -> None:
    world = VirtualScheduler(nodes=2, gpus=2)
    gang = running(world, replicas=2, gpus=1, **MOVABLE)
    (node,) = {node for node, _ in world.slots(gang)}
    world.advance(300)
    ask(world, node, running=MOVE)
    world.settle()
    assert world.phase(gang) is Phase.RUNNING
    world.advance(100)
    checkpointed(world, gang)
    said = stop(world, gang)
    assert (said.reason, said.grace_s) == (StopReason.PREEMPTED, gang.spec.grace_s)
    assert said.detail == f"moved off node {node} (upgrader: driver); at most 0 s of work are lost"
    world.exited(gang, "failed", exit_code=143, ran_s=400)
    record = world.core.state.jobs.records[gang.id]
    assert (world.phase(gang), record.attempt, record.retries_used) == (Phase.PLACED, 2, 0)
    assert world.last("queued", gang.id).payload.reason is QueuedReason.PREEMPTED
    assert {place for place, _ in world.slots(gang)} == {"n0", "n1"} - {node}
    assert world.count(node, "withheld") == 1


def test_a_checkpoint_that_does_not_come_is_waited_for_as_long_as_it_should_take() -> None:
    world = VirtualScheduler(nodes=1)
    one = running(world, **MOVABLE)
    ask(world, "n0", running=MOVE)
    world.advance(599)
    assert world.phase(one) is Phase.RUNNING
    world.advance(2)
    assert world.phase(one) is Phase.STOPPING


def test_a_job_that_seldom_checkpoints_is_not_waited_for_longer_than_the_bound() -> None:
    world = VirtualScheduler(nodes=1)
    one = running(world, min_slice_s=0, checkpointing=Checkpointing(interval_s=4 * 3_600))
    ask(world, "n0", running=MOVE)
    world.advance(MOVE_WAIT_S - 1)
    assert world.phase(one) is Phase.RUNNING
    world.advance(2)
    assert world.phase(one) is Phase.STOPPING


def test_a_planned_move_is_done_when_the_moment_comes() -> None:
    world = VirtualScheduler(nodes=1)
    one = running(world, **MOVABLE)
    ask(world, "n0", running=MOVE, in_s=3_600)
    world.advance(3_600 - 601)
    checkpointed(world, one)
    assert world.phase(one) is Phase.RUNNING
    world.advance(300)
    checkpointed(world, one)
    assert world.phase(one) is Phase.STOPPING


def test_a_slice_protects_from_upgrades_and_not_from_failing_hardware() -> None:
    for by, phase in (("upgrader", Phase.RUNNING), ("health", Phase.STOPPING)):
        world = VirtualScheduler(nodes=1)
        one = running(world, **{**MOVABLE, "min_slice_s": 3_600})
        checkpointed(world, one)
        ask(world, "n0", running=MOVE, by=by)
        world.settle()
        assert world.phase(one) is phase
        world.advance(3_600 + 600 + 1)
        assert world.phase(one) is Phase.STOPPING


def test_requeue_stops_all_at_once_and_uses_no_retry_whatever_they_exit_with() -> None:
    world = VirtualScheduler(nodes=2, gpus=2)
    gang = running(world, replicas=2, gpus=2)
    ask(world, "n0", running=REQUEUE, by="health")
    world.settle()
    said = stop(world, gang)
    assert (said.reason, said.grace_s) == (StopReason.NODE_LOST, 0)
    world.exited(gang, "failed", exit_code=1)
    queued = world.last("queued", gang.id).payload
    assert (queued.reason, queued.attempt) == (QueuedReason.NODE_LOST, 2)
    assert "taken off node n0 (health: driver)" in queued.detail
    record = world.core.state.jobs.records[gang.id]
    assert (record.retries_used, record.node_losses) == (0, 1)


def test_requeue_takes_jobs_whose_pods_are_starting_and_those_of_one_device_alone() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    starting, other = world.submit("starting"), running(world, "other")
    ask(world, "n0-gpu-0", kind="device", running=REQUEUE, by="health")
    world.settle()
    assert (world.phase(starting), world.phase(other)) == (Phase.STOPPING, Phase.RUNNING)


def test_what_is_asked_again_counts_from_then_on() -> None:
    world = VirtualScheduler(nodes=1)
    one = running(world)
    ask(world, "n0")
    world.settle()
    assert world.phase(one) is Phase.RUNNING
    ask(world, "n0", running=REQUEUE)
    world.settle()
    assert world.phase(one) is Phase.STOPPING


def test_a_success_that_passed_the_stop_stays_one() -> None:
    world = VirtualScheduler(nodes=1)
    one = running(world)
    ask(world, "n0", running=REQUEUE)
    world.settle()
    world.exited(one, PodsOutcome.SUCCEEDED)
    assert world.phase(one) is Phase.SUCCEEDED


def test_a_decision_that_was_not_stored_is_made_again() -> None:
    world = VirtualScheduler(nodes=1)
    running(world)
    ask(world, "n0", running=REQUEUE)
    first, again = world.core.decide(world.now), world.core.decide(world.now)
    assert [draft.name for draft in first] == ["stop-requested"]
    assert again == first


# --- cordon, drain, resume


def test_a_cordoned_node_takes_nothing_new_and_its_jobs_run_on() -> None:
    world = VirtualScheduler(nodes=1)
    one = running(world, **MOVABLE)
    person(world, "n0", "cordon")
    two = world.submit("two")
    world.advance(DAY)
    assert (world.phase(one), world.phase(two)) == (Phase.RUNNING, Phase.QUEUED)
    person(world, "n0", "resume")
    assert world.phase(two) is Phase.PLACED


def test_draining_moves_who_allows_it_and_never_kills() -> None:
    world = VirtualScheduler(nodes=1, gpus=2)
    moves, stays = running(world, "moves", **MOVABLE), running(world, "stays", min_slice_s=0, total_run_time_s=30 * DAY)
    person(world, "n0", "drain")
    checkpointed(world, moves)
    assert "moved off node n0 (ada: smells of smoke)" in stop(world, moves).detail
    world.advance(DAY)
    assert world.phase(stays) is Phase.RUNNING


def test_who_cordons_what_is_drained_stops_the_draining() -> None:
    world = VirtualScheduler(nodes=1)
    one = running(world, **MOVABLE)
    person(world, "n0", "drain")
    person(world, "n0", "cordon")
    world.advance(DAY)
    assert world.phase(one) is Phase.RUNNING


def test_what_services_withhold_stands_when_a_person_resumes() -> None:
    world = VirtualScheduler(nodes=1)
    person(world, "n0", "cordon")
    ask(world, "n0")
    world.settle()
    person(world, "n0", "resume")
    assert world.phase(world.submit("one")) is Phase.QUEUED


def test_a_cordon_outlasts_the_loss_of_the_node_and_a_checkpoint() -> None:
    world = VirtualScheduler(nodes=1)
    person(world, "n0", "drain")
    world.lose("n0")
    world.back("n0")
    assert world.phase(world.submit("one")) is Phase.QUEUED
    for core in (world.refold(), world.recover()):
        cordon = core.state.nodes["n0"].cordon
        assert cordon is not None
        assert (cordon.principal, cordon.draining) == ("ada", True)
        assert ("node", "n0") in core.state.drains.vacated
