"""Gangs of changing size: the surplus makes way before anybody is stopped, and comes back when there is room."""

from kit.scheduler import ledger_balances
from kit.scheduler_yard import HOUR_S, Yard, elastic, resized, runs
from muster.core import after
from muster.scheduler.core.place.growth import GROW_EVERY_S
from muster.schemas.facts.job import PodsExited, PodsOutcome
from muster.schemas.facts.queue import PreemptionPolicy
from muster.schemas.job import Job, Phase


def devices(yard: Yard, one: Job) -> list[int]:
    return [device for _, held in yard.slots(one) for device in held]


def test_the_surplus_makes_way_before_anybody_is_stopped() -> None:
    yard = Yard(gpus=4, quotas={"a": 4})
    wide = runs(yard, elastic("wide", least=1, replicas=3, priority=10))
    yard.runs("narrow", queue="a", priority=5)
    yard.advance(HOUR_S)
    mine = yard.waits("mine", queue="a", gpus=2)
    assert yard.told() == {}
    asked = yard.last("resize-requested", wide.id).payload
    assert (len(asked.slots), asked.made_way_for, asked.grace_s) == (1, mine.id, 30.0)
    assert yard.last("reserved", mine.id).payload.victims == (wide.id,)
    resized(yard, wide)
    assert yard.phase(mine) is Phase.PLACED
    assert len(yard.slots(wide)) == 1
    ledger_balances(yard.core)


def test_no_more_of_the_surplus_is_taken_than_is_needed() -> None:
    yard = Yard(gpus=4, quotas={"a": 4})
    wide = runs(yard, elastic("wide", least=1, replicas=4, priority=10))
    yard.advance(HOUR_S)
    yard.waits("mine", queue="a")
    assert len(yard.last("resize-requested", wide.id).payload.slots) == 3


def test_a_job_is_stopped_if_its_surplus_is_not_enough() -> None:
    yard = Yard(gpus=4, quotas={"a": 4})
    wide = runs(yard, elastic("wide", least=3, replicas=4, priority=10))
    yard.advance(HOUR_S)
    mine = yard.waits("mine", queue="a", gpus=2)
    assert yard.told() == {"wide": "mine"}
    assert yard.count(wide.id, "resize-requested") == 0
    yard.obey()
    assert yard.phase(mine) is Phase.PLACED


def test_the_surplus_is_reclaimed_for_others_too_and_their_quota_follows() -> None:
    yard = Yard(gpus=4, quotas={"a": 2, "b": 2})
    wide = runs(yard, elastic("wide", least=2, replicas=4))
    yard.advance(HOUR_S)
    mine = yard.waits("mine", queue="b", gpus=2)
    resized(yard, wide)
    assert yard.phase(mine) is Phase.PLACED
    assert yard.core.state.queues.queues["a"].held_milli == 2_000


def test_a_gang_that_started_small_grows_when_there_is_room() -> None:
    yard = Yard(gpus=4, quotas={"a": 4})
    first = yard.runs("first", queue="a", gpus=2)
    wide = runs(yard, elastic("wide", least=1, replicas=4))
    assert len(yard.slots(wide)) == 2
    yard.exited(first)
    yard.advance(10)
    assert len(yard.last("resize-requested", wide.id).payload.slots) == 4
    ledger_balances(yard.core)
    resized(yard, wide)
    assert sorted(devices(yard, wide)) == [0, 1, 2, 3]
    assert [slot.replica for slot in yard.core.state.jobs.records[wide.id].slots] == [0, 1, 2, 3]
    yard.advance(HOUR_S)
    assert yard.count(wide.id, "resize-requested") == 1


def test_nothing_grows_while_a_gang_waits_for_room() -> None:
    yard = Yard(gpus=4, quotas={"a": 8})
    first = yard.runs("first", queue="a", gpus=2)
    wide = runs(yard, elastic("wide", least=1, replicas=4))
    waiting = yard.waits("waiting", queue="a", gpus=4)
    yard.exited(first)
    yard.advance(600)
    assert yard.count(wide.id, "resize-requested") == 0
    yard.cancel(waiting)
    yard.advance(10)
    assert yard.count(wide.id, "resize-requested") == 1


def test_a_gang_grows_at_once_when_those_in_front_of_it_have_a_place() -> None:
    """That nothing could grow a moment ago puts nothing off: a scheduler that starts now would not know of it."""
    yard = Yard(gpus=4, quotas={"a": 8})
    first = yard.runs("first", queue="a", gpus=2)
    wide = runs(yard, elastic("wide", least=1, replicas=4))
    waiting = yard.waits("waiting", queue="a", gpus=4)
    yard.exited(first)
    assert yard.count(wide.id, "resize-requested") == 0
    yard.cancel(waiting)
    assert yard.count(wide.id, "resize-requested") == 1


def test_a_gang_that_was_resized_is_left_as_it_is_for_a_while_by_whoever_decides() -> None:
    yard = Yard(gpus=4, quotas={"a": 4})
    first, second = yard.runs("first", queue="a"), yard.runs("second", queue="a")
    wide = runs(yard, elastic("wide", least=1, replicas=4))
    yard.exited(first)
    resized(yard, wide)
    yard.exited(second)
    for core in (yard.core, yard.refold(), yard.recover()):
        assert "resize-requested" not in [draft.name for draft in core.decide(yard.now)]
        assert core.next_wakeup() == after(yard.now, GROW_EVERY_S)
    yard.advance(GROW_EVERY_S)
    assert yard.count(wide.id, "resize-requested") == 2


def test_a_gang_grows_as_far_as_its_quota_goes() -> None:
    yard = Yard(gpus=8, quotas={"a": 3})
    first = yard.runs("first", queue="a", gpus=2)
    wide = runs(yard, elastic("wide", least=1, replicas=8))
    yard.exited(first)
    yard.advance(10)
    assert len(yard.last("resize-requested", wide.id).payload.slots) == 3


def test_it_says_the_same_until_it_is_folded() -> None:
    yard = Yard(gpus=4, quotas={"a": 4})
    first = yard.runs("first", queue="a", gpus=2)
    runs(yard, elastic("wide", least=1, replicas=4))
    yard.advance(20)
    yard.write("agent", "job", first.id, "pods-exited", PodsExited(attempt=1, outcome=PodsOutcome.SUCCEEDED))
    yard.decide_once("scheduler")  # it ended
    once, twice = yard.core.decide(yard.now), yard.core.decide(yard.now)
    assert "resize-requested" in [draft.name for draft in once]
    assert once == twice


def test_two_gangs_that_shrink_and_grow_come_to_rest() -> None:
    yard = Yard(gpus=4, quotas={"a": 2, "b": 2}, within_queue=PreemptionPolicy().within_queue)
    one = runs(yard, elastic("one", least=1, replicas=4))
    yard.advance(HOUR_S)
    two = elastic("two", least=1, replicas=4, queue="b")
    yard.names_of[two.id] = "two"
    yard.route(two)
    yard.settle()
    resized(yard, one)
    yard.started(two)
    for _ in range(6):
        yard.advance(HOUR_S)
        for each in (one, two):
            record = yard.core.state.jobs.records[each.id]
            if record.resize is not None:
                resized(yard, each)
    assert yard.count(one.id, "resize-requested") + yard.count(two.id, "resize-requested") <= 2
    assert len(yard.slots(one)) + len(yard.slots(two)) == 4
