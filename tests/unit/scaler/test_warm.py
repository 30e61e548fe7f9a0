"""The warm reserve: so many idle attached GPUs stay in a group, whatever else says that they may go."""

from kit.scaler_state import CDI, ScalerState, config
from muster.scaler.core.choices import Choice
from muster.schemas.facts.scale import ScaleChosen

LONG = 10_000.0


def taken(choices: list[Choice]) -> set[str]:
    return {uuid for choice in choices if isinstance(choice.payload, ScaleChosen) for uuid in choice.payload.devices}


def three_nodes(warm: int) -> ScalerState:
    world = ScalerState(config(CDI.model_copy(update={"warm_gpus": warm, "nodes_min": 3})))
    for index in (1, 2, 3):
        world.node(f"cdi-{index:04d}", gpus=2)
    return world


def test_all_that_one_decision_takes_leaves_the_reserve() -> None:
    world = three_nodes(warm=4)
    assert len(taken(world.policies.scale_down.choices(world.at_second(LONG)))) == 2


def test_held_gpus_are_no_reserve() -> None:
    world = three_nodes(warm=2)
    world.runs("train", "cdi-0001", 0, 1)
    assert len(taken(world.policies.scale_down.choices(world.at_second(LONG)))) == 2


def test_gpus_that_were_chosen_to_go_are_no_reserve() -> None:
    world = three_nodes(warm=4)
    (first,) = world.policies.scale_down.choices(world.at_second(LONG))
    world.chosen("s000001", first.name, first.payload)
    assert world.policies.scale_down.choices(world.at_second(LONG)) == []


def test_a_gang_elsewhere_gets_of_the_reserve_what_it_needs() -> None:
    world = three_nodes(warm=5)
    world.at_second(LONG)
    assert len(world.policies.spares.donors(world.now)) == 6


def test_without_a_reserve_all_go() -> None:
    world = three_nodes(warm=0)
    assert len(taken(world.policies.scale_down.choices(world.at_second(LONG)))) == 6
