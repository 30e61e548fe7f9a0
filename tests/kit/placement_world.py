"""A fleet that is filled step by step, drawn for properties of placement."""

from dataclasses import dataclass, field

import hypothesis.strategies as st

from muster.placement import (
    Fleet,
    GangRequest,
    GroupRequest,
    Hold,
    NodeShape,
    Shortage,
    TaskShape,
    TopologyRequest,
)
from unit.placement import naive

TWO_SOCKETS = (("socket", (0, 0, 1, 1)),)


CROSSED = (("socket", (0, 1, 0, 1, 0, 1, 0, 0)), ("pair", (0, 3, 0, 3, 2, 9, 2, 2)))
"""Eight devices: five on one socket, of which two and three are close, and three on the other, one of them alone."""


NODES = tuple(
    NodeShape(f"n{i}", cpu, cpu * 2, gpus, model, (("block", f"b{i // 4}"), ("rack", f"r{i // 2 % 2}")), inside)
    for i, (cpu, gpus, model, inside) in enumerate(
        [
            (8000, 4, "A", TWO_SOCKETS),
            (8000, 4, "A", ()),
            (4000, 2, "B", ()),
            (8000, 8, "A", CROSSED),
            (4000, 2, "B", (("pair", (0, 0)),)),
            (6000, 0, "", ()),
            (8000, 4, "A", TWO_SOCKETS),
        ]
    )
)


shapes = st.builds(
    lambda cpu, memory, gpu, models, full, within: TaskShape(
        cpu,
        memory,
        gpus=gpu if gpu < 100 else 0,
        gpu_milli=gpu if gpu >= 100 else 0,
        gpu_models=models,
        full_node=full,
        within=within[0],
        within_required=within[1],
        models_excluded=within[2],
    ),
    st.sampled_from([0, 500, 1000, 3000]),
    st.sampled_from([0, 1000, 5000]),
    st.sampled_from([0, 1, 2, 4, 100, 250, 500, 750, 999]),
    st.sampled_from([(), (), (), ("A",), ("B", "A")]),
    st.sampled_from([False, False, False, False, True]),
    st.sampled_from(
        [*[("", False, ())] * 4, ("", False, ("A",)), ("socket", True, ()), ("pair", True, ()), ("pair", False, ())]
    ),
)


wishes = st.none() | st.builds(
    TopologyRequest, st.sampled_from(["node", "rack", "block", "socket", "pair"]), st.booleans()
)


groups = st.builds(
    lambda shape, replicas, less, wish: GroupRequest(shape, replicas, max(1, replicas - less) if less else None, wish),
    shapes,
    st.integers(1, 4),
    st.sampled_from([0, 0, 0, 1, 3]),
    st.none() | wishes,
)


gangs = st.builds(
    GangRequest, st.lists(groups, min_size=1, max_size=3).map(tuple), wishes, st.sampled_from([False, False, True])
)


demands = st.dictionaries(shapes, st.sampled_from([1.0, 2.0, 5.0]), max_size=4)


chances = st.integers(0, 99)


steps = st.lists(
    st.tuples(st.just("place"), gangs)
    | st.tuples(st.just("release"), chances)
    | st.tuples(st.sampled_from(["cordon", "break"]), chances)
    | st.tuples(st.just("demand"), demands),
    max_size=25,
)


@dataclass
class World:
    """A fleet, and beside it the plainest record of what should be true."""

    fleet: Fleet = field(default_factory=Fleet)
    plain: dict[str, naive.NaiveNode] = field(default_factory=dict)
    running: list[tuple[GangRequest, tuple[Hold, ...]]] = field(default_factory=list)
    demand: dict[TaskShape, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for shape in NODES:
            self.fleet.add_node(shape)
            self.plain[shape.name] = naive.NaiveNode(shape, shape.cpu_milli, shape.memory_mib, [1000] * shape.gpu_count)

    def move(self, hold: Hold, sign: int) -> None:
        node = self.plain[hold.slot.node]
        node.cpu_milli -= sign * hold.cpu_milli
        node.memory_mib -= sign * hold.memory_mib
        node.holds += sign
        for device in hold.slot.devices:
            node.idle[device] -= sign * hold.slot.gpu_milli
        assert min(node.cpu_milli, node.memory_mib, *node.idle, 0) == 0, "over-held"

    def start(self, gang: GangRequest) -> tuple[Hold, ...] | Shortage:
        answer = self.fleet.place(gang)
        if not isinstance(answer, Shortage):
            for hold in answer:
                self.fleet.hold(hold)
                self.move(hold, 1)
            self.running.append((gang, answer))
        return answer

    def step(self, kind: str, value: object) -> None:
        if isinstance(value, GangRequest):
            self.start(value)
        elif isinstance(value, dict):
            self.demand = dict(value.items())
            self.fleet.set_demand(self.demand)
        elif kind == "release" and self.running:
            _, holds = self.running.pop(int(str(value)) % len(self.running))
            for hold in holds:
                self.fleet.release(hold)
                self.move(hold, -1)
        elif kind in {"cordon", "break"}:
            self.toggle(kind, int(str(value)))

    def toggle(self, kind: str, chance: int) -> None:
        node = self.plain[NODES[chance % len(NODES)].name]
        if kind == "cordon":
            node.usable = not node.usable
            self.fleet.set_usable(node.shape.name, node.usable)
        elif node.idle:
            device = chance % len(node.idle)
            node.broken ^= {device}
            self.fleet.set_device_usable(node.shape.name, device, device not in node.broken)


def observed(fleet: Fleet) -> object:
    """Everything that decides what the fleet does next, except for what it remembers."""
    nodes = {n: (x.cpu_milli, x.memory_mib, tuple(x.idle), x.holds) for n, x in fleet._ledger.nodes.items()}
    return nodes, fleet.totals, {state.key: tuple(state.names) for state in fleet._ledger.live}
