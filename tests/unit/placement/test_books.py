"""What is held, what is usable, and when the fleet says that something came free."""

import pytest

from muster.placement import GpuTotals, Hold, HoldError, Shortage, ShortageReason, Slot
from unit.placement.builders import fleet_of, gang, node, nodes_of, one, placed, task


def hold(*devices: int, cpu: int = 1000, memory: int = 0, milli: int = 1000, name: str = "a") -> Hold:
    return Hold(cpu, memory, Slot(0, 0, name, devices, milli if devices else 0))


def test_totals_follow_holds_nodes_and_usability() -> None:
    fleet = fleet_of([node("a", gpus=4), node("t", gpus=2, model="T4"), node("c", gpus=0, model="")])
    fleet.hold(hold(0, 1))
    fleet.hold(hold(3, milli=300))
    fleet.set_device_usable("a", 2, False)
    assert fleet.totals == {"H100": GpuTotals(4000, 2300, 700), "T4": GpuTotals(2000, 0, 2000)}
    fleet.set_usable("a", False)
    fleet.remove_node("t")
    assert fleet.totals == {"H100": GpuTotals(4000, 2300, 0)}


def test_an_unusable_node_keeps_its_holds_and_takes_no_new_ones() -> None:
    fleet = fleet_of([node("a"), node("b")])
    held = placed(fleet, one(task(4)))
    fleet.set_usable("a", False)
    assert nodes_of(placed(fleet, one(task(4)))) == ["b"]
    fleet.release(held[0])
    assert nodes_of(placed(fleet, one(task(4)))) == ["b"]
    assert isinstance(fleet.place(one(task(4))), Shortage)
    fleet.set_usable("a", True)
    assert nodes_of(placed(fleet, one(task(8)))) == ["a"]


def test_an_unusable_device_takes_no_new_holds_and_keeps_full_node_jobs_away() -> None:
    fleet = fleet_of([node("a", gpus=2)])
    fleet.set_device_usable("a", 0, False)
    assert isinstance(fleet.place(one(task(1, full=True))), Shortage)
    assert placed(fleet, one(task(share=500)))[0].slot.devices == (1,)
    assert isinstance(fleet.place(one(task(share=600))), Shortage)
    fleet.set_device_usable("a", 0, True)
    assert placed(fleet, one(task(1)))[0].slot.devices == (0,)


def test_a_recovered_hold_is_entered_on_an_unusable_node_too() -> None:
    fleet = fleet_of([node("a")])
    fleet.set_usable("a", False)
    fleet.hold(hold(5))
    fleet.set_usable("a", True)
    assert placed(fleet, one(task(7)))[0].slot.devices == (0, 1, 2, 3, 4, 6, 7)


@pytest.mark.parametrize(
    "second",
    [
        hold(0),
        hold(1, milli=501),
        hold(2, cpu=64_000),
        hold(2, memory=64 * 8192 + 1),
        hold(8),
        hold(-1),
        hold(2, 2, milli=100),
        hold(2, milli=0),
        hold(2, milli=1001),
        hold(2, cpu=-1),
        hold(2, name="b"),
    ],
)
def test_a_hold_that_cannot_be_is_refused_and_changes_nothing(second: Hold) -> None:
    fleet = fleet_of([node("a")])
    fleet.hold(hold(0))
    fleet.hold(hold(1, milli=500, cpu=0))
    before = fleet.totals
    with pytest.raises(HoldError):
        fleet.hold(second)
    assert fleet.totals == before
    assert not isinstance(fleet.place(gang((task(1, cpu=10), 6))), Shortage)


@pytest.mark.parametrize("other", [hold(1), hold(0, cpu=2000), hold(0, memory=1), hold(0, name="b"), hold(9)])
def test_releasing_what_is_not_held_is_refused_and_changes_nothing(other: Hold) -> None:
    fleet = fleet_of([node("a")])
    fleet.hold(hold(0))
    before = fleet.totals, fleet.version
    with pytest.raises(HoldError):
        fleet.release(other)
    assert (fleet.totals, fleet.version) == before
    fleet.release(hold(0))


def test_nodes_are_added_once_and_removed_empty() -> None:
    fleet = fleet_of([node("a")])
    with pytest.raises(HoldError):
        fleet.add_node(node("a"))
    fleet.hold(hold(0))
    with pytest.raises(HoldError, match="1 holds"):
        fleet.remove_node("a")
    fleet.release(hold(0))
    fleet.remove_node("a")
    answer = fleet.place(one(task(1)))
    assert isinstance(answer, Shortage)
    assert answer.reason is ShortageReason.NO_NODE


def test_the_version_grows_when_capacity_comes_free_and_only_then() -> None:
    fleet = fleet_of([node("a")])
    versions = [fleet.version]

    def grew() -> bool:
        versions.append(fleet.version)
        return versions[-1] > versions[-2]

    fleet.hold(hold(0))
    fleet.place(gang((task(1), 3)))
    fleet.place(one(task(8)))
    fleet.set_device_usable("a", 1, False)
    fleet.set_usable("a", False)
    fleet.set_usable("a", False)
    assert not grew()
    fleet.set_usable("a", True)
    assert grew()
    fleet.set_device_usable("a", 1, True)
    assert grew()
    fleet.release(hold(0))
    assert grew()
    fleet.add_node(node("b"))
    assert grew()


def test_a_gang_that_did_not_fit_is_tried_again_once_capacity_came_free() -> None:
    fleet = fleet_of([node("a")])
    held = placed(fleet, one(task(1)))
    big = gang((task(4), 2))
    first = fleet.place(big)
    assert fleet.place(big) is first
    fleet.release(held[0])
    assert len(placed(fleet, big)) == 2


def test_what_could_ever_fit_is_judged_on_empty_usable_nodes() -> None:
    fleet = fleet_of([node("a")])
    placed(fleet, one(task(8)))
    fleet.set_usable("a", False)
    assert fleet.could_ever_fit(one(task(8))) is None
    too_big = gang((task(8), 2))
    assert fleet.could_ever_fit(too_big) is not None
    fleet.add_node(node("b"))
    assert fleet.could_ever_fit(too_big) is None
    fleet.remove_node("b")
    assert fleet.could_ever_fit(too_big) is not None
