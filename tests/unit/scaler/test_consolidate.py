"""Idle GPUs of other nodes, offered to a gang when the pool has none left."""

from kit.scaler_state import CDI, ScalerState, config
from muster.core import after
from muster.schemas.facts.device import CallFailure, DetachWanted
from muster.schemas.facts.fabric import BreakerOpened
from muster.schemas.facts.scale import ScaleChosen, ScalePlace

LONG = 10_000.0


def offered(world: ScalerState) -> list[str]:
    return [one.uuid for one in world.policies.spares.donors(world.at_second(LONG))]


def test_idle_gpus_are_offered_and_held_ones_never() -> None:
    world = ScalerState()
    world.node("cdi-0001", gpus=3)
    world.runs("train", "cdi-0001", 1)
    first, _, last = world.uuids("cdi-0001")
    assert set(offered(world)) == {first, last}


def test_gpus_of_empty_nodes_come_first_then_those_of_nodes_with_the_fewest() -> None:
    world = ScalerState()
    world.node("cdi-0001", gpus=2)
    world.node("cdi-0002", gpus=2)
    world.node("cdi-0003", gpus=1)
    world.runs("web", "cdi-0001", cpu_milli=1_000)
    assert offered(world) == [
        *world.uuids("cdi-0003"),
        *sorted(world.uuids("cdi-0002")),
        *sorted(world.uuids("cdi-0001")),
    ]


def test_each_node_keeps_its_least() -> None:
    world = ScalerState(config(CDI.model_copy(update={"gpus_min": 1})))
    world.node("cdi-0001", gpus=2)
    world.node("cdi-0002", gpus=1)
    assert len(offered(world)) == 1


def test_gpus_on_their_way_back_or_chosen_to_go_are_not_offered() -> None:
    world = ScalerState()
    world.node("cdi-0001", gpus=3)
    leaving, chosen, left = world.uuids("cdi-0001")
    world.write("composer", "attachment", f"a-{leaving}", "detach-wanted", DetachWanted(request_id="r"))
    removal = ScaleChosen(case=3, group="cdi", node="cdi-0001", devices=(chosen,))
    world.chosen("s000001", "gpu-remove-chosen", removal)
    assert offered(world) == [left]


def test_gpus_that_are_kept_for_a_job_are_not_offered() -> None:
    world = ScalerState()
    world.node("cdi-0001", gpus=2)
    job_id = world.waits("soon", gpus=1)
    place = ScalePlace(node="cdi-0001", group=0, replicas=1)
    attach = ScaleChosen(case=1, group="cdi", node="cdi-0001", jobs=(job_id,), places=(place,))
    world.chosen("s000001", "gpu-attach-chosen", attach)
    assert len(offered(world)) == 1


def test_a_gpu_that_came_a_moment_ago_is_not_moved_on() -> None:
    world = ScalerState()
    world.node("cdi-0001")
    world.at_second(LONG - 99)
    world.node("cdi-0001", gpus=1)
    assert offered(world) == []
    world.at_second(LONG + 1)
    assert len(world.policies.spares.donors(world.now)) == 1


def test_nothing_is_moved_over_a_fabric_that_takes_no_calls() -> None:
    world = ScalerState()
    world.node("cdi-0001", gpus=1)
    world.at_second(LONG)
    opened = BreakerOpened(failures=5, failure=CallFailure.TIMEOUT, retry_at=after(world.now, 30))
    world.write("composer", "fabric", "rack", "breaker-opened", opened)
    assert offered(world) == []
