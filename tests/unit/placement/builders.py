"""Short ways to say what the tests of placement say often."""

from collections.abc import Sequence

from muster.placement import Fleet, GangRequest, GroupRequest, Hold, NodeShape, Shortage, TaskShape, TopologyRequest

SOCKETS = (("socket", (0, 0, 0, 0, 1, 1, 1, 1)), ("pair", (0, 0, 1, 1, 2, 2, 3, 3)))
"""Eight devices, two pairs on each of two sockets."""


def node(name: str, *, gpus: int = 8, cpu: int = 64, model: str = "H100", **domains: str) -> NodeShape:
    """A node of whole CPUs with 8 GiB each; domains as block="b0", rack="r0", widest first."""
    return NodeShape(name, cpu * 1000, cpu * 8192, gpus, model, tuple(domains.items()))


def server(name: str, *, cpu: int = 64, model: str = "H100", **domains: str) -> NodeShape:
    """A node of eight devices, two pairs on each of two sockets."""
    return NodeShape(name, cpu * 1000, cpu * 8192, 8, model, tuple(domains.items()), SOCKETS)


def fleet_of(nodes: Sequence[NodeShape]) -> Fleet:
    fleet = Fleet()
    for shape in nodes:
        fleet.add_node(shape)
    return fleet


def task(gpus: int = 0, *, cpu: int = 1, share: int = 0, models: tuple[str, ...] = (), full: bool = False) -> TaskShape:
    return TaskShape(cpu * 1000, cpu * 1024, gpus=gpus, gpu_milli=share, gpu_models=models, full_node=full)


def within(level: str, gpus: int, *, required: bool = True) -> TaskShape:
    """A replica whose devices shall stand in one domain of a level inside the node."""
    return TaskShape(1000, 1024, gpus=gpus, within=level, within_required=required)


def gang(*groups: tuple[TaskShape, int], level: str = "", required: bool = True) -> GangRequest:
    request = TopologyRequest(level, required) if level else None
    return GangRequest(tuple(GroupRequest(shape, replicas) for shape, replicas in groups), request)


def one(shape: TaskShape) -> GangRequest:
    return gang((shape, 1))


def placed(fleet: Fleet, request: GangRequest) -> tuple[Hold, ...]:
    """Place and hold; the gang must fit."""
    answer = fleet.place(request)
    assert not isinstance(answer, Shortage), answer
    for hold in answer:
        fleet.hold(hold)
    return answer


def nodes_of(holds: Sequence[Hold]) -> list[str]:
    return [hold.slot.node for hold in holds]
