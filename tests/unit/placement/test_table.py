"""The table of all nodes: kept up to date by what changed, and the same as one that is made anew."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.placement import Fleet, Hold, NodeShape, Slot
from muster.placement.timeline import Nodes

NODES = 4
STEPS = st.lists(
    st.tuples(st.sampled_from(["hold", "release", "usable", "broken", "remove", "ask"]), st.integers(0, 63))
)


def shape(index: int) -> NodeShape:
    return NodeShape(f"n{index}", 64_000, 64_000, 4, ("H100", "A100")[index % 2], (("rack", f"r{index // 2}"),))


def do(fleet: Fleet, held: list[Hold], step: str, number: int) -> None:
    name, device = f"n{number % NODES}", number // NODES % 4
    node = fleet.ledger.nodes.get(name)
    match step:
        case "hold" if node is not None and node.idle[device] == 1000:
            held.append(Hold(100, 200, Slot(group=0, replica=0, node=name, devices=(device,), gpu_milli=1000)))
            fleet.hold(held[-1])
        case "release" if held:
            fleet.release(held.pop(number % len(held)))
        case "usable" if node is not None:
            fleet.set_usable(name, not node.usable)
        case "broken" if node is not None:
            fleet.set_device_usable(name, device, device in node.broken)
        case "remove" if node is not None and not node.holds:
            fleet.remove_node(name)
        case "remove" if node is None:
            fleet.add_node(shape(number % NODES))
        case "ask":
            fleet.table()


def same(one: Nodes, other: Nodes) -> bool:
    arrays = ("cpu", "memory", "holds", "devices", "idle", "good", "is_sound", "model")
    return (
        one.names == other.names
        and one.places == other.places
        and (one.models, one.levels) == (other.models, other.levels)
        and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)
    )


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_whatever_happened_it_is_as_if_made_anew(steps: list[tuple[str, int]]) -> None:
    fleet, held = Fleet(), list[Hold]()
    for index in range(NODES):
        fleet.add_node(shape(index))
    for step, number in steps:
        do(fleet, held, step, number)
    assert same(fleet.table(), Nodes(fleet.ledger))


def test_a_table_stays_as_it_was_when_it_was_asked_for() -> None:
    fleet = Fleet()
    fleet.add_node(shape(0))
    before = fleet.table()
    fleet.hold(Hold(100, 200, Slot(group=0, replica=0, node="n0", devices=(1,), gpu_milli=1000)))
    assert before.idle[0].tolist() == [1000] * 4
    assert fleet.table().idle[0].tolist() == [1000, 0, 1000, 1000]


def test_it_is_made_anew_only_when_other_nodes_are_usable() -> None:
    fleet = Fleet()
    fleet.add_node(shape(0))
    assert fleet.table() is fleet.table()
    fleet.add_node(shape(1))
    assert fleet.table().names == ["n0", "n1"]
