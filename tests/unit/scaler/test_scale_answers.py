"""What `muster scale` is told."""

from muster.core import Instant
from muster.scaler.core import ScalerCore
from muster.scaler.core.answers import answer_choices
from muster.schemas.queries import AskFleet, ScaleChoiceView
from unit.scaler.scaling_world import World, composable, config
from unit.scaler.test_case_add import busy


def choices(core: ScalerCore, now: Instant) -> tuple[ScaleChoiceView, ...]:
    return answer_choices(core, AskFleet(), now).choices


def lived() -> World:
    """One choice was carried out, one is under way."""
    world = World(config(composable()), pool=4)
    busy(world)
    first = world.submit("first")
    (chosen,) = world.run()
    world.later(40)
    world.online(*world.accept(chosen))
    world.place(first, ("comp-0001", (1,)))
    world.run()
    world.later(5)
    world.submit("second")
    world.run()
    return world


def test_choices_are_shown_newest_first_with_how_they_ended() -> None:
    world = lived()
    under_way, over = choices(world.core, world.now)
    assert (under_way.id, under_way.outcome, under_way.ended_at) == ("s000002", "", 0)
    assert (over.id, over.outcome, over.name) == ("s000001", "done", "gpu-attach-chosen")
    assert over.ended_at - over.at == 40_000_000_000
    assert over.alternatives
    assert over.reason


def test_they_are_shown_by_a_scaler_that_starts_from_a_checkpoint() -> None:
    world = lived()
    assert choices(world.recover(), world.now) == choices(world.core, world.now)
