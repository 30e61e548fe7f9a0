"""What the wishes of a gang and of its groups come to together."""

import pytest

from muster.placement import GangRequest, GroupRequest, TopologyRequest
from muster.placement.plans import plans
from unit.placement.builders import task, within


def wish(level: str, *, required: bool) -> TopologyRequest:
    return TopologyRequest(level, required)


@pytest.mark.parametrize(
    ("of_gang", "of_group", "expected"),
    [
        (wish("socket", required=True), None, ("socket", True)),
        (wish("socket", required=False), None, ("socket", False)),
        (None, wish("pair", required=True), ("pair", True)),
        (wish("socket", required=True), wish("pair", required=True), ("pair", True)),
        (wish("socket", required=False), wish("pair", required=False), ("pair", False)),
        (wish("socket", required=False), wish("pair", required=True), ("pair", True)),
        (wish("socket", required=True), wish("pair", required=False), ("socket", True)),
        (wish("rack", required=True), wish("pair", required=False), ("pair", False)),
    ],
)
def test_of_two_wishes_for_the_devices_the_groups_own_counts_unless_only_the_gangs_is_required(
    of_gang: TopologyRequest | None, of_group: TopologyRequest | None, expected: tuple[str, bool]
) -> None:
    gang = GangRequest((GroupRequest(task(2), 1, None, of_group),), of_gang)
    (plan,) = plans(gang, {"socket", "pair"}, ())
    shape = plan.groups[0].shape
    assert (shape.within, shape.within_required) == expected
    assert plan.groups[0].wish is None
    assert (plan.wish is not None) == (of_gang is not None and of_gang.level == "rack")


def test_what_a_shape_asks_itself_is_kept() -> None:
    gang = GangRequest((GroupRequest(within("pair", 2), 1),), wish("socket", required=True))
    (plan,) = plans(gang, {"socket", "pair"}, ())
    assert plan.groups[0].shape == within("pair", 2)


def test_levels_of_nodes_stay_wishes_of_the_plan_and_of_the_group() -> None:
    gang = GangRequest((GroupRequest(task(2), 1, None, wish("rack", required=True)),), wish("block", required=True))
    (plan,) = plans(gang, {"socket"}, ())
    assert (plan.wish, plan.groups[0].wish) == (wish("block", required=True), wish("rack", required=True))


def test_one_model_makes_one_plan_per_model_that_every_group_allows() -> None:
    groups = (GroupRequest(task(1, models=("A", "B")), 1), GroupRequest(task(1), 1), GroupRequest(task(), 1))
    found = {plan.model: plan for plan in plans(GangRequest(groups, same_model=True), (), ("A", "B", "C"))}
    assert found.keys() == {"A", "B"}
    assert [group.shape.gpu_models for group in found["B"].groups] == [("B",), ("B",), ()]


def test_the_largest_shape_is_placed_first_and_each_has_its_least_to_begin_with() -> None:
    groups = (GroupRequest(task(1), 4, 2), GroupRequest(task(4), 3, 1))
    (plan,) = plans(GangRequest(groups), (), ())
    assert [(group.index, group.replicas, group.most) for group in plan.groups] == [(1, 1, 3), (0, 2, 4)]
    assert [(group.replicas, group.most) for group in plan.with_counts((2, 4)).groups] == [(2, 2), (4, 4)]
