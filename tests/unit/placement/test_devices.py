"""Which devices of a node a replica gets: as close together as can be, and tight."""

import pytest

from muster.placement import (
    Fleet,
    Hold,
    NodeShape,
    ShapeError,
    Shortage,
    ShortageReason,
    Slot,
    TaskShape,
    TopologyRequest,
)
from muster.placement.shapes import GangRequest, GroupRequest
from unit.placement.builders import SOCKETS, fleet_of, gang, node, nodes_of, one, placed, server, task, within


def devices(fleet: Fleet, shape: TaskShape) -> tuple[int, ...]:
    """Where one replica is placed."""
    (hold,) = placed(fleet, one(shape))
    return hold.slot.devices


def busy(*taken: int) -> Fleet:
    """One server with these devices held."""
    fleet = fleet_of([server("a")])
    for hold in placed(fleet, gang((task(1), 8))):
        if not set(hold.slot.devices) & set(taken):
            fleet.release(hold)
    return fleet


@pytest.mark.parametrize(
    ("gpus", "taken", "expected"),
    [
        (2, (0,), (2, 3)),  # the other pair of the broken socket, not the whole socket
        (1, (0,), (1,)),  # no whole pair is broken
        (1, (0, 1, 2, 3, 4), (5,)),
        (1, (0, 1), (2,)),  # no idle socket is broken
        (2, (0, 2), (4, 5)),  # one pair rather than two halves
        (2, (0, 2, 4, 6), (1, 3)),  # two halves of one socket
        (4, (0,), (4, 5, 6, 7)),  # one socket holds all
        (3, (0,), (1, 2, 3)),  # the tighter socket
        (3, (), (0, 1, 2)),  # a pair first
        (5, (0, 1, 2), (3, 4, 5, 6, 7)),  # across sockets only if need be: all of the fuller one
        (6, (3,), (0, 1, 4, 5, 6, 7)),  # for what is left a pair
        (2, (0, 2, 3, 4, 5, 6), (1, 7)),  # at worst anywhere
    ],
)
def test_devices_are_taken_in_the_narrowest_domain_that_holds_them(
    gpus: int, taken: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert devices(busy(*taken), task(gpus)) == expected


def test_a_share_is_taken_from_a_broken_device_and_else_where_least_is_whole() -> None:
    fleet = busy(4, 5)
    assert devices(fleet, task(share=300)) == (6,), "of the tighter socket"
    assert devices(fleet, task(share=300)) == (6,)
    assert devices(fleet, task(share=800)) == (7,), "its pair is broken already"
    assert devices(fleet, task(4)) == (0, 1, 2, 3)


def test_of_equally_tight_pairs_the_one_in_the_tighter_socket_is_taken() -> None:
    fleet = fleet_of([server("a")])
    for device, share in ((0, 1000), (4, 500), (5, 500)):
        fleet.hold(Hold(0, 0, Slot(0, 0, "a", (device,), share)))
    assert devices(fleet, task(2)) == (6, 7), "three idle devices are left on the other socket"


def test_broken_devices_are_not_counted_in_their_domain() -> None:
    fleet = fleet_of([server("a")])
    fleet.set_device_usable("a", 5, False)
    assert devices(fleet, task(4)) == (0, 1, 2, 3)
    assert devices(fleet, task(1)) == (4,)
    assert devices(fleet, task(2)) == (6, 7)


def test_a_required_level_keeps_a_replica_off_nodes_where_its_devices_would_stand_apart() -> None:
    fleet = busy(0, 4)
    assert isinstance(fleet.place(one(within("socket", 4))), Shortage)
    assert isinstance(fleet.place(one(within("pair", 3))), Shortage), "no pair has three devices"
    assert isinstance(fleet.place(gang((within("socket", 2), 4))), Shortage), "each socket has one pair and one half"
    assert len(placed(fleet, gang((within("pair", 2), 2)))) == 2


def test_a_required_level_is_not_met_by_a_node_that_does_not_declare_it() -> None:
    fleet = fleet_of([node("plain")])
    assert isinstance(fleet.place(one(within("socket", 1))), Shortage)
    assert placed(fleet, one(within("socket", 0))), "a replica without devices is within any domain"
    fleet.add_node(server("server"))
    assert nodes_of(placed(fleet, one(within("socket", 4)))) == ["server"]


def test_a_full_node_is_within_a_level_only_if_it_is_one_domain_of_it() -> None:
    whole = TaskShape(0, 0, gpus=2, full_node=True, within="socket", within_required=True)
    fleet = fleet_of([server("two"), NodeShape("one", 8000, 8192, 2, "H100", (), (("socket", (7, 7)),))])
    assert nodes_of(placed(fleet, one(whole))) == ["one"]
    assert isinstance(fleet.place(one(whole)), Shortage)


def test_a_preferred_level_comes_before_packing_and_never_keeps_a_replica_waiting() -> None:
    fleet = fleet_of([server("a"), server("b")])
    for hold in placed(fleet, gang((task(1), 8), level="node")):
        if hold.slot.devices[0] in {0, 1, 4, 5}:
            fleet.release(hold)  # two pairs are left on a, one on each socket
    assert nodes_of([*fleet.place(one(task(4)))]) == ["a"], "an idle node is not broken for it"
    assert nodes_of(placed(fleet, one(within("socket", 4, required=False)))) == ["b"]
    assert nodes_of(placed(fleet, one(within("socket", 4, required=False)))) == ["b"]
    assert nodes_of(placed(fleet, one(within("socket", 4, required=False)))) == ["a"]


def test_of_nodes_in_use_the_one_where_devices_stand_close_is_taken_though_it_is_emptier() -> None:
    fleet = fleet_of([server("a"), server("b")])
    for hold in placed(fleet, gang((task(1), 8), level="node")):
        if hold.slot.devices[0] in {0, 4}:
            fleet.release(hold)
    placed(fleet, gang((task(5), 1)))
    assert nodes_of(placed(fleet, one(task(2)))) == ["b"]
    assert nodes_of(placed(fleet, one(task(2)))) == ["a"]


def test_a_gangs_wish_for_a_level_inside_nodes_is_for_the_devices_of_each_replica() -> None:
    fleet = fleet_of([server("a"), server("b")])
    fleet.hold(fleet.place(one(task(1)))[0])
    pending = TopologyRequest("socket", required=True)
    request = GangRequest((GroupRequest(task(4), 3), GroupRequest(task(), 1)), pending)
    holds = placed(fleet, request)
    assert [set(hold.slot.devices) for hold in holds[:3]].count({4, 5, 6, 7}) == 2
    assert isinstance(fleet.place(GangRequest((GroupRequest(task(4), 1),), pending)), Shortage)


def test_nodes_that_differ_only_in_how_their_devices_are_numbered_are_one_case() -> None:
    mixed = (("socket", (0, 1, 0, 1, 0, 1, 0, 1)), ("pair", (0, 1, 0, 1, 2, 3, 2, 3)))
    fleet = fleet_of([server("a"), NodeShape("b", 64_000, 64 * 8192, 8, "H100", (), mixed)])
    assert len(fleet.ledger.live) == 1
    assert devices(fleet, task(4)) == (0, 1, 2, 3)
    assert devices(fleet, task(4)) == (4, 5, 6, 7)
    assert devices(fleet, task(2)) == (0, 2)
    assert devices(fleet, task(4)) == (1, 3, 5, 7)
    assert devices(fleet, task(2)) == (4, 6)


def test_demand_that_requires_a_level_scores_what_breaks_its_domains() -> None:
    fleet = fleet_of([server("a")])
    fleet.set_demand({within("socket", 4): 1.0})
    placed(fleet, one(task(1)))
    assert fleet.fragmentation() == 3 / 7, "the three devices beside it are of no use to it"


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ((("socket", (0, 0, 1)),), "each of 8 devices"),
        ((("socket", (0,) * 8), ("socket", (0,) * 8)), "each level once"),
        ((("node", (0,) * 8),), "none of them 'node'"),
        ((("rack", (0,) * 8),), "each level once"),
        ((SOCKETS[1], SOCKETS[0]), "'socket' must lie within one"),
    ],
)
def test_device_domains_that_contradict_the_node_are_refused(inside: object, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        NodeShape("a", 1, 1, 8, "H100", (("rack", "r0"),), inside)  # type: ignore[arg-type]


def test_required_within_needs_a_level() -> None:
    with pytest.raises(ShapeError, match="within"):
        TaskShape(1, 1, gpus=1, within_required=True)


def test_levels_inside_nodes_are_told_from_those_of_nodes_as_nodes_come_and_go() -> None:
    fleet = fleet_of([node("a")])
    request = gang((task(4), 1), level="socket")
    watch = fleet.rooms.watch(request)
    answer = fleet.place(request)
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.TOPOLOGY
    assert not fleet.rooms.has_room(watch)
    fleet.add_node(server("b"))
    assert fleet.rooms.has_room(watch)
    assert nodes_of(placed(fleet, gang((task(4), 2), level="socket"))) == ["b", "b"]
    assert not fleet.rooms.has_room(watch)
