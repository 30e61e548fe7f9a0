"""Places without a device: a node with holes is worth what it would be worth if it had never had them."""

from dataclasses import dataclass, field, replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kit.placement_quota import Quota
from kit.placement_world import NODES, gangs, steps
from muster.placement import (
    Fleet,
    GangRequest,
    Hold,
    HoldError,
    NodeShape,
    ShapeError,
    Shortage,
    ShortageReason,
    Slot,
)
from muster.placement.forecast import Outlook, Release, earliest
from muster.placement.relief import Victim, make_way
from unit.placement.builders import fleet_of, gang, node, one, task, within

holes = st.lists(st.frozensets(st.integers(0, 9), max_size=3), min_size=len(NODES), max_size=len(NODES))
"""By node of NODES the places that are put between its devices."""


def holed(shape: NodeShape, absent: frozenset[int]) -> NodeShape:
    """The same node with places without a device in between; inside, they stand in a domain of their own."""
    count, between = shape.gpu_count, set[int]()
    for index in sorted(absent):
        if index <= count:
            between.add(index)
            count += 1

    def spread(numbers: tuple[int, ...]) -> tuple[int, ...]:
        left = iter(numbers)
        return tuple(99 if index in between else next(left) for index in range(count))

    inside = tuple((level, spread(numbers)) for level, numbers in shape.device_domains)
    return replace(shape, gpu_count=count, absent=frozenset(between), device_domains=inside)


def test_holed_keeps_every_device() -> None:
    shape = holed(NODES[0], frozenset({0, 3, 9}))
    assert (shape.absent, list(shape.devices), shape.device_count) == ({0, 3}, [1, 2, 4, 5], 4)
    assert shape.device_domains == (("socket", (99, 0, 0, 99, 1, 1)),)


@dataclass
class Twins:
    """Two fleets with the same history, one with holes; holds are said of the one without."""

    absent: list[frozenset[int]]
    plain: Fleet = field(default_factory=lambda: fleet_of(NODES))
    running: list[tuple[Hold, ...]] = field(default_factory=list)
    cordoned: set[str] = field(default_factory=set)
    broken: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.shapes = {
            shape.name: holed(shape, absent) for shape, absent in zip(NODES, self.absent, strict=True)
        }  # fmt: skip
        self.holey = fleet_of(list(self.shapes.values()))

    def there(self, hold: Hold) -> Hold:
        """The hold in the fleet with holes."""
        devices = self.shapes[hold.slot.node].devices
        return replace(hold, slot=replace(hold.slot, devices=tuple(devices[index] for index in hold.slot.devices)))

    def all_there(self, holds: tuple[Hold, ...]) -> tuple[Hold, ...]:
        return tuple(self.there(hold) for hold in holds)

    def place(self, asked: GangRequest) -> None:
        plainly, found = self.plain.place(asked), self.holey.place(asked)
        if isinstance(plainly, Shortage):
            assert found == plainly
            return
        assert found == self.all_there(plainly)
        for hold in plainly:
            self.plain.hold(hold)
            self.holey.hold(self.there(hold))
        self.running.append(plainly)

    def step(self, kind: str, value: object) -> None:
        if isinstance(value, GangRequest):
            self.place(value)
        elif isinstance(value, dict):
            self.plain.set_demand(value)
            self.holey.set_demand(value)
        elif isinstance(value, int):
            self.turn(kind, value)

    def turn(self, kind: str, chance: int) -> None:
        shape = NODES[chance % len(NODES)]
        if kind == "release" and self.running:
            for hold in self.running.pop(chance % len(self.running)):
                self.plain.release(hold)
                self.holey.release(self.there(hold))
        elif kind == "cordon":
            self.cordoned ^= {shape.name}
            for fleet in (self.plain, self.holey):
                fleet.set_usable(shape.name, shape.name not in self.cordoned)
        elif kind == "break" and shape.gpu_count:
            index = chance % shape.gpu_count
            self.broken ^= {(shape.name, index)}
            usable = (shape.name, index) not in self.broken
            self.plain.set_device_usable(shape.name, index, usable)
            self.holey.set_device_usable(shape.name, self.shapes[shape.name].devices[index], usable)


def twins_after(history: list[tuple[str, object]], absent: list[frozenset[int]]) -> Twins:
    twins = Twins(absent)
    for kind, value in history:
        twins.step(kind, value)
    return twins


@given(steps, holes, gangs)
@settings(max_examples=150, deadline=None)
def test_holes_change_no_decision_and_no_sum(
    history: list[tuple[str, object]], absent: list[frozenset[int]], asked: GangRequest
) -> None:
    twins = twins_after(history, absent)
    plain, holey = twins.plain, twins.holey
    assert holey.totals == plain.totals
    assert {s.key: s.names for s in holey.ledger.live} == {s.key: s.names for s in plain.ledger.live}
    assert {node.shape.name for node in holey.ledger.ill} == {node.shape.name for node in plain.ledger.ill}
    assert holey.fragmentation() == plain.fragmentation()
    assert holey.could_ever_fit(asked) == plain.could_ever_fit(asked)


@given(steps, holes, st.lists(st.integers(0, 6), min_size=25, max_size=25), gangs)
@settings(max_examples=100, deadline=None)
def test_holes_change_no_forecast_and_nobody_who_makes_way(
    history: list[tuple[str, object]], absent: list[frozenset[int]], bounds: list[int], asked: GangRequest
) -> None:
    twins = twins_after(history, absent)
    jobs = [(f"j{number}", bounds[number], holds) for number, holds in enumerate(twins.running)]
    plainly = earliest(twins.plain, asked, [Release(*job) for job in jobs], now=1)
    releases = [Release(key, at, twins.all_there(holds)) for key, at, holds in jobs]
    found = earliest(twins.holey, asked, releases, now=1)
    assert (None if found is None else (found.at, found.rests_on, found.holds)) == (
        None if plainly is None else (plainly.at, plainly.rests_on, twins.all_there(plainly.holds))
    )
    victims = [Victim(key, holds, (0,), float(at)) for key, at, holds in jobs]
    there = [replace(victim, holds=twins.all_there(victim.holds)) for victim in victims]
    way, way_there = (
        make_way(twins.plain, asked, victims, Quota()),
        make_way(twins.holey, asked, there, Quota()),
    )
    assert (None if way_there is None else way_there.victims) == (None if way is None else way.victims)


def test_places_without_a_device_are_no_devices() -> None:
    fleet = fleet_of([replace(node("a", gpus=4), absent=frozenset({1, 2}))])
    assert fleet.totals["H100"].total_milli == 2000
    (hold,) = fleet.find(one(task(2))) or ()
    assert hold.slot.devices == (0, 3)
    assert not fleet.ledger.ill
    refused = fleet.place(one(task(3)))
    assert isinstance(refused, Shortage)
    assert refused.reason is ShortageReason.GPU


def test_the_whole_node_is_all_devices_that_are_there() -> None:
    fleet = fleet_of([replace(node("a", gpus=4), absent=frozenset({0, 2}))])
    assert fleet.find(one(task(3, full=True))) is None
    (hold,) = fleet.find(one(task(2, full=True))) or ()
    assert hold.slot.devices == (1, 3)


def test_a_forecast_counts_only_devices_that_are_there_and_domains_that_have_some() -> None:
    inside = (("socket", (0, 0, 1, 1)),)
    fleet = fleet_of([replace(node("a", gpus=4), device_domains=inside, absent=frozenset({2, 3}))])
    held = Hold(0, 0, Slot(0, 0, "a", (0,), 1000))
    fleet.hold(held)
    releases = [Release("j", 10, (held,))]
    assert earliest(fleet, one(task(3, full=True)), releases, now=0) is None
    assert Outlook(fleet, releases, now=0).earliest(one(task(3, full=True))) is None
    found = earliest(fleet, one(replace(within("socket", 2), full_node=True)), releases, now=0)
    assert found is not None
    assert (found.at, found.holds[0].slot.devices) == (10, (0, 1))


def test_a_domain_without_devices_is_none() -> None:
    shape = replace(node("a", gpus=4), device_domains=(("socket", (0, 0, 1, 1)),), absent=frozenset({2, 3}))
    fleet = fleet_of([shape])
    whole = replace(within("socket", 2), full_node=True)
    (hold,) = fleet.find(one(whole)) or ()
    assert hold.slot.devices == (0, 1)


@pytest.mark.parametrize("devices", [(1,), (0, 1)])
def test_nothing_is_held_where_no_device_is(devices: tuple[int, ...]) -> None:
    fleet = fleet_of([replace(node("a", gpus=2), absent=frozenset({1}))])
    hold = Hold(0, 0, Slot(0, 0, "a", devices, 1000))
    with pytest.raises(HoldError, match=r"no devices \[1\]"):
        fleet.hold(hold)
    fleet.hold(Hold(0, 0, Slot(0, 0, "a", (0,), 1000)))
    with pytest.raises(HoldError, match=r"no devices \[1\]"):
        fleet.release(hold)
    with pytest.raises(HoldError, match="there is no device 1"):
        fleet.set_device_usable("a", 1, False)


def test_an_absent_place_is_one_of_the_places() -> None:
    with pytest.raises(ShapeError, match="absent must name places from 0 to 1"):
        replace(node("a", gpus=2), absent=frozenset({2}))


def test_a_node_of_places_only_still_has_its_cpu() -> None:
    fleet = fleet_of([replace(node("a", gpus=1), absent=frozenset({0}))])
    assert fleet.find(gang((task(), 2))) is not None
    assert fleet.totals == {}
