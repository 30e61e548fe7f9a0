"""When a choice is over: carried out, refused, failed or overdue."""

from muster.core import Fact
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job import JobRouted
from muster.schemas.facts.node import WithholdWithdrawn
from muster.schemas.facts.scale import ProvisionFailed, ScaleChosen, ScaleEnded
from unit.scaler.scaling_world import CLUSTER, World, composable, config, ordinary
from unit.scaler.test_case_add import busy


def attaching(*, pool: int = 4, replicas: int = 2) -> tuple[World, Fact]:
    """A gang for which GPUs were chosen."""
    world = World(config(composable()), pool=pool)
    busy(world)
    world.submit("gang", replicas=replicas, cpu_milli=1_000)
    (chosen,) = world.run()
    return world, chosen


def adding() -> tuple[World, Fact]:
    """A job for which a node was chosen."""
    world = World(config(ordinary(provision_s=60), node_provision_s_max=900, delay_after_failure_s=180))
    world.submit("one", reason="no-node")
    (chosen,) = world.run()
    return world, chosen


def ended(facts: list[Fact]) -> ScaleEnded:
    """How the choice ended; nothing else was decided."""
    assert [fact.name for fact in facts] == ["ended"]
    assert isinstance(facts[0].payload, ScaleEnded)
    return facts[0].payload


def test_an_attachment_is_done_when_all_its_devices_may_be_used() -> None:
    world, chosen = attaching()
    first, second = world.accept(chosen)
    world.later(40)
    world.online(first)
    assert world.run() == []
    world.later(2)
    world.online(second)
    end = ended(world.run())
    assert (end.failed, end.took_s) == (False, 42)
    assert not world.core.state.choices.open


def test_a_refusal_by_the_composer_ends_it_and_its_fabric_rests() -> None:
    world, chosen = attaching()
    world.refuse(chosen.subject_id, field="size", reason="3 asked, 2 in the pool")
    end = ended(world.run()[:1])
    assert end.failed
    assert end.reason == "size: 3 asked, 2 in the pool"
    said = world.log[-1]
    assert said.name in ("node-add-chosen", "nothing-chosen"), "no GPU of that fabric for a while"
    assert any("tried again in 180 s" in one.detail for one in said.payload.alternatives)


def test_after_a_while_the_fabric_is_tried_again() -> None:
    world = World(config(composable(nodes_max=1)), pool=4)
    busy(world)
    world.submit("one")
    (chosen,) = world.run()
    world.refuse(chosen.subject_id)
    assert [fact.name for fact in world.run()] == ["ended", "nothing-chosen"]
    world.later(179)
    assert world.run() == []
    wake = world.core.next_wakeup()
    assert wake is not None
    world.now = wake
    assert [fact.name for fact in world.run()] == ["gpu-attach-chosen"]


def test_an_attachment_that_takes_too_long_failed() -> None:
    world, chosen = attaching()
    world.accept(chosen)
    world.later(959)
    assert world.run() == []
    world.later(1)
    end = ended(world.run()[:1])
    assert end.failed
    assert "not all devices can be used after 960 s" in end.reason


def test_a_node_is_done_when_it_is_released() -> None:
    world, chosen = adding()
    world.join("ord", 1, gpus=2, release=False)
    assert world.run() == []
    world.release("node", "ord-0001")
    end = ended(world.run())
    assert not end.failed
    assert world.log[-1].causes[0] == chosen.id


def test_a_node_that_could_not_be_provided_ends_it_and_its_group_rests() -> None:
    world, chosen = adding()
    world.say(
        "agent", "node", "ord-0001", "provision-failed", ProvisionFailed(scale=chosen.subject_id, reason="no host")
    )
    facts = world.run()
    assert [fact.name for fact in facts] == ["ended", "nothing-chosen"]
    assert facts[0].payload.reason == "no host"
    world.later(180)
    assert [fact.name for fact in world.run()] == ["node-add-chosen"]


def test_a_node_that_does_not_come_is_overdue() -> None:
    world, _ = adding()
    world.later(899)
    assert world.run() == []
    world.later(1)
    assert world.run()[0].payload.reason == "the node is not there and released after 900 s"


def removing() -> World:
    """A node that is to go."""
    world = World(config(ordinary(), withhold_s=30))
    world.join("ord", 1, gpus=2)
    chosen = ScaleChosen(case=3, group="ord", node="ord-0001", request_id="s000001")
    world.say("scaler", "scale", "s000001", "node-remove-chosen", chosen)
    return world


def test_a_node_that_does_not_come_free_may_be_used_again() -> None:
    world = removing()
    world.later(30)
    end, back = world.run()
    assert (end.name, end.payload.failed, back.name, back.subject_id) == (
        "ended",
        True,
        "withhold-withdrawn",
        "ord-0001",
    )
    assert isinstance(back.payload, WithholdWithdrawn)
    assert (back.payload.request_id, back.payload.after_withheld) == ("s000001", False)


def test_a_node_that_was_given_has_the_time_of_a_provision_to_go() -> None:
    world = removing()
    world.withheld("node", "ord-0001", "s000001")
    world.later(30)
    assert world.run() == []
    world.leave("ord-0001")
    assert not ended(world.run()).failed


def test_a_node_that_was_given_and_stays_is_given_back() -> None:
    world = removing()
    world.withheld("node", "ord-0001", "s000001")
    world.later(900)
    _, back = world.run()
    assert isinstance(back.payload, WithholdWithdrawn)
    assert back.payload.after_withheld


def test_a_removal_of_devices_is_done_when_they_are_back_in_the_pool() -> None:
    world = World(config(composable()))
    world.survey(free=0, attached=1)
    world.join("comp", 1, gpus=1)
    (uuid,) = world.nodes["comp-0001"].description.gpu_uuids
    chosen = ScaleChosen(case=3, group="comp", node="comp-0001", devices=(uuid,))
    world.say("scaler", "scale", "s000001", "gpu-remove-chosen", chosen)
    assert world.run() == []
    world.detach(uuid)
    assert not ended(world.run()).failed
    assert world.core.state.pool.free("f0", "H100") == 1


def test_gpus_that_move_have_the_time_to_go_and_to_come() -> None:
    bounds = {"withhold_s": 30, "detach_s_max": 100, "attach_s_max": 200, "visible_s_max": 40}
    world = World(config(composable(nodes_max=2), gpu_idle_s=60, node_unneeded_s=10_000, **bounds), pool=0)
    world.survey(free=0)
    donor = world.join("comp", 1, gpus=1)
    world.join("comp", 2)
    world.fill("hog", donor, (), cpu_milli=15_000)
    world.later(60)
    world.submit("one", cpu_milli=4_000)
    (chosen,) = world.run()
    assert isinstance(chosen.payload, ScaleChosen)
    assert chosen.payload.devices
    world.later(30 + 100 + 200 + 40 + 59)
    assert world.run() == []
    world.later(1)
    assert ended(world.run()[:1]).failed


def test_gpus_from_the_pool_have_the_composers_time_to_come() -> None:
    world = World(config(composable(), attach_s_max=1_000, visible_s_max=500), pool=1)
    busy(world)
    world.submit("one")
    (chosen,) = world.run()
    world.accept(chosen)
    world.later(1_559)
    assert world.run() == []
    world.later(1)
    assert ended(world.run()[:1]).failed


def test_nothing_is_brought_for_a_job_that_was_given_back_to_the_federation() -> None:
    world = World(config(composable()), pool=4)
    world.join("comp", 0)
    one = world.submit("one")
    world.say("scheduler", "job", one.id, "returned", JobReturned(assignment=1))
    assert one.id not in world.core.state.jobs.records
    for _ in range(5):
        world.later(120)
        assert world.run() == []


def test_a_job_that_comes_back_is_asked_for_again() -> None:
    world = World(config(composable()), pool=4)
    world.join("comp", 0)
    one = world.submit("one")
    world.say("scheduler", "job", one.id, "returned", JobReturned(assignment=1))
    world.say("federation", "job", one.id, "routed", JobRouted(job=one, cluster=CLUSTER, assignment=3))
    assert one.id in world.core.state.jobs.records
    assert not world.core.state.anomalies
