"""Groups with a topology wish of their own, within the gang's."""

from collections.abc import Sequence

from muster.placement import (
    Fleet,
    GangRequest,
    GroupRequest,
    Hold,
    Shortage,
    ShortageReason,
    TaskShape,
    TopologyRequest,
)
from unit.placement.builders import fleet_of, gang, node, nodes_of, one, placed, server, task


def blocks(*racks_per_block: int, per_rack: int = 2) -> Fleet:
    """Nodes b<block>-r<rack>-n<i> of 8 GPUs."""
    return fleet_of(
        [
            node(f"b{block}-r{rack}-n{i}", block=f"b{block}", rack=f"r{rack}")
            for block, racks in enumerate(racks_per_block)
            for rack in range(racks)
            for i in range(per_rack)
        ]
    )


def wished(
    *groups: tuple[TaskShape, int, str], level: str = "", required: bool = True, of_all: bool = True
) -> GangRequest:
    """Groups with a level each ("": none); required: of the groups, of_all: of the gang."""
    return GangRequest(
        tuple(
            GroupRequest(shape, n, None, TopologyRequest(own, required) if own else None) for shape, n, own in groups
        ),
        TopologyRequest(level, of_all) if level else None,
    )


def racks(holds: Sequence[Hold], group: int) -> set[str]:
    return {hold.slot.node[:5] for hold in holds if hold.slot.group == group}


def test_each_group_stands_in_a_rack_of_its_own() -> None:
    holds = placed(blocks(3), wished((task(8), 2, "rack"), (task(8), 2, "rack")))
    assert (len(racks(holds, 0)), len(racks(holds, 1))) == (1, 1)
    assert racks(holds, 0) != racks(holds, 1)


def test_groups_stay_within_the_domain_of_the_gang() -> None:
    fleet = blocks(1, 2)
    holds = placed(fleet, wished((task(8), 2, "rack"), (task(8), 2, "rack"), level="block"))
    assert {name[:2] for name in nodes_of(holds)} == {"b1"}
    assert isinstance(fleet.place(wished((task(8), 1, "rack"), (task(8), 2, "rack"), level="block")), Shortage)


def test_a_group_without_a_wish_goes_where_the_gang_may() -> None:
    holds = placed(blocks(2, per_rack=3), wished((task(8), 3, "rack"), (task(8), 3, ""), level="block"))
    assert len(racks(holds, 0)) == 1
    assert len(holds) == 6


def test_a_preferred_wish_of_a_group_widens_to_the_gangs_domain_and_no_further() -> None:
    fleet = blocks(2, 2)
    holds = placed(fleet, wished((task(8), 3, "rack"), level="block", required=False))
    assert len(racks(holds, 0)) == 2
    assert len({name[:2] for name in nodes_of(holds)}) == 1
    assert isinstance(fleet.place(wished((task(8), 5, "rack"), level="block", required=False)), Shortage)
    assert len(placed(fleet, wished((task(8), 5, "rack"), required=False))) == 5


def test_a_wish_wider_than_the_gangs_domain_is_met_by_it() -> None:
    assert len(placed(blocks(1), wished((task(8), 2, "block"), level="rack"))) == 2


def test_a_group_on_one_node_beside_one_that_may_spread() -> None:
    holds = placed(blocks(2), wished((task(2), 4, "node"), (task(8), 3, ""), level="block"))
    assert len({hold.slot.node for hold in holds if hold.slot.group == 0}) == 1


def test_a_groups_wish_for_a_level_inside_nodes_is_for_its_devices_only() -> None:
    fleet = fleet_of([server("a")])
    placed(fleet, one(task(1)))
    socket = TopologyRequest("socket", required=True)
    request = GangRequest((GroupRequest(task(4), 1, None, socket), GroupRequest(task(1), 3)))
    (hold, *_) = placed(fleet, request)
    assert hold.slot.devices == (4, 5, 6, 7)


def test_a_group_that_no_domain_holds_is_told_with_the_most_that_one_does() -> None:
    fleet = blocks(2)
    request = wished((task(8), 3, "rack"), (task(), 1, ""))
    watch = fleet.rooms.watch(request)
    assert not fleet.rooms.has_room(watch)
    answer = fleet.place(request)
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.TOPOLOGY
    assert answer.detail == "topology: the fleet has room, but one rack holds at most 2 of 3 replicas"
    answer = fleet.place(wished((task(8), 1, "row")))
    assert isinstance(answer, Shortage)
    assert "'row'" in answer.detail


def test_a_level_wished_by_a_group_that_is_only_preferred_may_be_unknown() -> None:
    assert len(placed(blocks(1), wished((task(8), 2, "row"), required=False))) == 2


def test_a_preferred_gang_that_no_domain_holds_takes_few_of_the_widest() -> None:
    fleet = blocks(1, 3, 2)
    holds = placed(fleet, gang((task(8), 8), level="rack", required=False))
    assert {name[:2] for name in nodes_of(holds)} == {"b1", "b0"}, "the largest, then the tightest for what is left"


def test_nodes_outside_all_domains_are_the_last_that_a_preferred_gang_takes() -> None:
    fleet = blocks(1)
    fleet.add_node(node("a-loose"))
    fleet.add_node(node("b-loose"))
    assert nodes_of(placed(fleet, gang((task(8), 3), level="block", required=False)))[:2] == ["b0-r0-n0", "b0-r0-n1"]


def test_a_preferred_group_that_no_domain_holds_takes_few_of_the_widest() -> None:
    fleet = blocks(1, 3, 2)
    placed(fleet, one(task(1)))
    holds = placed(fleet, wished((task(8), 8, "rack"), required=False))
    assert {name[:2] for name in nodes_of(holds)} == {"b1", "b2"}
