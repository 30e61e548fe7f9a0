"""Who borrows how much, who used how much lately, and what a queue inherits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.core import NS_PER_S
from muster.quota.policy import DEFAULT, resolve
from muster.quota.queues import QueueTree
from muster.quota.usage import PRINCIPALS_MAX, Decayed, Principals
from muster.schemas.facts.queue import FairShareRule, PreemptionPolicy, QueueOrder, QueueSpec, Reclaim
from muster.schemas.job import JobSpec, TaskGroup

GPU, CPU = "gpu_milli", "cpu_milli"
DAY = 86_400 * NS_PER_S
WEEK = 7 * DAY


def tree(*specs: dict[str, object], capacity: dict[str, int] | None = None) -> QueueTree:
    queues = QueueTree()
    for spec in specs:
        queues.set(QueueSpec.model_validate(spec), changed_at=1, at=1)
    queues.set_capacity(capacity or {GPU: 16_000, CPU: 128_000})
    return queues


def test_the_share_of_kueues_own_example() -> None:
    """Nominal 2 CPU and 5 GPUs, another queue lends 8 and 5; 3 CPU and 7 GPUs are used: (7 - 5) / 10 on GPUs."""
    queues = tree(
        {"name": "cohort"},
        {"name": "cq", "parent": "cohort", "quota": {CPU: 2_000, GPU: 5_000}},
        {"name": "lending", "parent": "cohort", "quota": {CPU: 8_000, GPU: 5_000}},
    )
    queues.hold("cq", {CPU: 3_000, GPU: 7_000})
    assert queues.share("cq") == pytest.approx(0.2)
    assert queues.share("lending") == 0
    assert queues.share("lending", {CPU: 9_000}) == pytest.approx(0.1)


def test_three_queues_of_three() -> None:
    """a uses its 3, b 6 of 3: b's share is 3/9; with one more a's is 1/9, without the job of one GPU b's is 2/9."""
    queues = tree({"name": "org"}, *({"name": name, "parent": "org", "quota": {GPU: 3_000}} for name in "abc"))
    queues.hold("a", {GPU: 3_000})
    queues.hold("b", {GPU: 6_000})
    assert queues.share("b") == pytest.approx(3 / 9)
    assert queues.share("a", {GPU: 1_000}) == pytest.approx(1 / 9)
    assert queues.share("b", {GPU: -1_000}) == pytest.approx(2 / 9)


def test_a_share_is_divided_by_the_weight() -> None:
    queues = tree(
        {"name": "org", "quota": {GPU: 12_000}},
        {"name": "one", "parent": "org"},
        {"name": "two", "parent": "org", "weight": 2},
    )
    queues.hold("one", {GPU: 3_000})
    queues.hold("two", {GPU: 4_000})
    assert (queues.share("one"), queues.share("two")) == (pytest.approx(0.25), pytest.approx(4 / 12 / 2))


def test_queues_without_quota_borrow_from_the_cluster() -> None:
    queues = tree({"name": "a"}, {"name": "b", "parent": "a"}, {"name": "c", "weight": 4.0})
    queues.hold("b", {GPU: 4_000, CPU: 64_000})
    queues.hold("c", {GPU: 8_000})
    assert queues.share("b") == queues.share("a") == pytest.approx(0.5), "the dominant resource is CPU"
    assert queues.share("c") == pytest.approx(0.5 / 4)


def test_with_no_capacity_left_whoever_holds_more_still_has_the_larger_share() -> None:
    queues = tree({"name": "a"}, {"name": "b"})
    queues.hold("a", {GPU: 1_000})
    queues.hold("b", {GPU: 2_000})
    queues.set_capacity({})
    assert 0 < queues.share("a") < queues.share("b")


def test_what_was_held_counts_half_after_the_half_life() -> None:
    queues = tree({"name": "a"})
    queues.hold("a", {GPU: 8_000}, at=DAY)
    assert queues.used_share("a", DAY) == 0
    assert queues.used_share("a", DAY + WEEK) == pytest.approx(0.25), "half of the way to 8 of 16"
    queues.hold("a", {GPU: 8_000}, sign=-1, at=DAY + WEEK)
    assert queues.used_share("a", DAY + WEEK) == pytest.approx(0.25)
    assert queues.used_share("a", DAY + 2 * WEEK) == pytest.approx(0.125)
    assert queues.used_share("a", DAY + 400 * WEEK) == pytest.approx(0)


def test_a_queue_s_own_half_life_holds_below_it_too() -> None:
    queues = tree({"name": "a", "half_life_s": 86_400}, {"name": "b", "parent": "a"})
    queues.hold("b", {GPU: 16_000}, at=DAY)
    assert queues.used_share("b", 2 * DAY) == queues.used_share("a", 2 * DAY) == pytest.approx(0.5)
    queues.set(QueueSpec(name="a", half_life_s=2 * 86_400), changed_at=2, at=2 * DAY)
    assert queues.used_share("b", 2 * DAY) == pytest.approx(0.5)
    assert queues.used_share("b", 4 * DAY) == pytest.approx(0.75)


def test_what_is_only_tried_leaves_no_trace_in_what_was_used() -> None:
    queues = tree({"name": "a"})
    queues.hold("a", {GPU: 8_000}, at=DAY)
    queues.propose("a", {GPU: 8_000})
    queues.withdraw_proposals()
    assert queues.used_share("a", DAY + WEEK) == pytest.approx(0.25)


def test_principals_share_a_queue_by_what_each_held_lately() -> None:
    queues = tree({"name": "a"})
    queues.hold("a", {GPU: 3_000}, at=DAY, principal="ada")
    queues.hold("a", {GPU: 1_000}, at=DAY, principal="bob")
    assert queues.principal_share("a", "ada", 2 * DAY) == pytest.approx(0.75)
    assert queues.principal_share("a", "eve", 2 * DAY) == 0


def test_principals_that_hold_nothing_are_forgotten_first() -> None:
    principals = Principals()
    principals.add("stays", 1_000, at=1, half_life_ns=DAY)
    for index in range(PRINCIPALS_MAX + 5):
        principals.add(f"p{index}", 1_000, at=2 + index, half_life_ns=DAY)
        principals.add(f"p{index}", -1_000, at=3 + index, half_life_ns=DAY)
    names = [name for name, _ in principals]
    assert len(names) == PRINCIPALS_MAX
    assert "stays" in names
    assert "p0" not in names


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 10 * WEEK)), min_size=1, max_size=12))
def test_an_average_is_the_same_however_often_it_is_brought_up_to_date(story: list[tuple[int, int]]) -> None:
    once, often, now = Decayed(), Decayed(), 1
    for held, passed in story:
        for use in (once, often):
            use.add(held - use.held, at=now, half_life_ns=WEEK)
        often.add(0, at=now + passed // 3, half_life_ns=WEEK)
        now += passed
        assert often.average_at(now, WEEK) == pytest.approx(once.average_at(now, WEEK), abs=1e-9)
        assert 0 <= once.average_at(now, WEEK) <= 8


def test_a_checkpoint_brings_back_what_was_used() -> None:
    queues = tree({"name": "a"}, {"name": "b", "parent": "a"})
    queues.hold("b", {GPU: 4_000}, at=DAY, principal="ada")
    queues.hold("b", {GPU: 2_000}, sign=-1, at=2 * DAY, principal="ada")
    other = QueueTree()
    other.hold("b", {GPU: 2_000}, principal="ada")
    for name in ("b", "a"):
        other.load(queues.state_of(queues.queues[name]))
    other.set_capacity(queues.capacity)
    assert [other.used_share(name, WEEK) for name in "ab"] == [queues.used_share(name, WEEK) for name in "ab"]
    assert other.principal_share("b", "ada", WEEK) == queues.principal_share("b", "ada", WEEK) == 1
    assert [other.state_of(other.queues[name]) for name in "ab"] == [
        queues.state_of(queues.queues[name]) for name in "ab"
    ]


# --- knobs ---------------------------------------------------------------------------------------------------------


def test_knobs_are_those_of_the_nearest_queue_above_that_names_them() -> None:
    top = QueueSpec(
        name="org", order=QueueOrder.FIFO, preemption=PreemptionPolicy(reclaim=Reclaim.NEVER), starving_after_s=60
    )
    team = QueueSpec(name="team", parent="org", preemption=PreemptionPolicy(fair_share=()), starving_after_s=30)
    policy = resolve([team, top])
    assert (policy.order, policy.reclaim, policy.starving_after_s) == (QueueOrder.FIFO, Reclaim.NEVER, 30)
    assert policy.fair_share == (), "an empty list is said, not left out"
    assert policy.within_queue == DEFAULT.within_queue
    assert resolve([]) == DEFAULT
    assert DEFAULT.fair_share == (FairShareRule.FINAL_SHARE, FairShareRule.INITIAL_SHARE)


def test_knobs_change_below_when_they_change_above() -> None:
    queues = tree({"name": "org"}, {"name": "team", "parent": "org"})
    assert queues.policy("team").order is QueueOrder.FAIR
    queues.set(QueueSpec(name="org", order=QueueOrder.FIFO), changed_at=2, at=2)
    assert queues.policy("team").order is QueueOrder.FIFO
    assert queues.policy("nowhere") == DEFAULT


@pytest.mark.parametrize(
    ("asked", "times"),
    [
        ({"left_out": ("total_run_time_s", "min_slice_s")}, (100.0, 10.0)),
        ({"total_run_time_s": 5.0, "min_slice_s": 2.0}, (5.0, 2.0)),
        ({"total_run_time_s": 5_000.0, "min_slice_s": 200.0}, (1_000.0, 20.0)),
    ],
)
def test_run_times_are_the_queue_s_where_they_were_left_out_and_within_its_maximum(
    asked: dict[str, object], times: tuple[float, float]
) -> None:
    spec = QueueSpec(name="a", run_time_default_s=100, run_time_max_s=1_000, min_slice_default_s=10, min_slice_max_s=20)
    one = JobSpec.model_validate({"name": "j", "team": "a", "task_groups": (TaskGroup(gpus=1),), **asked})
    assert resolve([spec]).run_times(one) == times


def test_a_slice_is_at_most_a_day_unless_a_queue_says_another() -> None:
    one = JobSpec.model_validate(
        {"name": "j", "team": "a", "task_groups": (TaskGroup(gpus=1),), "min_slice_s": 90 * 86_400.0}
    )
    assert resolve([QueueSpec(name="a")]).run_times(one)[1] == 86_400.0
    week = QueueSpec(name="org", min_slice_max_s=7 * 86_400.0)
    assert resolve([QueueSpec(name="a", parent="org"), week]).run_times(one)[1] == 7 * 86_400.0


def test_a_default_slice_above_the_maximum_that_holds_is_refused() -> None:
    two_days = {"name": "team", "min_slice_default_s": 2 * 86_400.0}
    refusal = tree({"name": "org"}).check(QueueSpec.model_validate({**two_days, "parent": "org"}))
    assert refusal is not None
    assert refusal.field == "min_slice_default_s"
    assert tree({"name": "org"}).check(QueueSpec.model_validate({**two_days, "min_slice_max_s": 2 * 86_400.0})) is None
    above = tree({"name": "org", "min_slice_max_s": 7 * 86_400.0})
    assert above.check(QueueSpec.model_validate({**two_days, "parent": "org"})) is None
