"""When a choice is over: carried out, refused, failed or overdue."""

from kit.scaler import CLUSTER, VirtualScaler, composable, config, ordinary
from kit.scaler_jobs import busy
from muster.core import Fact
from muster.core.settings import ComposerSettings
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job import JobRouted
from muster.schemas.facts.node import WithholdWithdrawn
from muster.schemas.facts.scale import ProvisionFailed, ScaleChosen, ScaleEnded


def attaching(*, pool: int = 4, replicas: int = 2) -> tuple[VirtualScaler, Fact]:
    """A gang for which GPUs were chosen."""
    world = VirtualScaler(config(composable()), pool=pool)
    busy(world)
    world.submit("gang", replicas=replicas, cpu_milli=1_000)
    (chosen,) = world.settle()
    return world, chosen


def adding() -> tuple[VirtualScaler, Fact]:
    """A job for which a node was chosen."""
    world = VirtualScaler(config(ordinary(provision_s=60), node_provision_s_max=900, delay_after_failure_s=180))
    world.submit("one", reason="no-node")
    (chosen,) = world.settle()
    return world, chosen


def ended(facts: list[Fact]) -> ScaleEnded:
    """How the choice ended; nothing else was decided."""
    assert [fact.name for fact in facts] == ["ended"]
    assert isinstance(facts[0].payload, ScaleEnded)
    return facts[0].payload


def test_an_attachment_is_done_when_all_its_devices_may_be_used() -> None:
    world, chosen = attaching()
    first, second = world.accept(chosen)
    world.skip(40)
    world.online(first)
    assert world.settle() == []
    world.skip(2)
    world.online(second)
    end = ended(world.settle())
    assert (end.failed, end.took_s) == (False, 42)
    assert not world.core.state.choices.open


def test_a_refusal_by_the_composer_ends_it_and_its_fabric_rests() -> None:
    world, chosen = attaching()
    world.refuse(chosen.subject_id, field="size", reason="3 asked, 2 in the pool")
    end = ended(world.settle()[:1])
    assert end.failed
    assert end.reason == "size: 3 asked, 2 in the pool"
    said = world.log[-1]
    assert said.name in ("node-add-chosen", "nothing-chosen"), "no GPU of that fabric for a while"
    assert any("tried again in 180 s" in one.detail for one in said.payload.alternatives)


def test_after_a_while_the_fabric_is_tried_again() -> None:
    world = VirtualScaler(config(composable(nodes_max=1)), pool=4)
    busy(world)
    world.submit("one")
    (chosen,) = world.settle()
    world.refuse(chosen.subject_id)
    assert [fact.name for fact in world.settle()] == ["ended", "nothing-chosen"]
    world.skip(179)
    assert world.settle() == []
    wake = world.core.next_wakeup()
    assert wake is not None
    world.now = wake
    assert [fact.name for fact in world.settle()] == ["gpu-attach-chosen"]


def test_an_attachment_that_takes_too_long_failed() -> None:
    world, chosen = attaching()
    world.accept(chosen)
    world.skip(959)
    assert world.settle() == []
    world.skip(1)
    end = ended(world.settle()[:1])
    assert end.failed
    assert "not all devices can be used after 960 s" in end.reason


def test_a_node_is_done_when_it_is_released() -> None:
    world, chosen = adding()
    world.join("ord", 1, gpus=2, release=False)
    assert world.settle() == []
    world.release("node", "ord-0001")
    end = ended(world.settle())
    assert not end.failed
    assert world.log[-1].causes[0] == chosen.id


def test_a_node_that_could_not_be_provided_ends_it_and_its_group_rests() -> None:
    world, chosen = adding()
    world.write(
        "agent", "node", "ord-0001", "provision-failed", ProvisionFailed(scale=chosen.subject_id, reason="no host")
    )
    facts = world.settle()
    assert [fact.name for fact in facts] == ["ended", "nothing-chosen"]
    assert facts[0].payload.reason == "no host"
    world.skip(180)
    assert [fact.name for fact in world.settle()] == ["node-add-chosen"]


def test_a_node_that_does_not_come_is_overdue() -> None:
    world, _ = adding()
    world.skip(899)
    assert world.settle() == []
    world.skip(1)
    assert world.settle()[0].payload.reason == "the node is not there and released after 900 s"


def removing() -> VirtualScaler:
    """A node that is to go."""
    world = VirtualScaler(config(ordinary(), withhold_s=30))
    world.join("ord", 1, gpus=2)
    chosen = ScaleChosen(case=3, group="ord", node="ord-0001", request_id="s000001")
    world.write("scaler", "scale", "s000001", "node-remove-chosen", chosen)
    return world


def test_a_node_that_does_not_come_free_may_be_used_again() -> None:
    world = removing()
    world.skip(30)
    end, back = world.settle()
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
    world.skip(30)
    assert world.settle() == []
    world.leave("ord-0001")
    assert not ended(world.settle()).failed


def test_a_node_that_was_given_and_stays_is_given_back() -> None:
    world = removing()
    world.withheld("node", "ord-0001", "s000001")
    world.skip(900)
    _, back = world.settle()
    assert isinstance(back.payload, WithholdWithdrawn)
    assert back.payload.after_withheld


def test_a_removal_of_devices_is_done_when_they_are_back_in_the_pool() -> None:
    world = VirtualScaler(config(composable()))
    world.survey(free=0, attached=1)
    world.join("comp", 1, gpus=1)
    (uuid,) = world.nodes["comp-0001"].description.gpu_uuids
    chosen = ScaleChosen(case=3, group="comp", node="comp-0001", devices=(uuid,))
    world.write("scaler", "scale", "s000001", "gpu-remove-chosen", chosen)
    assert world.settle() == []
    world.detach(uuid)
    assert not ended(world.settle()).failed
    assert world.core.state.pool.free("f0", "H100") == 1


def test_gpus_that_move_have_the_time_to_go_and_to_come() -> None:
    composer = ComposerSettings(detach_s_max=100, attach_s_max=200, visible_s_max=40)
    scaling = config(composable(nodes_max=2), gpu_idle_s=60, node_unneeded_s=10_000, withhold_s=30, composer=composer)
    world = VirtualScaler(scaling, pool=0)
    world.survey(free=0)
    donor = world.join("comp", 1, gpus=1)
    world.join("comp", 2)
    world.fill("hog", donor, (), cpu_milli=15_000)
    world.skip(60)
    world.submit("one", cpu_milli=4_000)
    (chosen,) = world.settle()
    assert isinstance(chosen.payload, ScaleChosen)
    assert chosen.payload.devices
    world.skip(30 + 100 + 200 + 40 + 59)
    assert world.settle() == []
    world.skip(1)
    assert ended(world.settle()[:1]).failed


def test_gpus_from_the_pool_have_the_composers_time_to_come() -> None:
    world = VirtualScaler(
        config(composable(), composer=ComposerSettings(attach_s_max=1_000, visible_s_max=500)), pool=1
    )
    busy(world)
    world.submit("one")
    (chosen,) = world.settle()
    world.accept(chosen)
    world.skip(1_559)
    assert world.settle() == []
    world.skip(1)
    assert ended(world.settle()[:1]).failed


def test_nothing_is_brought_for_a_job_that_was_given_back_to_the_federation() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    world.join("comp", 0)
    one = world.submit("one")
    world.write("scheduler", "job", one.id, "returned", JobReturned(assignment=1))
    assert one.id not in world.core.state.jobs.records
    for _ in range(5):
        world.skip(120)
        assert world.settle() == []


def test_a_job_that_comes_back_is_asked_for_again() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    world.join("comp", 0)
    one = world.submit("one")
    world.write("scheduler", "job", one.id, "returned", JobReturned(assignment=1))
    world.write("federation", "job", one.id, "routed", JobRouted(job=one, cluster=CLUSTER, assignment=3))
    assert one.id in world.core.state.jobs.records
    assert not world.core.state.anomalies
