"""Which waiting jobs are served, in which order, and when one counts again."""

import dataclasses

from muster.schemas.facts.job import JobCancelRequested, JobReserved
from muster.schemas.facts.job_wishes import JobHeld
from muster.schemas.facts.node import NodeLost
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.job import Job
from unit.scaler.scaling_world import FABRIC, MODEL, World, composable, config, ordinary
from unit.scaler.test_case_add import busy


def served(world: World) -> list[str]:
    """Jobs for which something was chosen, in that order."""
    return [job for fact in world.log if isinstance(fact.payload, ScaleChosen) for job in fact.payload.jobs]


def names(*jobs: Job) -> list[str]:
    return [job.id for job in jobs]


def test_jobs_are_served_in_the_order_in_which_they_were_queued() -> None:
    world = World(config(composable(nodes_max=1)), pool=2)
    busy(world)
    late, early = world.submit("a", reason=""), world.submit("b", reason="")
    third = world.submit("c")
    world.told(early, "gpu")
    world.told(late, "gpu")
    world.run()
    assert served(world) == names(late, early)
    assert third.id in world.core.state.refused


def test_no_job_is_served_that_quota_would_not_admit() -> None:
    world = World(config(composable()), pool=4, queues=())
    world.queue("lab", quota={"gpu_milli": 2_000}, borrowing_limit={"gpu_milli": 0})
    busy(world)
    one = world.submit("one")
    world.submit("two")
    world.run()
    assert served(world) == names(one), "one GPU is held and one is on its way: that is all the quota"


def test_a_queue_without_quota_of_the_model_gets_none_of_it() -> None:
    world = World(config(composable()), pool=4, queues=())
    world.queue("lab", quota={"gpu_milli:H100": 1_000}, borrowing_limit={"gpu_milli:H100": 0})
    busy(world)
    world.submit("one", gpu_models=(MODEL,))
    world.run()
    assert served(world) == []


def test_another_queue_is_served_while_one_is_at_its_limit() -> None:
    world = World(config(composable()), pool=4, queues=("free",))
    world.queue("lab", quota={"gpu_milli": 1_000}, borrowing_limit={"gpu_milli": 0})
    busy(world)
    world.submit("one")
    other = world.submit("other", queue="free")
    world.run()
    assert served(world) == names(other)


def test_more_quota_serves_who_was_not_admitted() -> None:
    world = World(config(composable()), pool=4, queues=())
    world.queue("lab", quota={"gpu_milli": 1_000}, borrowing_limit={"gpu_milli": 0})
    busy(world)
    one = world.submit("one")
    world.run()
    world.queue("lab", quota={"gpu_milli": 2_000}, borrowing_limit={"gpu_milli": 0})
    world.run()
    assert served(world) == names(one)


def test_a_reason_that_scaling_cannot_cure_is_no_demand() -> None:
    world = World(config(composable()), pool=4)
    busy(world)
    for reason in ("quota", "borrowing-limit", "non-preemptible", "behind", "reservation"):
        world.submit(reason, reason=reason)
    world.run()
    assert served(world) == []


def test_nodes_that_are_not_well_are_waited_for_before_others_are_thought_of() -> None:
    world = World(config(composable()), pool=4)
    busy(world)
    one = world.submit("one", reason="health")
    assert world.run() == []
    wake = world.core.next_wakeup()
    assert wake is not None
    world.now = wake
    world.run()
    assert served(world) == names(one)


def test_a_job_for_which_others_make_way_is_no_demand() -> None:
    world = World(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    reserved = JobReserved(attempt=1, slots=(), starts_at=world.now, victims=(one.id,))
    world.say("scheduler", "job", one.id, "reserved", reserved)
    assert world.run() == []


def test_a_cancelled_job_is_no_demand() -> None:
    world = World(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    world.say("federation", "job", one.id, "cancel-forwarded", JobCancelRequested(principal="ada"))
    assert world.run() == []


def test_a_held_job_is_no_demand_until_it_is_released_and_told_again_why_it_waits() -> None:
    world = World(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    held = JobHeld(principal="ada")
    world.say("scheduler", "job", one.id, "held", held)
    assert world.run() == []
    world.say("scheduler", "job", one.id, "unheld", held)
    assert world.run() == []
    world.told(one, "gpu", "gpu: none free")
    world.run()
    assert served(world) == names(one)


def test_what_is_on_its_way_for_a_held_job_is_there_for_others() -> None:
    world = World(config(composable()), pool=4)
    busy(world)
    first = world.submit("first")
    world.run()
    world.say("scheduler", "job", first.id, "held", JobHeld(principal="ada"))
    world.submit("second")
    assert world.run() == [], "the device that comes for the first is enough for the second"


def test_a_checkpoint_says_who_is_held() -> None:
    world = World(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    world.jobs[one.id] = dataclasses.replace(world.jobs[one.id], held=JobHeld(principal="ada"))
    assert world.recover().decide(world.now) == []


def test_a_job_is_served_once_while_its_choice_is_open() -> None:
    world = World(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    world.run()
    world.later(30)
    world.told(one, "gpu", "gpu: fewer")
    assert world.run() == []


def test_a_job_that_fits_on_what_is_on_its_way_needs_nothing_of_its_own() -> None:
    world = World(config(composable()), pool=4)
    busy(world)
    first = world.submit("first")
    world.run()
    world.say("federation", "job", first.id, "cancel-forwarded", JobCancelRequested(principal="ada"))
    world.submit("second")
    assert world.run() == [], "the device that comes for the first is enough for the second"


def test_who_fits_already_takes_his_place_from_those_behind_him() -> None:
    world = World(config(composable()), pool=4)
    world.join("comp", 1, gpus=1)
    world.submit("first")
    second = world.submit("second")
    world.run()
    assert served(world) == names(second)


def test_what_is_on_its_way_is_kept_for_whom_it_was_chosen() -> None:
    world = World(config(composable()), pool=4)
    busy(world)
    first = world.submit("first")
    (chosen,) = world.run()
    (name,) = world.accept(chosen)
    world.attached(name)
    second = world.submit("second")
    world.run()
    assert served(world) == names(first, second)


def test_a_device_that_joined_and_is_not_released_counts_as_there() -> None:
    world = World(config(composable()), pool=4)
    world.join("comp", 1, gpus=1, release=False)
    world.submit("one")
    assert world.run() == []


def test_many_jobs_of_one_shape_get_what_there_is_in_one_decision() -> None:
    world = World(config(composable(gpus_max=8)), pool=5)
    busy(world)
    for index in range(40):
        world.submit(f"j{index}", cpu_milli=100)
    facts = world.step()
    assert [fact.name for fact in facts] == ["gpu-attach-chosen"] * 5 + ["nothing-chosen"]


def test_a_shape_for_which_nothing_helped_costs_one_look_until_something_changed(monkeypatch: object) -> None:
    world = World(config(composable(nodes_max=1)))
    busy(world)
    for index in range(200):
        world.submit(f"j{index}")
    world.run()
    tried = dict(world.core._serving._tried)
    assert len(tried) == 1
    world.later(60)
    world.submit("more")
    world.run()
    assert world.core._serving._tried == tried, "not looked at again"
    world.survey(free=1)
    world.run()
    assert world.core._serving._tried != tried


def test_places_that_come_free_are_looked_at_after_a_while() -> None:
    world = World(config(composable(nodes_max=1)), pool=1)
    node = world.join("comp", 1, gpus=1)
    holder = world.fill("busy", node, (0,), cpu_milli=15_500)
    other = world.submit("other", reason="cpu", gpus=2, cpu_milli=15_000)
    world.run()
    assert served(world) == []
    world.end(holder)
    assert served(world) == []
    world.later(5)
    world.run()
    assert served(world) == names(other)


def test_a_job_counts_again_a_while_after_its_choice_was_carried_out() -> None:
    world = World(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    (chosen,) = world.run()
    (name,) = world.accept(chosen)
    world.online(name)
    (ended,) = world.run()
    assert ended.name == "ended"
    world.fill("thief", "comp-0001", (1,), cpu_milli=100)
    assert world.run() == []
    wake = world.core.next_wakeup()
    assert wake is not None
    world.now = wake
    world.run()
    assert served(world) == names(one, one)


def test_a_placed_job_is_no_demand_any_more() -> None:
    world = World(config(composable()), pool=4)
    busy(world)
    one = world.submit("one")
    (chosen,) = world.run()
    world.online(*world.accept(chosen))
    world.place(one, ("comp-0001", (1,)))
    assert [fact.name for fact in world.run()] == ["ended"]
    world.later(3_600)
    assert not world.core.state.demand.lines


def test_nothing_is_decided_without_groups() -> None:
    world = World(config())
    world.submit("one")
    assert world.core.decide(world.now) == []
    assert world.core.next_wakeup() is None
    assert not world.core.state.jobs.records, "and nothing is kept for it"


def test_deciding_twice_says_the_same_and_leaves_the_fleet_as_it_was() -> None:
    world = World(config(composable(), ordinary()), pool=4)
    busy(world)
    world.submit("one")
    world.submit("large", reason="memory", memory_mib=200_000)
    world.submit("gang", replicas=2)
    first = world.core.decide(world.now)
    ledger = world.core.state.books.fleet.ledger
    before = {name: (tuple(node.idle), node.cpu_milli, node.shape) for name, node in ledger.nodes.items()}
    assert world.core.decide(world.now) == first
    assert {name: (tuple(node.idle), node.cpu_milli, node.shape) for name, node in ledger.nodes.items()} == before
    assert before.keys() == {"comp-0001"}
    assert before["comp-0001"][0] == (0,)
    assert world.core.state.pool_left(FABRIC, MODEL) == 4


def test_a_job_that_fitted_is_looked_at_when_another_took_its_place() -> None:
    world = World(config(composable()), pool=4)
    node = world.join("comp", 1, gpus=1)
    first = world.submit("first")
    assert world.run() == []
    world.fill("thief", node, (0,), cpu_milli=1_000)
    world.run()
    assert served(world) == names(first)


def test_a_job_that_fitted_is_looked_at_when_the_node_is_lost() -> None:
    world = World(config(composable()), pool=4)
    node = world.join("comp", 1, gpus=1)
    first = world.submit("first")
    assert world.run() == []
    world.say("agent", "node", node, "lost", NodeLost())
    world.run()
    assert served(world) == names(first)


def test_unrelated_facts_start_no_walk_along_the_lines() -> None:
    world = World(config(composable(nodes_max=1)), pool=4)
    busy(world)
    one = world.submit("one", gpus=8, reason="fragmented")
    world.run()
    assert one.id in world.core.state.refused
    world.core._serving._tried.clear()
    world.submit("other", reason="quota")
    assert world.run() == []
    assert not world.core._serving._tried
