"""What `muster scale` is told."""

from kit.scaler import VirtualScaler, composable, config
from kit.scaler_jobs import busy
from muster.core import Instant
from muster.scaler.core import ScalerCore
from muster.scaler.core.answers import answer_choices
from muster.schemas.queries import AskFleet, ScaleChoiceView


def choices(core: ScalerCore, now: Instant) -> tuple[ScaleChoiceView, ...]:
    return answer_choices(core, AskFleet(), now).choices


def lived() -> VirtualScaler:
    """One choice was carried out, one is under way."""
    world = VirtualScaler(config(composable()), pool=4)
    busy(world)
    first = world.submit("first")
    (chosen,) = world.settle()
    world.skip(40)
    world.online(*world.accept(chosen))
    world.place(first, ("comp-0001", (1,)))
    world.settle()
    world.skip(5)
    world.submit("second")
    world.settle()
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


def refused() -> VirtualScaler:
    """One job waits for more than the pool has, another asks for a model of no group."""
    world = VirtualScaler(config(composable(nodes_max=1)), pool=1)
    busy(world)
    world.submit("large", gpus=3)
    world.settle()
    world.skip(5)
    world.submit("strange", gpu_models=("X9",))
    world.settle()
    return world


def test_why_nothing_was_chosen_is_shown_newest_first() -> None:
    world = refused()
    newest, older = choices(world.core, world.now)
    assert (newest.name, newest.detail, older.detail) == ("nothing-chosen", "no-group", "pool")
    assert world.jobs[older.jobs[0]].job.spec.name == "large"
    assert "3 GPUs asked, 1 H100 in the pool" in older.reason


def test_it_is_shown_as_long_as_the_job_waits_for_it() -> None:
    world = refused()
    world.end(next(state.job for state in world.jobs.values() if state.job.spec.name == "large"))
    assert [choice.detail for choice in choices(world.core, world.now)] == ["no-group"]


def test_a_scaler_that_starts_from_a_checkpoint_knows_the_reasons() -> None:
    world = refused()
    assert choices(world.recover(), world.now) == choices(world.core, world.now)
