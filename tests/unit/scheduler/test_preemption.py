"""Who makes way for whom: the rules one by one, the least that is needed, and all of it said at once."""

from kit.scheduler import job
from kit.scheduler_yard import HOUR_S, Yard
from muster.schemas.facts.job import JobCheckpointed, JobReserved
from muster.schemas.job import Phase


def test_a_lower_priority_of_the_same_queue_makes_way() -> None:
    yard = Yard(gpus=2, quotas={"a": 2})
    low, high = yard.runs("low", queue="a", priority=10), yard.runs("high", queue="a", priority=90)
    yard.advance(HOUR_S)
    mine = yard.waits("mine", queue="a", priority=50)
    assert yard.told() == {"low": "mine"}
    yard.obey()
    assert yard.phase(mine) is Phase.PLACED
    assert yard.phase(low) is Phase.QUEUED
    assert yard.phase(high) is Phase.RUNNING


def test_all_of_it_is_said_in_one_batch_and_the_place_is_kept() -> None:
    yard = Yard(gpus=2, quotas={"a": 2})
    yard.runs("one", queue="a", priority=10, grace_s=20.0)
    yard.runs("two", queue="a", priority=20, grace_s=60.0)
    yard.advance(HOUR_S)
    yard.now += 1
    mine = yard.waits("mine", queue="a", gpus=2)
    stops = [fact for fact in yard.log if fact.name == "stop-requested"]
    reserved = yard.last("reserved", mine.id)
    assert isinstance(reserved.payload, JobReserved)
    assert [fact.seq for fact in (*stops, reserved)] == [reserved.seq - 2, reserved.seq - 1, reserved.seq]
    assert [fact.payload.grace_s for fact in stops] == [20.0, 60.0]
    assert reserved.payload.victims == tuple(fact.subject_id for fact in stops)
    assert reserved.payload.starts_at == yard.now + 60_000_000_000
    assert [(slot.node, slot.devices) for slot in reserved.payload.slots] == [("n0", (0, 1))]


def test_the_parts_of_a_decision_share_one_token() -> None:
    yard = Yard(gpus=1, quotas={"a": 1})
    yard.runs("low", queue="a", priority=10)
    yard.advance(HOUR_S)
    mine = yard.waits("unasked", queue="a", priority=5)
    yard.cancel(mine)
    one = job("mine", queue="a", priority=50)
    yard.route(one)
    yard.decide_once("scheduler")
    drafts = [draft for draft in yard.core.decide(yard.now) if draft.together]
    assert [draft.name for draft in drafts] == ["stop-requested", "reserved"]
    assert len({draft.together for draft in drafts}) == 1


def test_nobody_makes_way_before_its_slice_is_over_and_somebody_does_at_once_when_it_is() -> None:
    yard = Yard(gpus=4, quotas={"a": 2, "b": 2})
    yard.runs("borrowing", queue="b", gpus=4, priority=90)
    yard.advance(100)
    yard.waits("mine", queue="a", gpus=2)
    assert yard.told() == {}
    yard.advance(HOUR_S - 101)
    assert yard.told() == {}
    yard.advance(1)
    assert yard.told() == {"borrowing": "mine"}, "at the end of the slice, without another event"


def test_nominal_quota_is_reclaimed_from_who_borrows_whatever_its_priority() -> None:
    yard = Yard(gpus=4, quotas={"a": 2, "b": 2})
    yard.runs("own", queue="b", gpus=2, priority=10)
    yard.runs("borrowing", queue="b", gpus=2, priority=900)
    yard.advance(HOUR_S)
    yard.waits("mine", queue="a", gpus=2, priority=0)
    assert yard.told() == {"own": "mine"}, "of those of the queue that borrows the lower priority"


def test_of_quota_may_be_reclaimed_only_as_much_as_there_is() -> None:
    yard = Yard(gpus=4, quotas={"a": 2, "b": 2}, fair_share=())
    yard.runs("own", queue="b", gpus=2)
    yard.runs("borrowing", queue="b", gpus=2)
    yard.advance(HOUR_S)
    mine = yard.waits("mine", queue="a", gpus=3)
    assert yard.told() == {}
    assert yard.phase(mine) is Phase.QUEUED


def test_a_queue_that_borrows_nothing_is_left_alone() -> None:
    yard = Yard(gpus=4, quotas={"a": 1, "b": 3})
    yard.runs("theirs", queue="b", gpus=3, priority=0)
    yard.runs("ours", queue="a", gpus=1, priority=900)
    yard.advance(24 * HOUR_S)
    yard.waits("mine", queue="a", gpus=1, priority=800)
    yard.advance(24 * HOUR_S)
    assert yard.told() == {}


def test_reclaiming_can_be_limited_to_lower_priorities_or_forbidden() -> None:
    for reclaim, expected in (("lower-priority", {"low": "mine"}), ("never", {})):
        yard = Yard(gpus=4, quotas={"a": 2, "b": 2}, reclaim=reclaim, fair_share=(), over_slice="never")
        yard.runs("equal", queue="b", gpus=2)
        yard.runs("low", queue="b", gpus=2, priority=49)
        yard.advance(HOUR_S)
        yard.waits("mine", queue="a", gpus=2)
        assert yard.told() == expected


def kueue(**knobs: object) -> Yard:
    """The example of Kueue's page on fair sharing: a, b, c with 3 each; a uses 3, b 6; one more comes to a."""
    yard = Yard(gpus=9, quotas={"a": 3, "b": 3, "c": 3}, **knobs)
    yard.runs("a-one", queue="a", gpus=3)
    yard.runs("b-low", queue="b", gpus=5, priority=0)
    yard.runs("b-high", queue="b", gpus=1, priority=1)
    yard.advance(HOUR_S)
    yard.waits("a-two", queue="a", gpus=1)
    return yard


def test_final_share_takes_who_leaves_the_other_queue_with_no_less_than_we_get() -> None:
    assert kueue().told() == {"b-high": "a-two"}


def test_initial_share_alone_takes_the_lower_priority() -> None:
    assert kueue(fair_share=("initial-share",)).told() == {"b-low": "a-two"}


def test_without_fair_share_nobody_makes_way_for_a_borrower() -> None:
    assert kueue(fair_share=()).told() == {}


def test_initial_share_is_tried_if_final_share_is_not_enough() -> None:
    yard = Yard(gpus=9, quotas={"a": 0, "b": 0}, spare=9)
    yard.runs("b-one", queue="b", gpus=5, priority=40)
    yard.runs("b-two", queue="b", gpus=4)
    yard.advance(HOUR_S)
    yard.waits("mine", queue="a", gpus=5)
    assert yard.told() == {"b-one": "mine"}, "5/9 is more than b's 4/9 without it, and less than its 9/9 with it"


def test_by_the_initial_share_one_job_of_a_queue_is_taken() -> None:
    yard = Yard(gpus=9, quotas={"a": 0, "b": 0}, spare=9, fair_share=("initial-share",))
    for name in ("one", "two", "three"):
        yard.runs(name, queue="b", gpus=3)
    yard.advance(HOUR_S)
    yard.waits("mine", queue="a", gpus=4)
    assert yard.told() == {}
    yard.waits("modest", queue="a", gpus=3)
    assert len(yard.told()) == 1


def test_the_least_work_is_lost() -> None:
    yard = Yard(gpus=3, quotas={"a": 3})
    for name in ("old", "fresh", "older"):
        yard.runs(name, queue="a", priority=10)
    yard.advance(HOUR_S)
    for name, after_s in (("older", 0), ("old", 600), ("fresh", 600)):
        yard.advance(after_s)
        one = next(job_id for job_id, known in yard.names_of.items() if known == name)
        yard.write("agent", "job", one, "checkpointed", JobCheckpointed(attempt=1))
    yard.advance(60)
    yard.waits("mine", queue="a")
    assert yard.told() == {"fresh": "mine"}


def test_one_that_never_reports_counts_at_the_median_of_those_that_do() -> None:
    yard = Yard(gpus=5, quotas={"a": 5})
    jobs = {name: yard.runs(name, queue="a", priority=10) for name in ("silent", "lost5", "lost4", "lost2", "lost1")}
    for name, hours in (("lost5", 1), ("lost4", 1), ("lost2", 2), ("lost1", 1)):
        yard.advance(hours * HOUR_S)
        yard.write("agent", "job", jobs[name].id, "checkpointed", JobCheckpointed(attempt=1))
    yard.advance(HOUR_S)
    yard.waits("mine", queue="a", gpus=3)
    assert yard.told().keys() == {"lost1", "lost2", "silent"}, "it ran 6 h; the median of what the others lose is 3 h"


def test_more_is_not_taken_than_is_needed() -> None:
    yard = Yard(gpus=4, quotas={"a": 4})
    for name, gpus in (("small", 1), ("large", 3)):
        yard.runs(name, queue="a", gpus=gpus, priority=10)
    yard.advance(HOUR_S)
    yard.waits("mine", queue="a", gpus=3)
    assert yard.told() == {"large": "mine"}


def test_nobody_is_stopped_if_the_whole_gang_would_still_not_fit() -> None:
    yard = Yard(gpus=2, quotas={"a": 8})
    yard.runs("low", queue="a", priority=10, gpus=2)
    yard.advance(HOUR_S)
    yard.waits("mine", queue="a", gpus=2, replicas=2)
    assert yard.told() == {}


def test_one_that_may_not_be_preempted_is_left_alone() -> None:
    yard = Yard(gpus=1, quotas={"a": 1})
    yard.runs("firm", queue="a", priority=10, preemptible=False)
    yard.advance(24 * HOUR_S)
    yard.waits("mine", queue="a", priority=90)
    yard.advance(24 * HOUR_S)
    assert yard.told() == {}


def test_one_that_starves_takes_the_place_of_an_equal_that_is_past_its_slice() -> None:
    yard = Yard(gpus=1, quotas={"a": 1})
    yard.runs("long", queue="a")
    yard.advance(HOUR_S)
    yard.waits("mine", queue="a")
    yard.advance(1_799)
    assert yard.told() == {}
    yard.advance(1)
    assert yard.told() == {"long": "mine"}


def test_who_is_told_already_is_not_told_again_and_frees_its_place_for_one() -> None:
    yard = Yard(gpus=2, quotas={"a": 2})
    yard.runs("low", queue="a", priority=10)
    yard.runs("lower", queue="a", priority=5)
    yard.advance(HOUR_S)
    first, second = yard.waits("first", queue="a"), yard.waits("second", queue="a")
    assert yard.told() == {"lower": "first", "low": "second"}
    yard.obey()
    assert {yard.phase(first), yard.phase(second)} == {Phase.PLACED}


def test_who_leaves_anyway_is_waited_for() -> None:
    yard = Yard(gpus=2, quotas={"a": 2})
    leaving = yard.runs("leaving", queue="a", priority=90)
    yard.runs("low", queue="a", priority=10)
    yard.advance(HOUR_S)
    yard.cancel(leaving)
    yard.waits("mine", queue="a")
    assert yard.told() == {}


def test_it_is_not_said_again_before_it_is_folded() -> None:
    yard = Yard(gpus=1, quotas={"a": 1})
    yard.runs("low", queue="a", priority=10)
    yard.advance(HOUR_S)
    yard.route(job("mine", queue="a"))
    yard.decide_once("scheduler")
    once, twice = yard.core.decide(yard.now), yard.core.decide(yard.now)
    assert once == twice
    assert [draft.name for draft in once if draft.kind == "job"][:2] == ["stop-requested", "reserved"]
