"""A gang that may run with fewer replicas gets as many as fit, and nothing below the least."""

from collections import Counter

import pytest

from muster.placement import Fleet, GangRequest, GroupRequest, ShapeError, Shortage, TaskShape, TopologyRequest
from unit.placement.builders import fleet_of, gang, node, nodes_of, one, placed, task


def elastic(*groups: tuple[TaskShape, int, int], level: str = "", required: bool = True) -> GangRequest:
    """Groups of a shape, the least and the most replicas."""
    request = TopologyRequest(level, required) if level else None
    return GangRequest(tuple(GroupRequest(shape, most, least) for shape, least, most in groups), request)


def sizes(fleet: Fleet, request: GangRequest) -> list[int]:
    """Replicas placed per group; none if the gang does not fit."""
    holds = fleet.find(request) or ()
    return [sum(hold.slot.group == group for hold in holds) for group in range(len(request.groups))]


@pytest.mark.parametrize(("least", "most", "expected"), [(1, 3, 3), (2, 4, 4), (2, 9, 4), (4, 9, 4), (5, 9, 0)])
def test_as_many_replicas_as_fit_between_least_and_most(least: int, most: int, expected: int) -> None:
    fleet = fleet_of([node("a"), node("b")])
    assert sizes(fleet, elastic((task(4), least, most))) == [expected]


def test_replicas_are_numbered_without_a_gap() -> None:
    holds = placed(fleet_of([node("a")]), elastic((task(2), 1, 9), (task(), 1, 1)))
    assert [(hold.slot.group, hold.slot.replica) for hold in holds] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]


def test_all_groups_get_their_least_before_any_grows_and_the_largest_grows_first() -> None:
    fleet = fleet_of([node("a")])
    assert sizes(fleet, elastic((task(2), 1, 4), (task(1), 3, 8))) == [2, 4]
    assert sizes(fleet, elastic((task(1), 3, 8), (task(2), 1, 4))) == [4, 2]
    assert sizes(fleet, elastic((task(4), 1, 2), (task(4), 1, 2))) == [1, 1]


def test_a_required_domain_bounds_the_growth_and_the_one_that_takes_most_is_chosen() -> None:
    nodes = [node(f"r{rack}-{i}", rack=f"r{rack}") for rack, size in enumerate((1, 3, 2)) for i in range(size)]
    fleet = fleet_of(nodes)
    assert Counter(name[:2] for name in nodes_of(placed(fleet, elastic((task(8), 1, 6), level="rack")))) == {"r1": 3}
    assert Counter(name[:2] for name in nodes_of(placed(fleet, elastic((task(8), 1, 2), level="rack")))) == {"r2": 2}
    assert sizes(fleet, elastic((task(8), 2, 3), level="rack")) == [0]


def test_a_preferred_domain_never_makes_a_gang_smaller() -> None:
    fleet = fleet_of([node(f"r{i // 2}-{i}", rack=f"r{i // 2}") for i in range(4)])
    assert sizes(fleet, elastic((task(8), 1, 3), level="rack", required=False)) == [3]
    placed(fleet, one(task(8)))
    assert sizes(fleet, elastic((task(8), 1, 9), level="rack", required=False)) == [3]
    holds = placed(fleet, elastic((task(8), 1, 2), level="rack", required=False))
    assert {name[:2] for name in nodes_of(holds)} == {"r1"}


def test_a_group_grows_within_its_own_domain() -> None:
    fleet = fleet_of([node(f"r{i // 2}-{i}", rack=f"r{i // 2}") for i in range(4)])
    pending = TopologyRequest("rack", required=True)
    request = GangRequest((GroupRequest(task(8), 4, 1, pending), GroupRequest(task(8), 4, 1, pending)))
    holds = placed(fleet, request)
    racks = [{h.slot.node[:2] for h in holds if h.slot.group == group} for group in (0, 1)]
    assert [len(rack) for rack in racks] == [1, 1]
    assert len(holds) == 4


def test_a_group_that_may_shrink_can_be_told_so() -> None:
    fleet = fleet_of([node("a")])
    watch = fleet.rooms.watch(elastic((task(4), 2, 4)))
    assert fleet.rooms.has_room(watch), "the least is what is needed"
    placed(fleet, one(task(1)))
    assert not fleet.rooms.has_room(watch)
    answer = fleet.place(elastic((task(2), 4, 8)))
    assert isinstance(answer, Shortage)
    assert answer.detail == "gpu: 8 GPUs asked, 7 free"
    fleet.release(placed(fleet, one(task(1)))[0])
    wide = fleet_of([node("a"), node("b"), node("c")])
    for _ in range(3):
        placed(wide, one(task(5, cpu=1)))
    answer = wide.place(elastic((task(2), 4, 8)))
    assert isinstance(answer, Shortage)
    assert answer.detail == "fragmented: 9 free GPUs but room for 3 of at least 4 replicas"


def test_a_gang_limited_to_fewer_replicas_keeps_its_least() -> None:
    request = elastic((task(4), 1, 4), (task(1), 2, 2))
    assert request.limited((2, 9)) == elastic((task(4), 1, 2), (task(1), 2, 2))
    assert request.limited((4, 2)) is request
    assert request.is_elastic
    assert not request.limited((1, 2)).is_elastic
    with pytest.raises(ShapeError, match="least"):
        request.limited((1, 1))
    with pytest.raises(ShapeError, match="2 groups"):
        request.limited((1,))


@pytest.mark.parametrize("least", [0, 3])
def test_a_least_that_cannot_be_is_refused(least: int) -> None:
    with pytest.raises(ShapeError, match="least must be 1 to replicas"):
        GroupRequest(task(1), 2, least)


def test_a_gang_of_one_size_is_not_elastic() -> None:
    assert not gang((task(1), 3)).is_elastic
    assert not elastic((task(1), 3, 3)).is_elastic


def test_a_gang_that_fits_as_a_whole_is_not_made_smaller_by_the_order_of_growing() -> None:
    fleet = fleet_of([node("a", gpus=6), node("b", gpus=7)])
    assert sizes(fleet, elastic((task(3), 1, 4), (task(1), 1, 1))) == [4, 1]
