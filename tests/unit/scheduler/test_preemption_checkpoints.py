"""A checkpoint may fall between a notice and the end of it: whoever starts from it asks for the same, and not again."""

from kit.scheduler_checkpoints import Watched
from kit.scheduler_yard import HOUR_S, Yard, elastic, resized, runs
from muster.schemas.facts.job import JobCheckpointed
from muster.schemas.job import Phase


class WatchedYard(Yard, Watched):
    """Compares, after every fact, with a core that started from a checkpoint of that moment."""


def test_a_checkpoint_after_any_fact_of_making_way() -> None:
    yard = WatchedYard(gpus=4, quotas={"a": 2, "b": 2})
    kept = yard.runs("kept", queue="a", gpus=2, priority=90)
    lent = yard.runs("lent", queue="a", gpus=2)
    yard.advance(HOUR_S)
    yard.write("agent", "job", kept.id, "checkpointed", JobCheckpointed(attempt=1))
    mine = yard.waits("mine", queue="b", gpus=2)
    assert yard.told() == {"lent": "mine"}
    yard.obey()
    assert yard.phase(mine) is Phase.PLACED
    yard.started(mine)
    yard.exited(kept)
    assert yard.phase(lent) is Phase.PLACED


def test_a_checkpoint_after_any_fact_of_a_gang_that_shrinks_and_grows() -> None:
    yard = WatchedYard(gpus=4, quotas={"a": 2, "b": 2})
    wide = runs(yard, elastic("wide", least=1, replicas=4))
    yard.advance(HOUR_S)
    mine = yard.waits("mine", queue="b", gpus=2)
    resized(yard, wide)
    yard.started(mine)
    yard.advance(20)  # the fleet is looked at for growth now and then; a checkpoint does not know when it was last
    yard.exited(mine)
    resized(yard, wide)
    assert len(yard.slots(wide)) == 4


def test_a_job_for_which_others_make_way_and_that_is_cancelled_leaves_its_place_to_others() -> None:
    yard = WatchedYard(gpus=1, quotas={"a": 1})
    low = yard.runs("low", queue="a", priority=10)
    yard.advance(HOUR_S)
    mine = yard.waits("mine", queue="a", priority=90)
    yard.cancel(mine)
    yard.obey()
    assert yard.phase(low) is Phase.PLACED, "its second run"
    assert not yard.core.state.bookings.all
