"""Gangs are placed whole or not at all, within the domain that they wish for."""

from collections import Counter
from collections.abc import Sequence

import pytest

from muster.placement import Fleet, GangRequest, GroupRequest, Hold, ShapeError, Shortage, ShortageReason, TaskShape
from unit.placement.builders import fleet_of, gang, node, nodes_of, one, placed, task


def racks(count: int = 3, *, per_rack: int = 2, per_block: int = 2) -> Fleet:
    return fleet_of(
        [
            node(f"r{rack}-n{i}", block=f"b{rack // per_block}", rack=f"r{rack % per_block}")
            for rack in range(count)
            for i in range(per_rack)
        ]
    )


def sized_racks(*sizes: int) -> Fleet:
    """One block; rack r0 has the first number of nodes with 8 GPUs, and so on."""
    return fleet_of(
        [node(f"r{rack}-n{i}", block="b0", rack=f"r{rack}") for rack, size in enumerate(sizes) for i in range(size)]
    )


def racks_of(holds: Sequence[Hold]) -> dict[str, int]:
    return dict(Counter(name.split("-")[0] for name in nodes_of(holds)))


def test_a_gang_gets_one_hold_per_replica_in_the_order_of_the_request() -> None:
    holds = placed(fleet_of([node("a"), node("b")]), gang((task(1), 2), (task(4), 3)))
    assert [(hold.slot.group, hold.slot.replica) for hold in holds] == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]


def test_a_gang_that_fits_in_part_is_not_placed_and_leaves_no_trace() -> None:
    fleet = fleet_of([node("a"), node("b")])
    before = fleet.totals, fleet.version
    assert isinstance(fleet.place(gang((task(5), 2), (task(3), 3))), Shortage)
    assert (fleet.totals, fleet.version) == before
    assert len(placed(fleet, gang((task(8), 2)))) == 2


def test_big_replicas_are_placed_first_so_that_small_ones_do_not_take_their_place() -> None:
    fleet = fleet_of([node("a", gpus=4), node("b", gpus=8)])
    holds = placed(fleet, gang((task(1), 4), (task(8), 1)))
    assert nodes_of(holds) == ["a", "a", "a", "a", "b"]


def test_a_required_domain_holds_all_replicas() -> None:
    holds = placed(racks(), gang((task(4), 4), level="rack"))
    assert len({name.split("-")[0] for name in nodes_of(holds)}) == 1


def test_the_tightest_domain_that_fits_is_chosen() -> None:
    fleet = sized_racks(3, 4, 2)
    assert racks_of(placed(fleet, gang((task(8), 2), level="rack"))) == {"r2": 2}
    assert racks_of(placed(fleet, gang((task(8), 2), level="rack"))) == {"r0": 2}


def test_racks_of_two_blocks_that_share_a_name_are_two_domains() -> None:
    answer = racks(4, per_rack=1).place(gang((task(8), 2), level="rack"))
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.TOPOLOGY


def test_a_gang_too_big_for_a_rack_takes_the_largest_first_and_then_the_tightest() -> None:
    assert racks_of(placed(sized_racks(3, 2, 2, 1), gang((task(8), 5), level="block"))) == {"r0": 3, "r1": 2}
    assert racks_of(placed(sized_racks(3, 3, 2), gang((task(8), 5), level="block"))) == {"r0": 3, "r2": 2}


def test_a_gang_that_one_rack_of_the_block_can_hold_is_not_split_by_group() -> None:
    holds = placed(sized_racks(1, 2), gang((task(8), 1), (task(4), 2), level="block"))
    assert racks_of(holds) == {"r1": 3}


def test_a_preferred_rack_is_sought_in_every_block_before_racks_are_mixed() -> None:
    tight, roomy = [("b0", "r0"), ("b0", "r1")], [("b1", "r0"), ("b1", "r0"), ("b1", "r1")]
    fleet = fleet_of([node(f"n{i}", block=block, rack=rack) for i, (block, rack) in enumerate([*tight, *roomy])])
    assert nodes_of(placed(fleet, gang((task(8), 2), level="rack", required=False))) == ["n2", "n3"]


def test_groups_of_one_gang_share_the_required_domain() -> None:
    fleet = racks()
    placed(fleet, gang((task(8), 1), level="rack"))
    holds = placed(fleet, gang((task(8), 1), (task(4), 2), level="rack"))
    assert len({name.split("-")[0] for name in nodes_of(holds)}) == 1


def test_within_a_domain_too_the_node_is_chosen_by_score() -> None:
    fleet = fleet_of([node("narrow", gpus=1, cpu=8, rack="r0"), node("wide", gpus=2, cpu=64, rack="r0")])
    fleet.set_demand({task(1, cpu=8): 1.0})
    assert nodes_of(placed(fleet, gang((task(cpu=4), 1), level="rack"))) == ["wide"]


def test_a_required_node_holds_the_whole_gang() -> None:
    fleet = fleet_of([node("a", gpus=2), node("b", gpus=4)])
    assert set(nodes_of(placed(fleet, gang((task(1), 3), level="node")))) == {"b"}
    assert isinstance(fleet.place(gang((task(1), 3), level="node")), Shortage)


def test_a_preferred_level_widens_one_level_at_a_time_and_ends_anywhere() -> None:
    def spread(replicas: int) -> tuple[int, int]:
        holds = placed(racks(4), gang((task(8), replicas), level="rack", required=False))
        taken = {int(name[1]) for name in nodes_of(holds)}
        return len(taken), len({rack // 2 for rack in taken})

    assert spread(2) == (1, 1)
    assert spread(3) == (2, 1)
    assert spread(5) == (3, 2)


def test_a_level_that_nobody_declares_is_refused_where_required_and_ignored_where_preferred() -> None:
    fleet = racks()
    answer = fleet.place(gang((task(1), 1), level="row"))
    assert isinstance(answer, Shortage)
    assert "'row'" in answer.detail
    assert placed(fleet, gang((task(1), 1), level="row", required=False))


def test_nodes_outside_any_domain_take_no_part_in_required_ones() -> None:
    fleet = fleet_of([node("loose"), node("racked", rack="r0")])
    assert nodes_of(placed(fleet, gang((task(1), 1), level="rack"))) == ["racked"]
    fleet.remove_node("loose")
    assert isinstance(fleet.place(gang((task(8), 1), level="rack")), Shortage)


def test_a_level_goes_with_the_last_node_that_declared_it() -> None:
    fleet = fleet_of([node("loose"), node("racked", rack="r0")])
    fleet.remove_node("racked")
    answer = fleet.place(gang((task(1), 2), level="rack"))
    assert isinstance(answer, Shortage)
    assert answer.detail == "topology: no node declares level 'rack', nor any other"


def test_a_gang_of_fractions_fills_devices_exactly() -> None:
    fleet = fleet_of([node("a", gpus=2), node("b", gpus=2)])
    placed(fleet, gang((task(share=250), 16)))
    assert fleet.totals["H100"].free_milli == 0
    assert isinstance(fleet.place(one(task(share=1))), Shortage)


@pytest.mark.parametrize(
    "build",
    [
        lambda: TaskShape(-1, 0),
        lambda: TaskShape(1, 1, gpus=1, gpu_milli=500),
        lambda: TaskShape(1, 1, gpu_milli=1000),
        lambda: GroupRequest(TaskShape(1, 1), 0),
        lambda: GangRequest(()),
        lambda: node("a", node="x"),
        lambda: node("a", gpus=-1),
    ],
)
def test_contradictory_requests_are_refused_when_they_are_made(build: object) -> None:
    assert callable(build)
    with pytest.raises(ShapeError):
        build()
