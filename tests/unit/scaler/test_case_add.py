"""Case 1: the autoscaler wants to add a node; GPUs are attached if they are enough."""

from kit.scaler import FABRIC, MODEL, VirtualScaler, composable, config, ordinary
from kit.scaler_jobs import busy, part
from muster.core import Fact
from muster.core.settings import ModelSettings
from muster.schemas.facts.scale import NothingChosen, ScaleChosen
from muster.schemas.job import TaskGroup, Topology


def only(facts: list[Fact], name: str) -> ScaleChosen:
    """The one fact that there is, of this name."""
    assert [fact.name for fact in facts] == [name]
    assert isinstance(facts[0].payload, ScaleChosen)
    return facts[0].payload


def test_a_gpu_is_attached_where_one_is_enough() -> None:
    world = VirtualScaler(config(composable()), pool=3)
    node = busy(world)
    one = world.submit("one")
    facts = world.settle()
    chosen = only(facts, "gpu-attach-chosen")
    assert (chosen.case, chosen.group, chosen.node, chosen.count) == (1, "comp", node, 1)
    assert (chosen.parts, chosen.jobs, facts[0].subject_id) == ((part(node),), (one.id,), "s000001")


def test_the_choice_carries_the_trace_of_its_job_and_names_why_it_waits() -> None:
    world = VirtualScaler(config(composable()), pool=3)
    busy(world)
    one = world.submit("one", reason="")
    told = world.told(one, "gpu")
    (fact,) = world.settle()
    assert (fact.causes, fact.trace) == ((told.id,), one.trace)


def test_the_node_is_shown_as_what_else_there_was_with_watts_and_seconds() -> None:
    world = VirtualScaler(
        config(composable(busy_w=600, provision_s=600), models={MODEL: ModelSettings(busy_w=350, attach_s=50)}), pool=3
    )
    busy(world)
    world.submit("one")
    chosen = only(world.settle(), "gpu-attach-chosen")
    gpu, node = chosen.alternatives
    assert (gpu.chosen, gpu.fits, gpu.gpus, gpu.watts, gpu.ready_s) == (True, True, 1, 350, 50)
    assert (node.chosen, node.fits, node.nodes, node.watts, node.ready_s) == (False, True, 1, 950, 650)
    assert "350 W" in chosen.reason
    assert "50 s" in chosen.reason


def test_a_gang_gets_all_its_gpus_by_one_choice() -> None:
    world = VirtualScaler(config(composable()), pool=8)
    nodes = [busy(world, index) for index in (1, 2)]
    world.submit("gang", replicas=5, cpu_milli=1_000)
    chosen = only(world.settle(), "gpu-attach-chosen")
    assert chosen.count == sum(one.count for one in chosen.parts) == 5
    assert {one.node for one in chosen.parts} == {*nodes}


def test_a_gang_that_the_pool_does_not_cover_gets_nothing_of_it() -> None:
    world = VirtualScaler(config(composable(nodes_max=2)), pool=2)
    busy(world)
    busy(world, 2)
    world.submit("gang", replicas=3)
    (fact,) = world.settle()
    assert fact.name == "nothing-chosen"
    assert isinstance(fact.payload, NothingChosen)
    assert fact.payload.code == "pool"
    assert "2 H100 in the pool" in fact.payload.reason


def test_idle_gpus_count_before_new_ones() -> None:
    world = VirtualScaler(config(composable()), pool=4)
    node = world.join("comp", 1, gpus=2)
    world.fill("half", node, (0,), cpu_milli=1_000)
    world.submit("two", gpus=2, reason="fragmented")
    chosen = only(world.settle(), "gpu-attach-chosen")
    assert chosen.parts == (part(node),)


def test_memory_short_means_a_node() -> None:
    world = VirtualScaler(config(composable(), ordinary()), pool=4)
    busy(world)
    world.submit("large", reason="memory", memory_mib=200_000)
    facts = world.settle()
    chosen = only(facts, "node-add-chosen")
    assert (chosen.group, chosen.node) == ("ord", "ord-0001")
    assert any(not one.fits and "200000 MiB" in one.detail for one in chosen.alternatives)


def test_cpu_short_means_a_node() -> None:
    world = VirtualScaler(config(composable(), ordinary()), pool=4)
    busy(world)
    world.submit("large", reason="cpu", cpu_milli=30_000)
    assert only(world.settle(), "node-add-chosen").group == "ord"


def test_a_node_of_a_composable_group_comes_with_gpus_kept_for_it() -> None:
    world = VirtualScaler(config(composable()), pool=3)
    world.submit("one", gpus=2, reason="no-node")
    chosen = only(world.settle(), "node-add-chosen")
    assert (chosen.node, chosen.parts) == ("comp-0001", (part("comp-0001", 2),))
    assert world.core.state.capacity.pool_left(FABRIC, MODEL) == 1


def test_a_node_of_a_composable_group_is_no_help_without_gpus_in_the_pool() -> None:
    world = VirtualScaler(config(composable()), pool=1)
    world.submit("one", gpus=2, reason="no-node")
    (fact,) = world.settle()
    assert isinstance(fact.payload, NothingChosen)
    assert "need 2 H100; the pool of f0 has 1" in fact.payload.reason


def test_a_node_whose_gpus_are_still_to_come_gets_them_when_it_is_there() -> None:
    world = VirtualScaler(config(composable()), pool=3)
    world.submit("one", gpus=2, reason="no-node")
    world.settle()
    world.skip(600)
    world.join("comp", 1)
    ended, attach = world.settle()
    assert (ended.name, attach.name) == ("ended", "gpu-attach-chosen")
    assert isinstance(attach.payload, ScaleChosen)
    assert attach.payload.parts == (part("comp-0001", 2),)


def test_a_gang_gets_as_many_nodes_as_it_needs_together() -> None:
    world = VirtualScaler(config(ordinary()))
    gang = world.submit("gang", replicas=3, gpus=2, reason="no-node")
    drafts = world.core.decide(world.now)
    assert [draft.payload.node for draft in drafts] == ["ord-0001", "ord-0002", "ord-0003"]
    assert {draft.together for draft in drafts} == {"s000001"}
    assert all(draft.payload.jobs == (gang.id,) for draft in drafts)


def test_devices_all_go_where_the_required_domain_has_room() -> None:
    world = VirtualScaler(config(composable(nodes_max=8)), pool=8)
    apart = [busy(world, index, gpus=3, rack=f"r{index}") for index in (1, 2)]
    together = [busy(world, index, gpus=2, rack="r9") for index in (3, 4)]
    world.submit("gang", replicas=4, topology=Topology(level="rack", required=True), reason="topology", cpu_milli=1_000)
    chosen = only(world.settle(), "gpu-attach-chosen")
    assert {one.node for one in chosen.parts} == {*together}
    assert chosen.count == 4
    assert not {one.node for one in chosen.parts} & {*apart}


def test_all_replicas_get_the_same_model_where_that_is_asked() -> None:
    world = VirtualScaler(config(composable(gpu_models=("H100", "A100"))), pool=3)
    world.survey(free=4, model="A100")
    for index, model in ((1, "H100"), (2, "A100"), (3, "A100")):
        busy(world, index, model=model)
    world.submit("gang", replicas=4, same_model=True, reason="model", cpu_milli=1_000)
    chosen = only(world.settle(), "gpu-attach-chosen")
    assert {one.device_model for one in chosen.parts} == {"A100"}
    assert chosen.count == 4


def test_among_models_the_one_that_draws_least_power() -> None:
    models = {"H100": ModelSettings(busy_w=700), "A100": ModelSettings(busy_w=400)}
    world = VirtualScaler(config(composable(gpu_models=("H100", "A100")), models=models), pool=3)
    world.survey(free=4, model="A100")
    busy(world, 1)
    busy(world, 2, model="A100")
    world.submit("one")
    assert only(world.settle(), "gpu-attach-chosen").device_model == "A100"


def test_a_node_carries_one_model_at_a_time() -> None:
    world = VirtualScaler(config(composable(gpu_models=("H100", "A100"), nodes_max=1)))
    world.survey(free=4, model="A100")
    busy(world, 1)
    world.submit("one", gpu_models=("A100",), reason="model")
    (fact,) = world.settle()
    assert fact.name == "nothing-chosen"


def test_a_node_without_gpus_takes_any_model_of_its_group() -> None:
    world = VirtualScaler(config(composable(gpu_models=("H100", "A100"))))
    world.survey(free=4, model="A100")
    world.join("comp", 1)
    world.submit("one", gpu_models=("A100",), reason="model")
    assert only(world.settle(), "gpu-attach-chosen").parts == (part("comp-0001", model="A100"),)


def test_a_node_gets_no_more_than_it_can_have() -> None:
    world = VirtualScaler(config(composable(gpus_max=2, nodes_max=1)), pool=4)
    busy(world, gpus=2)
    world.submit("one")
    (fact,) = world.settle()
    assert isinstance(fact.payload, NothingChosen)
    assert fact.payload.code == "nodes"


def test_several_groups_of_one_gang_are_made_room_for_together() -> None:
    world = VirtualScaler(config(composable(nodes_max=2)), pool=8)
    busy(world, 1)
    busy(world, 2)
    groups = (
        TaskGroup(name="head", replicas=1, gpus=2, cpu_milli=1_000),
        TaskGroup(name="work", replicas=2, gpus=1, cpu_milli=1_000),
    )
    world.submit("mixed", task_groups=groups)
    assert only(world.settle(), "gpu-attach-chosen").count == 4


def test_an_elastic_gang_gets_what_it_cannot_run_without() -> None:
    world = VirtualScaler(config(composable()), pool=8)
    busy(world)
    world.submit("elastic", replicas=4, min_replicas=2, cpu_milli=1_000)
    assert only(world.settle(), "gpu-attach-chosen").count == 2


def test_a_share_of_a_gpu_gets_one_whole_device() -> None:
    world = VirtualScaler(config(composable()), pool=8)
    busy(world)
    world.submit("shares", replicas=3, gpu_milli=300, cpu_milli=1_000)
    assert only(world.settle(), "gpu-attach-chosen").count == 1


def test_a_whole_node_gets_what_it_lacks() -> None:
    world = VirtualScaler(config(composable()), pool=8)
    world.join("comp", 1, gpus=1)
    busy(world, 2)
    world.submit("whole", gpus=3, full_node=True, reason="fragmented")
    assert only(world.settle(), "gpu-attach-chosen").parts == (part("comp-0001", 2),)


def test_a_group_may_have_to_stand_closer_than_its_gang() -> None:
    world = VirtualScaler(config(composable(nodes_max=8)), pool=8)
    for index in (1, 2):
        busy(world, index, gpus=3, rack="r1")
    together = busy(world, 3, gpus=1, rack="r2")
    own = TaskGroup(replicas=2, gpus=1, cpu_milli=1_000, topology=Topology(level="node", required=True))
    world.submit("near", task_groups=(own,), topology=Topology(level="rack", required=False), reason="topology")
    assert only(world.settle(), "gpu-attach-chosen").parts == (part(together, 2),)


def test_another_group_is_taken_where_the_pool_of_the_cheapest_is_empty() -> None:
    dear = composable("dear", fabric="f1", idle_w=500.0)
    world = VirtualScaler(config(composable(), dear), pool=1)
    world.survey(free=4, fabric="f1")
    world.submit("one", gpus=2, reason="no-node")
    assert only(world.settle(), "node-add-chosen").group == "dear"
