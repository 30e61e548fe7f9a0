"""Which waiting jobs are served, in which order, and when one counts again."""

import dataclasses

from kit.scaler import FABRIC, MODEL, VirtualScaler, composable, config, ordinary
from kit.scaler_jobs import busy
from muster.schemas.facts.job import JobCancelRequested, JobReserved
from muster.schemas.facts.job_requests import JobHeld
from muster.schemas.facts.node import NodeLost
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.job import Job


def served(world: VirtualScaler) -> list[str]:
    """Jobs for which something was chosen, in that order."""
    return [job for fact in world.log if isinstance(fact.payload, ScaleChosen) for job in fact.payload.jobs]


def names(*jobs: Job) -> list[str]:
    return [job.id for job in jobs]


def test_jobs_are_served_in_the_order_in_which_they_were_queued() -> None:
    world = VirtualScaler(config(composable(nodes_max=1)), pool=2)
    busy(world)
    late, early = world.submit("a", reason=""), world.submit("b", reason="")
    third = world.submit("c")
    world.told(early, "gpu")
    world.told(late, "gpu")
    world.settle()
    assert served(world) == names(late, early)
    assert third.id in world.core.state.refused


def test_no_job_is_served_that_quota_would_not_admit() -> None:
    world = VirtualScaler(config(composable()), pool=4, queues=())
    world.queue("lab", quota={"gpu_milli": 2_000}, borrowing_limit={"gpu_milli": 0})
    busy(world)
    one = world.submit("one")
    world.submit("two")
    world.settle()
    assert served(world) == names(one), "one GPU is held and one is on its way: that is all the quota"


def test_a_queue_without_quota_of_the_model_gets_none_of_it() -> None:
    world = VirtualScaler(config(composable()), pool=4, queues=())
    world.queue("lab", quota={"gpu_milli:H100": 1_000}, borrowing_limit={"gpu_milli:H100": 0})
    busy(world)
    world.submit("one", gpu_models=(MODEL,))
    world.settle()
    assert served(world) == []


def test_another_queue_is_served_while_one_is_at_its_limit() -> None:
    world = VirtualScaler(config(composable()), pool=4, queues=("free",))
    world.queue("lab", quota={"gpu_milli": 1_000}, borrowing_limit={"gpu_milli": 0})
    busy(world)
    world.submit("one")
    other = world.submit("other", queue="free")
    world.settle()
    assert served(world) == names(other)


def test_more_quota_serves_who_was_not_admitted() -> None:
    world = VirtualScaler(config(composable()), pool=4, queues=())
    world.queue("lab", quota={"gpu_milli": 1_000}, borrowing_limit={"gpu_milli": 0})
    busy(world)
    one = world.submit("one")
    world.settle()
    world.queue("lab", quota={"gpu_milli": 2_000}, borrowing_limit={"gpu_milli": 0})
    world.settle()
    assert served(world) == names(one)


def test_a_reason_that_scaling_cannot_cure_is_no_demand() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    for reason in ("quota", "borrowing-limit", "non-preemptible", "behind", "reservation"):
        world.submit(reason, reason=reason)
    world.settle()
    assert served(world) == []


def test_nodes_that_are_not_well_are_waited_for_before_others_are_thought_of() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    one = world.submit("one", reason="health")
    assert world.settle() == []
    wake = world.core.next_wakeup()
    assert wake is not None
    world.now = wake
    world.settle()
    assert served(world) == names(one)


def test_a_job_for_which_others_make_way_is_no_demand() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    reserved = JobReserved(attempt=1, slots=(), starts_at=world.now, victims=(one.id,))
    world.write("scheduler", "job", one.id, "reserved", reserved)
    assert world.settle() == []


def test_a_cancelled_job_is_no_demand() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    world.write("federation", "job", one.id, "cancel-forwarded", JobCancelRequested(principal="ada"))
    assert world.settle() == []


def test_a_held_job_is_no_demand_until_it_is_released_and_told_again_why_it_waits() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    held = JobHeld(principal="ada")
    world.write("scheduler", "job", one.id, "held", held)
    assert world.settle() == []
    world.write("scheduler", "job", one.id, "unheld", held)
    assert world.settle() == []
    world.told(one, "gpu", "gpu: none free")
    world.settle()
    assert served(world) == names(one)


def test_what_is_on_its_way_for_a_held_job_is_there_for_others() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    first = world.submit("first")
    world.settle()
    world.write("scheduler", "job", first.id, "held", JobHeld(principal="ada"))
    world.submit("second")
    assert world.settle() == [], "the device that comes for the first is enough for the second"


def test_a_checkpoint_says_who_is_held() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    world.jobs[one.id] = dataclasses.replace(world.jobs[one.id], held=JobHeld(principal="ada"))
    assert world.recover().decide(world.now) == []


def test_a_job_is_served_once_while_its_choice_is_open() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    world.settle()
    world.skip(30)
    world.told(one, "gpu", "gpu: fewer")
    assert world.settle() == []


def test_a_job_that_fits_on_what_is_on_its_way_needs_nothing_of_its_own() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    first = world.submit("first")
    world.settle()
    world.write("federation", "job", first.id, "cancel-forwarded", JobCancelRequested(principal="ada"))
    world.submit("second")
    assert world.settle() == [], "the device that comes for the first is enough for the second"


def test_who_fits_already_takes_his_place_from_those_behind_him() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    world.join("comp", 1, gpus=1)
    world.submit("first")
    second = world.submit("second")
    world.settle()
    assert served(world) == names(second)


def test_what_is_on_its_way_is_kept_for_whom_it_was_chosen() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    first = world.submit("first")
    (chosen,) = world.settle()
    (name,) = world.accept(chosen)
    world.attached(name)
    second = world.submit("second")
    world.settle()
    assert served(world) == names(first, second)


def test_a_device_that_joined_and_is_not_released_counts_as_there() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    world.join("comp", 1, gpus=1, release=False)
    world.submit("one")
    assert world.settle() == []


def test_many_jobs_of_one_shape_get_what_there_is_in_one_decision() -> None:
    world = VirtualScaler(config(composable(gpus_max=8)), pool=5)
    busy(world)
    for index in range(40):
        world.submit(f"j{index}", cpu_milli=100)
    facts = world.decide_once("scaler")
    assert [fact.name for fact in facts] == ["gpu-attach-chosen"] * 5 + ["nothing-chosen"]


def test_a_shape_for_which_nothing_helped_costs_one_look_until_something_changed(monkeypatch: object) -> None:
    world = VirtualScaler(config(composable(nodes_max=1)))
    busy(world)
    for index in range(200):
        world.submit(f"j{index}")
    world.settle()
    tried = dict(world.core.policies.pending._backoff._tried)
    assert len(tried) == 1
    world.skip(60)
    world.submit("more")
    world.settle()
    assert world.core.policies.pending._backoff._tried == tried, "not looked at again"
    world.survey(free=1)
    world.settle()
    assert world.core.policies.pending._backoff._tried != tried


def test_places_that_come_free_are_looked_at_after_a_while() -> None:
    world = VirtualScaler(config(composable(nodes_max=1)), pool=1)
    node = world.join("comp", 1, gpus=1)
    holder = world.fill("busy", node, (0,), cpu_milli=15_500)
    other = world.submit("other", reason="cpu", gpus=2, cpu_milli=15_000)
    world.settle()
    assert served(world) == []
    world.end(holder)
    assert served(world) == []
    world.skip(5)
    world.settle()
    assert served(world) == names(other)


def test_a_job_counts_again_a_while_after_its_choice_was_carried_out() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    (chosen,) = world.settle()
    (name,) = world.accept(chosen)
    world.online(name)
    (ended,) = world.settle()
    assert ended.name == "ended"
    world.fill("thief", "comp-0001", (1,), cpu_milli=100)
    assert world.settle() == []
    wake = world.core.next_wakeup()
    assert wake is not None
    world.now = wake
    world.settle()
    assert served(world) == names(one, one)


def test_a_placed_job_is_no_demand_any_more() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    (chosen,) = world.settle()
    world.online(*world.accept(chosen))
    world.place(one, ("comp-0001", (1,)))
    assert [fact.name for fact in world.settle()] == ["ended"]
    world.skip(3_600)
    assert not world.core.state.demand.pending


def test_nothing_is_decided_without_groups() -> None:
    world = VirtualScaler(config())
    world.submit("one")
    assert world.core.decide(world.now) == []
    assert world.core.next_wakeup() is None
    assert not world.core.state.jobs.records, "and nothing is kept for it"


def test_deciding_twice_says_the_same_and_leaves_the_fleet_as_it_was() -> None:
    world = VirtualScaler(config(composable(), ordinary()), pool=4)
    busy(world)
    world.submit("one")
    world.submit("large", reason="memory", memory_mib=200_000)
    world.submit("gang", replicas=2)
    first = world.core.decide(world.now)
    ledger = world.core.state.cluster.fleet.ledger
    before = {name: (tuple(node.idle), node.cpu_milli, node.shape) for name, node in ledger.nodes.items()}
    assert world.core.decide(world.now) == first
    assert {name: (tuple(node.idle), node.cpu_milli, node.shape) for name, node in ledger.nodes.items()} == before
    assert before.keys() == {"comp-0001"}
    assert before["comp-0001"][0] == (0,)
    assert world.core.state.capacity.pool_left(FABRIC, MODEL) == 4


def test_a_job_that_fitted_is_looked_at_when_another_took_its_place() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    node = world.join("comp", 1, gpus=1)
    first = world.submit("first")
    assert world.settle() == []
    world.fill("thief", node, (0,), cpu_milli=1_000)
    world.settle()
    assert served(world) == names(first)


def test_a_job_that_fitted_is_looked_at_when_the_node_is_lost() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    node = world.join("comp", 1, gpus=1)
    first = world.submit("first")
    assert world.settle() == []
    world.write("agent", "node", node, "lost", NodeLost())
    world.settle()
    assert served(world) == names(first)


def test_unrelated_facts_start_no_walk_along_the_lines() -> None:
    world = VirtualScaler(config(composable(nodes_max=1)), pool=4)
    busy(world)
    one = world.submit("one", gpus=8, reason="fragmented")
    world.settle()
    assert one.id in world.core.state.refused
    world.core.policies.pending._backoff._tried.clear()
    world.submit("other", reason="quota")
    assert world.settle() == []
    assert not world.core.policies.pending._backoff._tried
