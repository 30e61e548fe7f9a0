"""When a silent cluster is given up, what becomes of its jobs, and why none runs twice."""

import pytest

from kit.federation import belief, job
from kit.federation_clusters import LEASED, LOST_AFTER_S, MARGIN_S, FederatedClusters
from kit.federation_phases import phase
from muster.core import Instant, after
from muster.federation.core import MemberPlan
from muster.federation.core.turns import SETTLE_S
from muster.schemas.facts.federation import ClusterPhase

GIVEN_UP_S = LOST_AFTER_S + MARGIN_S


FIRST = 100
"""Clusters number their summaries from there on."""


def heard(world: FederatedClusters, cluster: str = "east", *, number: int, contact: int = 0) -> None:
    world.summary(cluster, number=number and FIRST + number, contact=contact and FIRST + contact)


def renewals(world: FederatedClusters, cluster: str = "east") -> list[int]:
    """Which summaries were answered; the greeting answers none."""
    numbers = [f.payload.number for f in world.log if f.name == "contact-renewed" and f.subject_id == cluster]
    return [number - FIRST for number in numbers if number > FIRST]


def test_a_summary_that_asks_for_it_is_answered_with_what_the_cluster_may_count_on() -> None:
    world = FederatedClusters(LEASED)
    heard(world, number=1)
    renewed = world.last("contact-renewed", "east")
    assert (renewed.cluster, renewed.payload.number) == ("east", FIRST + 1)
    assert (renewed.payload.lost_after_s, renewed.payload.margin_s) == (LOST_AFTER_S, MARGIN_S)


def test_every_cluster_that_may_be_given_up_is_greeted_once_and_lost_if_it_never_answers() -> None:
    world = FederatedClusters(LEASED)
    world.settle()
    world.advance(GIVEN_UP_S - 1)
    assert [f.subject_id for f in world.log] == ["east", "west"]
    assert renewals(world) == []
    world.advance(1)
    assert (phase(world), phase(world, "west")) == (ClusterPhase.LOST, ClusterPhase.LOST)


def test_summaries_that_ask_for_nothing_and_clusters_that_are_never_given_up_get_no_answer() -> None:
    world = FederatedClusters(LEASED)
    heard(world, number=0)
    assert renewals(world) == []
    never = FederatedClusters()
    heard(never, number=1)
    assert renewals(never) == []
    assert never.core.next_wakeup() is None


def test_an_old_summary_that_comes_late_is_not_answered() -> None:
    world = FederatedClusters(LEASED)
    heard(world, number=5)
    heard(world, number=4)
    assert renewals(world) == [5]


def test_a_cluster_that_answers_no_more_is_lost_after_that_and_the_margin() -> None:
    world, one = FederatedClusters(LEASED), job("one")
    world.submit_all(one)
    assert world.last("routed", one.id).payload.lost_after_s == LOST_AFTER_S
    heard(world, number=1)
    heard(world, "west", number=1)
    world.advance(GIVEN_UP_S - 1)
    heard(world, "west", number=2, contact=1)
    assert (phase(world), world.where(one)) == (ClusterPhase.ACTIVE, "east")
    world.advance(1)
    assert (phase(world), world.where(one)) == (ClusterPhase.LOST, "west")
    assert world.names(one) == ["routed", "drop-forwarded", "routed"]
    dropped = world.last("drop-forwarded", one.id)
    assert (dropped.cluster, dropped.payload.assignment) == ("east", 1)
    assert world.last("routed", one.id).payload.assignment == 2


def lost_with(*jobs: object) -> FederatedClusters:
    """East had these jobs, and is lost; west answers."""
    world = FederatedClusters(LEASED)
    world.submit_all(*jobs)  # type: ignore[arg-type]
    heard(world, number=1)
    heard(world, "west", number=1)
    world.advance(GIVEN_UP_S - 1)
    heard(world, "west", number=2, contact=1)
    world.advance(1)
    assert phase(world) is ClusterPhase.LOST
    return world


def test_a_pinned_job_stays_with_its_cluster() -> None:
    one = job("one", pin=True)
    world = lost_with(one)
    assert (world.where(one), world.names(one)) == ("east", ["routed"])
    assert world.last("routed", one.id).payload.lost_after_s == 0


def test_a_late_end_of_what_was_given_away_ends_nothing() -> None:
    one = job("one")
    world = lost_with(one)
    world.end_job(one, assignment=1, cluster="east")
    record = world.core.state.jobs[one.id]
    assert (record.cluster, record.phase.is_terminal, record.owed) == ("west", False, ())
    world.end_job(one, assignment=2, cluster="west")
    assert record.phase.is_terminal


def test_a_job_does_not_go_back_where_it_was_until_that_cluster_has_dropped_it() -> None:
    one = job("one")
    world = lost_with(one)
    heard(world, number=9, contact=0)
    heard(world, number=10, contact=9)
    assert phase(world) is ClusterPhase.ACTIVE
    world.drain("west")
    world.give_back(one, assignment=2, cluster="west")
    assert world.where(one) == "", "east may still be ending it"
    world.give_back(one, assignment=1, cluster="east")
    assert world.where(one) == "east"
    assert world.last("routed", one.id).payload.assignment == 3


def test_word_of_an_assignment_before_the_dropped_one_lets_the_job_go_nowhere() -> None:
    one = job("one")
    world = lost_with(one)
    world.give_back(one, assignment=0, cluster="east")
    assert [(owed.cluster, owed.number) for owed in world.core.state.jobs[one.id].owed] == [("east", 1)]
    world.give_back(one, assignment=1, cluster="east")
    assert world.core.state.jobs[one.id].owed == ()


def test_a_lost_cluster_gets_jobs_again_once_it_says_that_it_gets_the_answers() -> None:
    world = lost_with()
    heard(world, number=2, contact=1)
    assert renewals(world) == [1, 2]
    assert phase(world) is ClusterPhase.LOST, "that it has an answer of before says nothing"
    heard(world, number=3, contact=2)
    assert phase(world) is ClusterPhase.ACTIVE


def test_a_cluster_that_is_heard_but_hears_nothing_is_lost_too() -> None:
    world, one = FederatedClusters(LEASED), job("one")
    world.submit_all(one)
    for number in range(1, 60):
        heard(world, number=number, contact=1)
        heard(world, "west", number=number, contact=number - 1)
        world.advance(10)
        if phase(world) is ClusterPhase.LOST:
            break
    lost_at = world.last("lost", "east").time
    told = [f for f in world.log if f.name == "contact-renewed" and f.subject_id == "east"]
    answered_last = [f.time for f in told if f.seq < world.last("lost", "east").seq][-1]
    assert (lost_at - answered_last) / 1e9 >= GIVEN_UP_S - 0.001
    assert world.where(one) == "west"


def test_with_no_other_cluster_a_job_of_a_lost_one_stays_and_is_let_go_if_nobody_wants_it() -> None:
    world, one = FederatedClusters(LEASED), job("one")
    world.drain("west")
    world.submit_all(one)
    heard(world, number=1)
    world.advance(GIVEN_UP_S)
    assert (phase(world), world.where(one)) == (ClusterPhase.LOST, "east")
    world.cancel(one)
    world.settle()
    assert world.names(one) == ["routed", "cancel-forwarded", "drop-forwarded", "cancelled"]


def test_while_others_could_take_its_jobs_a_lost_cluster_is_not_answered_until_they_have_them() -> None:
    world, one = FederatedClusters(LEASED), job("one")
    world.drain("west")
    world.submit_all(one)
    heard(world, number=1)
    world.advance(GIVEN_UP_S)
    heard(world, number=2)
    assert renewals(world) == [1, 2], "nobody else could take them"
    heard(world, "west", number=1)
    world.resume("west")
    heard(world, number=3)
    assert renewals(world) == [1, 2]
    assert world.where(one) == "east", "what was answered last has to be over first"
    for number in (2, 3, 4):  # often enough not to be thought silent
        assert world.where(one) == "east"
        world.advance(GIVEN_UP_S / 3)
        heard(world, "west", number=number, contact=number - 1)
    assert world.where(one) == "west"
    assert renewals(world) == [1, 2, 3]
    assert world.last("contact-renewed", "east").seq > world.last("routed", one.id).seq


def test_a_new_leader_blames_nobody_for_the_time_without_one() -> None:
    world, one = FederatedClusters(LEASED), job("one")
    world.submit_all(one)
    heard(world, number=1)
    world.now += round(10 * GIVEN_UP_S * 1e9)  # type: ignore[assignment]
    world.new_leader()
    assert phase(world) is ClusterPhase.ACTIVE
    world.advance(2 * LOST_AFTER_S)
    assert phase(world) is ClusterPhase.LOST


@pytest.mark.parametrize(
    "policy", [{}, {"rules": [{"name": "all", "clusters": [{"cluster": "east"}, {"cluster": "west"}]}]}]
)
def test_new_jobs_go_past_a_cluster_that_may_be_about_to_be_lost(policy: dict[str, object]) -> None:
    world = FederatedClusters(LEASED, policy=policy)
    heard(world, number=1)
    world.advance(LOST_AFTER_S * 0.6)
    heard(world, "west", number=1)
    world.submit_all(job("one"))
    assert world.where(job("one")) == "west"


def test_it_asks_to_be_woken_when_a_cluster_would_be_lost() -> None:
    world = FederatedClusters(LEASED)
    heard(world, number=1)
    heard(world, "west", number=1)
    assert world.core.next_wakeup() == world.now + round(GIVEN_UP_S * 1e9)


def test_one_that_waits_for_a_cluster_to_settle_is_not_woken_for_others_that_have_settled() -> None:
    world, one = FederatedClusters((*LEASED, MemberPlan("south", LOST_AFTER_S))), job("one")
    world.submit_all(one)
    for cluster in ("east", "west", "south"):
        heard(world, cluster, number=1)
    world.advance(GIVEN_UP_S)
    assert {phase(world, name) for name in ("east", "west", "south")} == {ClusterPhase.LOST}
    world.advance(5)
    come_back(world, "west", number=2)
    world.drain("west")
    world.advance(SETTLE_S - 20)
    come_back(world, "south", number=2)
    settled_at = after(Instant(world.last("returned", "south").time), SETTLE_S)
    world.advance(30)  # west came back longer ago than that takes, and takes nothing
    assert (world.where(one), world.core.next_wakeup()) == ("east", settled_at)
    heard(world, "south", number=4, contact=3)
    world.advance(SETTLE_S - 30)
    assert world.where(one) == "south"


def come_back(world: FederatedClusters, cluster: str, *, number: int) -> None:
    """It says that it gets the answers."""
    heard(world, cluster, number=number, contact=1)
    heard(world, cluster, number=number + 1, contact=number)


def test_a_core_from_a_checkpoint_believes_the_same_of_clusters_that_were_lost() -> None:
    one, pinned = job("one"), job("pinned", pin=True)
    for world in (FederatedClusters(LEASED), lost_with(one, pinned)):
        heard(world, number=20)
        recovered = world.recover()
        assert belief(recovered) == belief(world.core)
        assert recovered.decide(world.now) == world.core.decide(world.now)
        assert recovered.next_wakeup() == world.core.next_wakeup()
