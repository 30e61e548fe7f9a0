"""Case 2: the autoscaler wants to add a node and cannot; GPUs alone are attached if they do."""

from kit.scaler import VirtualScaler, composable, config, ordinary
from kit.scaler_jobs import busy, part
from muster.core import Fact
from muster.schemas.facts.scale import AutoscalerSignal, NothingChosen, ScaleChosen


def nothing(facts: list[Fact]) -> NothingChosen:
    """The one fact that there is."""
    assert [fact.name for fact in facts] == ["nothing-chosen"]
    assert isinstance(facts[0].payload, NothingChosen)
    return facts[0].payload


def test_gpus_are_attached_where_the_group_is_full() -> None:
    world = VirtualScaler(config(composable(nodes_max=1)), pool=2)
    node = busy(world)
    world.submit("one")
    (fact,) = world.settle()
    assert isinstance(fact.payload, ScaleChosen)
    assert (fact.payload.case, fact.payload.parts) == (2, (part(node),))
    assert "1 of at most 1 nodes" in fact.payload.reason


def test_nothing_is_chosen_where_gpus_do_not_help_either_and_both_reasons_are_said() -> None:
    world = VirtualScaler(config(ordinary(nodes_max=1)))
    busy(world, group="ord", gpus=2)
    one = world.submit("one")
    said = nothing(world.settle())
    assert (said.case, said.code, said.jobs) == (2, "no-group", (one.id,))
    assert "1 of at most 1 nodes" in said.reason
    assert "no composable group has GPUs of any model" in said.reason
    assert [alternative.fits for alternative in said.alternatives] == [False, False]


def test_nothing_is_said_twice_while_the_reason_is_the_same() -> None:
    world = VirtualScaler(config(composable(nodes_max=1)))
    busy(world)
    one = world.submit("one")
    nothing(world.settle())
    world.skip(60)
    world.told(one, "gpu", "gpu: still none")
    assert world.settle() == []


def test_another_reason_is_said() -> None:
    world = VirtualScaler(config(composable(nodes_max=1, gpus_max=2)))
    node = busy(world)
    one = world.submit("one")
    assert nothing(world.settle()).code == "pool"
    world.survey(free=2)
    world.submit("two")
    world.settle()
    assert world.core.state.choices.of_job.keys() == {one.id}
    assert {fact.payload.code for fact in world.log if isinstance(fact.payload, NothingChosen)} == {"pool", "nodes"}
    assert node


def test_no_gpu_helps_a_job_that_asks_for_none() -> None:
    world = VirtualScaler(config(composable(nodes_max=1)), pool=2)
    busy(world)
    world.submit("none", gpus=0, cpu_milli=99_000, reason="cpu", detail="cpu: 99 CPU asked")
    said = nothing(world.settle())
    assert said.code == "no-gpu-asked"
    assert "cpu: 99 CPU asked" in said.reason


def test_what_the_cluster_autoscaler_says_is_followed_in_its_mode() -> None:
    world = VirtualScaler(config(composable(nodes_max=1), mode="cluster-autoscaler"), pool=2)
    node = busy(world)
    one = world.submit("one")
    assert world.settle() == []
    signal = AutoscalerSignal(group="comp", jobs=(one.id,), reason="max node group size reached")
    said = world.write("agent", "autoscaler", "comp", "node-refused", signal)
    (fact,) = world.settle()
    assert isinstance(fact.payload, ScaleChosen)
    assert (fact.payload.case, fact.payload.parts) == (2, (part(node),))
    assert said.id in fact.causes
    assert "max node group size reached" in fact.payload.reason
