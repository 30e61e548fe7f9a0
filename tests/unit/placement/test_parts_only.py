"""Nodes of whose devices only parts can be had."""

import pytest

from muster.placement import Fleet, Hold, HoldError, NodeShape, Slot, TaskShape
from unit.placement.builders import fleet_of, one, task


def fleet(*sizes: int, devices: int = 1, parts_only: bool = True) -> Fleet:
    return fleet_of([NodeShape("shared", 64_000, 640_000, devices, "H100", share_sizes=sizes, parts_only=parts_only)])


def all_placed(on: Fleet, shape: TaskShape) -> list[Hold]:
    """Replicas of the shape, one after the other, as many as fit."""
    found: list[Hold] = []
    while (holds := on.find(one(shape))) is not None:
        for hold in holds:
            on.hold(hold)
            found.append(hold)
    return found


def test_no_device_is_had_whole() -> None:
    assert all_placed(fleet(143, devices=2), task(1)) == []
    assert len(all_placed(fleet(143, devices=2, parts_only=False), task(1))) == 2


def test_the_node_is_not_had_whole() -> None:
    assert all_placed(fleet(143), task(1, full=True)) == []
    assert all_placed(fleet(143), task(full=True)) == []


@pytest.mark.parametrize(("size", "fit"), [(143, 7), (286, 3), (429, 2), (500, 2), (125, 8), (100, 10)])
def test_as_many_parts_fit_as_a_device_gives(size: int, fit: int) -> None:
    assert len(all_placed(fleet(size), task(share=size))) == fit


def test_parts_come_back() -> None:
    made = fleet(143)
    for hold in all_placed(made, task(share=100)):
        made.release(hold)
    assert len(all_placed(made, task(share=143))) == 7
    assert made.totals["H100"].free_milli == 0


def test_no_more_comes_back_than_was_held() -> None:
    with pytest.raises(HoldError):
        fleet(143).release(Hold(0, 0, Slot(0, 0, "shared", (0,), 143)))
