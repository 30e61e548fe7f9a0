"""Who has room is known exactly whatever happened, so that only those are tried who can be placed."""

import hypothesis.strategies as st
from hypothesis import given, settings

from kit.placement_world import World, gangs, shapes, steps
from muster.placement import Fleet, GangRequest, Shortage, TaskShape
from muster.placement.counts import Ask, Asks, States
from muster.placement.state import StateKey, count
from unit.placement.builders import fleet_of, gang, node, one, placed, task

keys = st.builds(
    lambda cpu, memory, shares, model, whole, is_split: StateKey(
        sum(shares),
        cpu,
        memory,
        tuple(sorted(shares)),
        model,
        whole and all(share == 1000 for share in shares),
        (("socket", "pair"), ((tuple(sorted(shares[:2])), tuple(sorted(shares[2:4]))), (tuple(sorted(shares[4:])),)))
        if is_split
        else (),
    ),
    st.sampled_from([0, 400, 1000, 3500, 8000]),
    st.sampled_from([0, 1000, 6000, 16000]),
    st.lists(st.sampled_from([0, 100, 250, 600, 1000, 1000]), max_size=8),
    st.sampled_from(["A", "B", ""]),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(keys, min_size=1, max_size=6), st.lists(shapes, min_size=1, max_size=6), st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_counting_all_at_once_counts_as_one_by_one(
    states: list[StateKey], requests: list[TaskShape], together: int
) -> None:
    assert Asks([Ask(shape, 0) for shape in requests]).counts(States(states)).tolist() == [
        [count(key, shape) for shape in requests] for key in states
    ]
    assert Asks([Ask(shape, together) for shape in requests]).counts(States(states)).tolist() == [
        [count(key, shape) >= together for shape in requests] for key in states
    ]


@given(st.lists(gangs, min_size=1, max_size=5), steps, st.lists(st.booleans(), min_size=25, max_size=25))
@settings(max_examples=200, deadline=None)
def test_a_gang_has_room_if_it_fits_and_only_then_if_it_has_one_group(
    watched: list[GangRequest], history: list[tuple[str, object]], looks: list[bool]
) -> None:
    world = World()
    rooms = world.fleet.rooms
    watches = [rooms.watch(request) for request in watched]
    for (kind, value), looked in zip(history, looks, strict=False):
        world.step(kind, value)
        if kind == "place" and looked and isinstance(value, GangRequest):
            watches.append(rooms.watch(value))
        if looked:
            rooms.hopeful()
    hopeful = rooms.hopeful()
    for watch in watches:
        is_placed = not isinstance(world.fleet.place(watch.gang), Shortage)
        assert rooms.has_room(watch) == (watch in hopeful)
        assert watch in hopeful or not is_placed
        if len(watch.gang.groups) == 1:
            assert is_placed == (watch in hopeful)


def looks(fleet: Fleet, request: GangRequest) -> bool:
    watch = fleet.rooms.watch(request)
    try:
        return fleet.rooms.has_room(watch)
    finally:
        fleet.rooms.unwatch(watch)


def test_nodes_that_join_leave_and_move_to_another_rack_count_where_they_stand() -> None:
    fleet = fleet_of([node("a", gpus=4, rack="r0")])
    watch = fleet.rooms.watch(gang((task(2), 4), level="rack"))
    other = fleet.rooms.watch(one(task(8)))
    assert fleet.rooms.hopeful() == []
    fleet.add_node(node("b", gpus=4, rack="r1"))
    assert fleet.rooms.hopeful() == []
    fleet.remove_node("b")
    fleet.add_node(node("b", gpus=4, rack="r0"))
    assert fleet.rooms.hopeful() == [watch]
    fleet.remove_node("a")
    fleet.add_node(node("c", gpus=8, rack="r2"))
    assert fleet.rooms.hopeful() == [watch, other]
    fleet.set_usable("c", False)
    assert fleet.rooms.hopeful() == []


def test_nothing_is_recorded_while_nobody_is_watched() -> None:
    fleet = fleet_of([node("a")])
    assert looks(fleet, one(task(8)))
    placed(fleet, one(task(8)))
    assert fleet._ledger.moved is None
    assert not looks(fleet, one(task(8)))
