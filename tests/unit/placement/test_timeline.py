"""Counting a whole fleet at once, now and when holds have come free, counts as one by one."""

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from kit.placement_world import World, shapes, steps
from muster.placement import TaskShape
from muster.placement.state import count
from muster.placement.timeline import NEVER, Held, Nodes, Rows
from unit.placement.builders import fleet_of, node


@given(steps, st.lists(shapes, min_size=1, max_size=4), st.lists(st.integers(0, 4), min_size=25, max_size=25))
@settings(max_examples=150, deadline=None)
def test_rows_count_as_the_books_would_if_the_holds_had_gone(
    history: list[tuple[str, object]], asked: list[TaskShape], moments: list[int]
) -> None:
    world = World()
    for kind, value in history:
        world.step(kind, value)
    held = [holds for _, holds in world.running]
    at = np.array([moment if moment < 4 else NEVER for moment in moments[: len(held)]], dtype=np.int64)
    nodes = Nodes(world.fleet.ledger)
    rows = Rows(nodes, Held(nodes, held), at, start=0)
    for moment in range(4):
        for holds, when in zip(held, at.tolist(), strict=True):
            if when == moment:
                for hold in holds:
                    world.fleet.withdraw(hold)
        then = rows.then(moment)
        for shape in asked:
            room = rows.room(shape)[then].tolist()
            books = [world.fleet.ledger.nodes[name].state for name in nodes.names]
            wanted = [0 if state is None else count(state.key, shape) for state in books]
            assert room == wanted, shape


def test_devices_are_counted_by_their_domains_inside_the_node() -> None:
    sockets = (("socket", (0, 0, 0, 0, 1, 1, 1, 1)),)
    fleet = fleet_of([replace(node("a"), device_domains=sockets), node("b")])
    nodes = Nodes(fleet.ledger)
    rows = Rows(nodes, Held(nodes, []), np.zeros(0, dtype=np.int64), start=0)
    for gpus in range(1, 9):
        shape = TaskShape(0, 0, gpus=gpus, within="socket", within_required=True)
        states = [fleet.ledger.nodes[name].state for name in nodes.names]
        assert rows.room(shape).tolist() == [count(state.key, shape) for state in states if state is not None]
