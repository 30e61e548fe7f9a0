"""What each fact changes of what jobs hold."""

import pytest

from kit.holds import JOB, NODE, OTHER, Told, chosen, counted
from muster.cluster import FREEING_FACTS, Hold, HoldChange, Holds
from muster.schemas import ids
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job import (
    JobPlaced,
    JobResizeRequested,
    JobRunning,
    JobState,
    JobStopRequested,
    PodsExited,
    PodsOutcome,
    PodsState,
    StopReason,
)
from muster.schemas.facts.node import NodeJoined, NodeLeft, NodeLost, Withheld
from muster.schemas.job import Job, JobSpec, Phase, Slot, TaskGroup

HERE, THERE = chosen("n1", 0), chosen("n2", 0, replica=1)


def state(**fields: object) -> JobState:
    spec = JobSpec(name="train", team="lab", task_groups=(TaskGroup(),))
    job = Job(id=JOB, spec=spec, principal="ada", idempotency_key="k", body_hash="")
    return JobState.model_validate({"job": job, "phase": Phase.RUNNING, "started_fact": "f", "placed_at": 7, **fields})


# --- from `placed` to the end ----------------------------------------------------------------------------------------


def test_a_job_holds_its_slots_from_the_placement_on() -> None:
    told = Told()
    assert told.placed(HERE, THERE) == HoldChange(JOB, taken=(HERE, THERE))
    assert told.holds.jobs[JOB].held == (HERE, THERE)
    assert told.holds.jobs_on("n1") == told.holds.jobs_on("n2") == (JOB,)
    assert dict(told.holds.slots_on("n2")) == {JOB: [THERE]}
    assert told.holders("gpu-a") == ((JOB,), ())
    assert told.holders("gpu-b") == ((), ())


@pytest.mark.parametrize("name", [name for name in FREEING_FACTS if name not in ("queued", "returned")])
def test_a_job_that_is_over_holds_nothing(name: str) -> None:
    told = Told()
    told.placed(HERE, THERE)
    assert told.ended(name) == HoldChange(JOB, freed=(HERE, THERE))
    assert told.holds.jobs == {}
    assert told.holds.jobs_on("n1") == told.holds.jobs_on("n2") == ()


def test_a_job_that_waits_again_holds_nothing_until_it_is_placed_again() -> None:
    told = Told()
    told.placed(HERE, THERE)
    assert told.queued() == HoldChange(JOB, freed=(HERE, THERE))
    assert told.holds.jobs_on("n1") == ()
    told.placed(THERE, attempt=2)
    assert told.holds.jobs[JOB].attempt == 2
    assert (told.holds.jobs_on("n1"), told.holds.jobs_on("n2")) == ((), (JOB,))


def test_a_job_that_the_federation_takes_back_holds_nothing() -> None:
    told = Told()
    told.placed(HERE)
    told.tell("returned", JobReturned(assignment=1))
    assert told.holds.jobs == {}


def test_slots_stay_held_after_the_pods_exited_and_nothing_uses_them() -> None:
    told = Told()
    told.placed(HERE)
    told.exited()
    assert told.holds.jobs_on("n1") == (JOB,)
    assert told.holders("gpu-a") == ((JOB,), ())
    assert told.holds.jobs[JOB].has_exited
    assert told.holds.devices_in_use("n1", {0: "gpu-a"}) == {}


def test_a_preempted_job_holds_its_slots_until_it_waits_again() -> None:
    told = Told()
    told.placed(HERE)
    told.tell("running", JobRunning(attempt=1))
    stop = JobStopRequested(attempt=1, reason=StopReason.PREEMPTED, made_way_for=OTHER)
    assert told.tell("stop-requested", stop) is None
    assert told.holds.jobs_on("n1") == (JOB,)
    told.exited()
    told.queued()
    assert told.holds.jobs_on("n1") == ()


def test_a_placement_of_a_job_that_holds_something_is_counted_and_changes_nothing() -> None:
    told = Told()
    told.placed(HERE)
    assert told.placed(THERE, attempt=2) is None
    assert told.holds.jobs[JOB].held == (HERE,)
    assert told.holds.anomalies == {"placed": 1}


# --- nodes and devices -----------------------------------------------------------------------------------------------


def test_what_is_held_on_a_node_that_is_lost_or_left_stays_held() -> None:
    told = Told()
    told.placed(HERE)
    told.tell("lost", NodeLost(), kind="node", job="n1")
    told.tell("left", NodeLeft(), kind="node", job="n1")
    assert told.holds.jobs_on("n1") == (JOB,)
    assert told.holds.jobs[JOB].held == (HERE,)


def test_a_device_taken_by_force_is_held_by_nobody_and_the_slot_stays_held() -> None:
    told = Told()
    told.placed(HERE)
    told.tell("withheld", Withheld(request_id="r", forced=True, holders=(JOB,)), kind="device", job="gpu-a")
    left = {uuid: index for uuid, index in NODE.items() if index}
    assert told.holds.device_holders("n1", "gpu-a", left).all == ()
    assert told.holds.jobs[JOB].held == (HERE,)


def test_a_device_may_be_shared() -> None:
    told = Told()
    told.placed(chosen("n1", 2, milli=300))
    told.placed(chosen("n1", 2, milli=500), job=OTHER)
    assert told.holders("gpu-c") == ((JOB, OTHER), ())
    assert told.holds.devices_in_use("n1", {2: "gpu-c"}) == {"gpu-c": {JOB: 300, OTHER: 500}}


def test_a_place_whose_device_is_absent_is_used_by_nobody() -> None:
    told = Told()
    told.placed(chosen("n1", 0, 1))
    described = NodeJoined(cpu_milli=1, memory_mib=1, gpu_uuids=("gpu-a", "empty"), absent=(1,))
    assert told.holds.devices_in_use("n1", described.present) == {"gpu-a": {JOB: 1000}}


# --- resizes ---------------------------------------------------------------------------------------------------------


def test_a_job_that_grows_holds_its_new_slots_from_the_request_on() -> None:
    told = Told()
    told.placed(HERE)
    assert told.resizing(HERE, THERE) == HoldChange(JOB, taken=(THERE,))
    hold = told.holds.jobs[JOB]
    assert (hold.slots, hold.incoming, hold.held, hold.is_resizing) == ((HERE,), (THERE,), (HERE, THERE), True)
    assert told.holds.jobs_on("n2") == (JOB,)
    assert told.resized(HERE, THERE) is None
    assert (hold.slots, hold.incoming, hold.is_resizing) == ((HERE, THERE), (), False)


def test_what_a_job_gives_up_stays_held_until_it_is_resized() -> None:
    told = Told()
    told.placed(HERE, THERE)
    assert told.resizing(HERE) is None
    assert told.holds.jobs[JOB].held == (HERE, THERE)
    assert told.holds.jobs_on("n2") == (JOB,)
    assert told.resized(HERE) == HoldChange(JOB, freed=(THERE,))
    assert told.holds.jobs_on("n2") == ()


def test_a_job_that_shrinks_on_one_node_keeps_the_rest_there() -> None:
    told = Told()
    told.placed(HERE, chosen("n1", 1, replica=1))
    told.resizing(HERE)
    told.resized(HERE)
    assert dict(told.holds.slots_on("n1")) == {JOB: [HERE]}


def test_a_job_that_waits_again_while_it_is_resized_gives_up_old_and_new_slots() -> None:
    told = Told()
    told.placed(HERE)
    told.resizing(HERE, THERE)
    assert told.queued() == HoldChange(JOB, freed=(HERE, THERE))
    assert told.holds.jobs_on("n2") == ()


def test_a_slot_of_which_the_scheduler_moved_the_places_is_the_same_slot() -> None:
    told = Told()
    told.placed(counted("n1", places=(2,)), counted("n1", replica=1, places=(3,)))
    told.resizing(counted("n1", replica=1, places=(0,)))
    assert sum(slot.gpu_milli_held for slot in told.holds.jobs[JOB].held) == 2000
    told.resized(counted("n1", replica=1, places=(0,)))
    assert [slot.replica for slot in told.holds.slots_on("n1")[JOB]] == [1]


def test_a_second_request_while_one_is_under_way_is_counted_and_changes_nothing() -> None:
    told = Told()
    told.placed(HERE)
    told.resizing(HERE, THERE)
    assert told.resizing(HERE) is None
    assert told.holds.jobs[JOB].incoming == (THERE,)
    assert told.holds.anomalies == {"resize-requested": 1}


# --- devices that the kubelet picks ----------------------------------------------------------------------------------


def test_a_device_that_the_kubelet_picked_is_held_by_the_job_that_was_seen_with_it() -> None:
    told = Told()
    told.placed(counted("n1", 2))
    told.started(("gpu-b", "gpu-d"))
    assert told.holders("gpu-b") == told.holders("gpu-d") == ((JOB,), ())
    assert told.holders("gpu-a") == ((), ())
    assert told.holds.devices_in_use("n1", {}) == {"gpu-b": {JOB: 1000}, "gpu-d": {JOB: 1000}}


def test_before_its_devices_are_known_a_job_may_hold_any_device_of_its_node() -> None:
    told = Told()
    told.placed(counted("n1"))
    told.placed(chosen("n1", 0), job=OTHER)
    assert told.holders("gpu-a") == ((OTHER,), (JOB,))
    assert told.holders("gpu-d") == ((), (JOB,))
    assert told.holders("gpu-d", node="n2") == ((), ())
    assert told.holds.devices_in_use("n1", {0: "gpu-a", 3: "gpu-d"}) == {"gpu-a": {OTHER: 1000}}


def test_places_of_a_slot_are_no_devices() -> None:
    told = Told()
    told.placed(counted("n1", places=(0,)))
    told.started(("gpu-d",))
    assert told.holders("gpu-a") == ((), ())


def test_a_report_of_some_of_the_devices_says_nothing_of_any() -> None:
    """Nobody can say which devices the pods have of which nothing was reported."""
    told = Told()
    told.placed(counted("n1"), counted("n2", replica=1))
    told.started(("gpu-a",), ())
    assert told.holders("gpu-a") == told.holders("gpu-b") == ((), (JOB,))
    assert told.holders("gpu-a", node="n2") == ((), (JOB,))


def test_devices_of_one_node_are_known_whatever_another_node_shows() -> None:
    """The second node shows places, so that a UUID there matches none of them."""
    told = Told()
    told.placed(counted("n1"), counted("n2", replica=1))
    told.started(("gpu-a",), ("real-gpu",))
    assert told.holders("gpu-a") == ((JOB,), ())
    assert told.holders("gpu-b") == ((), ())
    assert told.holders("gpu-a", node="n2") == ((), (JOB,)), "a place may be any of its devices"
    assert told.holders("real-gpu", node="n2") == ((JOB,), ()), "an exporter names the device itself"
    assert told.holders("other-real-gpu", node="n2") == ((), ())


def test_a_job_whose_picked_device_is_gone_may_hold_any_other_of_that_node() -> None:
    told = Told()
    told.placed(counted("n1"))
    told.started(("gpu-a",))
    assert told.holds.device_holders("n1", "gpu-b", {"gpu-b": 1}).possible == (JOB,)


def test_a_gang_has_picked_devices_beside_chosen_ones() -> None:
    told = Told()
    told.placed(chosen("n1", 2), counted("n2", replica=1))
    told.started(("gpu-c",), ("gpu-d",))
    assert told.holders("gpu-c") == ((JOB,), ())
    assert told.holders("gpu-d", node="n2") == ((JOB,), ())
    assert told.holders("gpu-c", node="n2") == ((), ())


def test_shares_of_one_picked_device_add_up() -> None:
    told = Told()
    told.placed(counted("n1", milli=250), counted("n1", replica=1, milli=250))
    told.started(("gpu-a",), ("gpu-a",))
    assert told.holds.devices_in_use("n1", {}) == {"gpu-a": {JOB: 500}}


def test_picked_devices_stay_known_while_a_job_is_asked_to_shrink() -> None:
    told = Told()
    told.placed(counted("n1"), counted("n2", replica=1))
    told.started(("gpu-a",), ("gpu-b",))
    told.resizing(counted("n1"))
    assert told.holders("gpu-a") == ((JOB,), ())
    assert told.holders("gpu-b", node="n2") == ((JOB,), ())


def test_after_a_resize_nobody_knows_which_devices_the_kubelet_picked() -> None:
    told = Told()
    told.placed(counted("n1"), counted("n2", replica=1))
    told.started(("gpu-a",), ("gpu-b",))
    told.resizing(counted("n1"))
    told.resized(counted("n1"))
    assert told.holders("gpu-a") == told.holders("gpu-b") == ((), (JOB,))
    assert told.holders("gpu-b", node="n2") == ((), ())


def test_observations_of_an_earlier_run_are_counted_and_change_nothing() -> None:
    told = Told()
    told.placed(counted("n1"), attempt=2)
    told.started(("gpu-a",), attempt=1)
    told.exited(attempt=1)
    assert told.holders("gpu-b") == ((), (JOB,))
    assert not told.holds.jobs[JOB].has_exited
    assert told.holds.anomalies == {"pods-started": 1, "pods-exited": 1}


def test_a_start_that_is_told_twice_counts_once() -> None:
    told = Told()
    told.placed(counted("n1"))
    told.started(("gpu-a",))
    told.started(("gpu-b",))
    assert told.holders("gpu-a") == ((JOB,), ())
    assert told.holds.anomalies == {"pods-started": 1}


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_checkpoint_says_what_a_job_holds() -> None:
    told = Told()
    assert told.tell("state-recorded", state(slots=(HERE, THERE))) == HoldChange(JOB, taken=(HERE, THERE))
    assert told.holds.jobs[JOB] == Hold(1, (HERE, THERE), 7, has_started=True)
    assert told.holds.jobs_on("n2") == (JOB,)


def test_a_checkpoint_says_what_a_job_grows_into_and_that_its_pods_exited() -> None:
    told = Told()
    resize = JobResizeRequested(attempt=1, slots=(HERE, THERE))
    exited = PodsExited(attempt=1, outcome=PodsOutcome.STOPPED)
    told.tell("state-recorded", state(slots=(HERE,), resize=resize, exited=exited))
    hold = told.holds.jobs[JOB]
    assert (hold.incoming, hold.is_resizing, hold.has_exited) == ((THERE,), True, True)
    assert told.holds.jobs_on("n2") == (JOB,)


def test_a_checkpoint_says_which_devices_the_kubelets_picked_in_the_order_of_the_slots() -> None:
    told = Told()
    slots = (chosen("n1", 2), counted("n1", replica=1), counted("n2", replica=2))
    told.tell("state-recorded", state(slots=slots, picked=("gpu-c", "gpu-d", "gpu-a")))
    assert told.holders("gpu-d") == ((JOB,), ())
    assert told.holders("gpu-a", node="n2") == ((JOB,), ())


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in ("placed", "running", "stopping")])
def test_a_checkpoint_of_a_job_that_waits_or_is_over_says_nothing_of_holds(phase: Phase) -> None:
    told = Told()
    told.tell("state-recorded", state(phase=phase, slots=(HERE,)))
    assert told.holds.jobs == {}


def test_the_agents_part_of_a_checkpoint_says_nothing_of_holds() -> None:
    told = Told()
    told.tell("state-recorded", PodsState(attempt=1, job_id=JOB, exited=True))
    assert (told.holds.jobs, told.holds.anomalies) == ({}, {})


# --- work ------------------------------------------------------------------------------------------------------------


def test_facts_of_other_kinds_and_names_are_passed_over() -> None:
    told = Told()
    assert told.tell("placed", JobPlaced(attempt=1, slots=(HERE,)), kind="else") is None
    assert told.tell("unheard-of", JobPlaced(attempt=1, slots=(HERE,))) is None
    assert (told.holds.jobs, told.holds.anomalies) == ({}, {})


def test_what_is_freed_leaves_nothing_behind() -> None:
    told = Told()
    for number in range(50):
        job = ids.job_id(team="lab", principal="ada", idempotency_key=str(number))
        told.placed(Slot(group=0, replica=0, node=f"n{number}"), job=job)
        told.ended("succeeded", job=job)
    assert picture(told.holds) == picture(Holds())


def picture(holds: Holds) -> object:
    return holds.jobs, holds._on
