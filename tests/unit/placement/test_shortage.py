"""Why something does not fit, in one code and numbers."""

import pytest

from muster.placement import Fleet, GangRequest, Hold, Shortage, ShortageReason, Slot, TaskShape
from unit.placement.builders import fleet_of, gang, node, one, placed, server, task, within


def used_fleet() -> Fleet:
    """Two nodes of 8 GPUs and 64 CPUs: 6.5 GPUs and 62 CPUs free on one, 7 GPUs and 63 CPUs on the other."""
    fleet = fleet_of([node("a", rack="r0"), node("b", rack="r1")])
    fleet.hold(Hold(1000, 0, Slot(0, 0, "a", (0,), 500)))
    fleet.hold(Hold(1000, 0, Slot(0, 1, "a", (1,), 1000)))
    fleet.hold(Hold(1000, 0, Slot(0, 2, "b", (0,), 1000)))
    return fleet


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        (one(task(1, models=("B200", "GB300"))), "model: no usable node has B200 or GB300"),
        (gang((task(8), 3)), "gpu: 24 GPUs asked, 13.5 free"),
        (one(task(8)), "fragmented: 13.5 free GPUs but none of 8 on one node"),
        (gang((task(4), 3)), "fragmented: 13.5 free GPUs but room for 2 of 3 replicas"),
        (one(task(1, cpu=65)), "cpu: 65 CPU asked, at most 63 on one node beside 1 free GPUs"),
        (gang((task(cpu=5), 30)), "cpu: 30 x 5 CPU asked, 125 free"),
        (one(TaskShape(0, 600_000)), "memory: 600000 MiB asked, at most 524288 MiB on one node"),
        (gang((TaskShape(0, 600_000), 2)), "memory: 2 x 600000 MiB asked, 1048576 MiB free"),
        (gang((TaskShape(0, 300_000), 3)), "fragmented: room for 2 of 3 replicas"),
        (one(task(2, full=True)), "fragmented: 1 whole nodes with 2 GPUs, 1 CPU and 1024 MiB asked, 0 idle"),
        (gang((task(7), 1), (task(6), 1), (task(1), 1)), "fragmented: each of 3 groups would fit alone, but"),
        (gang((task(4), 2), level="rack"), "topology: the fleet has room, but one rack holds at most 1 of 2 replicas"),
        (gang((task(4), 1), level="row"), "topology: no node declares level 'row', only rack"),
    ],
)
def test_the_first_cause_that_explains_it_is_named(asked: GangRequest, detail: str) -> None:
    answer = used_fleet().place(asked)
    assert isinstance(answer, Shortage)
    assert answer.detail.startswith(detail)
    assert answer.detail.startswith(answer.reason.value)


def test_a_fleet_without_usable_nodes_says_so() -> None:
    fleet = fleet_of([node("a")])
    fleet.set_usable("a", False)
    assert fleet.place(one(task(1))) == Shortage(ShortageReason.NO_NODE, "no-node: none of 1 nodes is usable")


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        (
            gang((within("socket", 4), 2)),
            "topology: room for 1 of 2 replicas with their devices within one socket, for 2 if they may stand apart",
        ),
        (
            gang((within("socket", 4), 1), (within("pair", 3), 1)),
            "topology: room for 0 of 1 replicas with their devices within one pair, for 1 if they may stand apart",
        ),
        (one(within("socket", 9)), "fragmented: 12 free GPUs but none of 9 on one node"),
    ],
)
def test_devices_that_do_not_stand_together_are_named(asked: GangRequest, detail: str) -> None:
    fleet = fleet_of([server("a"), server("b")])
    for hold in placed(fleet, gang((task(1), 16))):
        if (hold.slot.node, *hold.slot.devices) not in {("a", 0), ("a", 4), ("b", 4), ("b", 5)}:
            fleet.release(hold)
    answer = fleet.place(asked)
    assert isinstance(answer, Shortage)
    assert answer.detail == detail


def test_nodes_and_devices_that_cannot_be_used_are_named_if_the_gang_would_fit_with_them() -> None:
    fleet = fleet_of([node("a"), node("b"), node("c")])
    placed(fleet, one(task(2)))
    fleet.set_usable("a", False)
    fleet.set_device_usable("b", 3, False)
    before = fleet.version, fleet.totals
    answer = fleet.place(gang((task(8), 2)))
    assert answer == Shortage(
        ShortageReason.HEALTH,
        "health: it would fit with 1 nodes with 6 idle GPUs and 1 devices of other nodes that are not usable;"
        " now gpu: 16 GPUs asked, 15 free",
    )
    assert (fleet.version, fleet.totals) == before, "nobody is told that anything came free"
    answer = fleet.place(gang((task(8), 3)))
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.GPU, "with all of them it would not fit either"
    fleet.set_device_usable("b", 3, True)
    assert not isinstance(fleet.place(gang((task(8), 2))), Shortage)


def test_a_domain_that_only_lacks_a_broken_node_is_a_matter_of_health() -> None:
    fleet = fleet_of([node("a", rack="r0"), node("b", rack="r0"), node("c", rack="r1")])
    fleet.set_usable("b", False)
    answer = fleet.place(gang((task(8), 2), level="rack"))
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.HEALTH
    assert answer.detail.endswith("now topology: the fleet has room, but one rack holds at most 1 of 2 replicas")


def test_a_broken_node_that_leaves_is_no_matter_of_health_any_more() -> None:
    fleet = fleet_of([node("a"), node("b"), node("c")])
    fleet.set_usable("a", False)
    fleet.set_usable("c", False)
    first, second = fleet.place(gang((task(8), 3))), gang((task(7), 3))
    assert isinstance(first, Shortage)
    assert first.reason is ShortageReason.HEALTH
    fleet.remove_node("a")
    answer = fleet.place(second)
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.GPU


def test_groups_that_each_fit_in_a_domain_but_not_together_are_a_matter_of_topology() -> None:
    fleet = fleet_of([node("a", rack="r0"), node("b", rack="r1")])
    answer = fleet.place(gang((task(5), 1), (task(4), 1), level="rack"))
    assert answer == Shortage(
        ShortageReason.TOPOLOGY, "topology: the fleet has room, but one rack holds at most 1 of 1 + 1 of 1 replicas"
    )


def test_broken_nodes_that_would_not_help_are_not_blamed() -> None:
    fleet = fleet_of([node("a", rack="r0"), node("b", rack="r1"), node("c", rack="r2")])
    fleet.set_usable("c", False)
    answer = fleet.place(gang((task(8), 2), level="rack"))
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.TOPOLOGY
