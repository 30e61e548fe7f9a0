"""Why a gang does not fit, in one code and one sentence with numbers.

Found only after placement failed, so it may look at every state. The first cause that alone explains the failure is
named, from the coarsest to the finest: no nodes, no such model, too few GPUs in all, too little CPU or memory, enough
of all but not together on a node, and at last enough nodes but not within one domain.
"""

from collections.abc import Sequence

from muster.placement.gang import GangPlacer, largest_first
from muster.placement.ledger import Ledger
from muster.placement.shapes import DEVICE_MILLI, NODE_LEVEL, GangRequest, Shortage, ShortageReason, TaskShape
from muster.placement.state import NodeState, count, fits
from muster.placement.topology import Topology


def explain(gang: GangRequest, *, ledger: Ledger, placer: GangPlacer, topology: Topology) -> Shortage:
    """The shortage that keeps a gang, which did not fit, from being placed."""
    if not ledger.live:
        return _shortage(ShortageReason.NO_NODE, f"none of {len(ledger.nodes)} nodes is usable")
    groups = largest_first(gang)
    wish = gang.topology
    for group in groups:
        if not placer.has_room(group):
            return _explain_group(group.shape, group.replicas, list(ledger.live))
    if wish is not None and wish.required:
        if wish.level != NODE_LEVEL and wish.level not in topology.levels():
            declared = f"only {', '.join(topology.levels())}" if topology.levels() else "nor any other"
            return _shortage(ShortageReason.TOPOLOGY, f"no node declares level {wish.level!r}, {declared}")
        room = [placer.best_domain_room(group, wish.level) for group in groups]
        wanted = " + ".join(f"{min(have, g.replicas)} of {g.replicas}" for have, g in zip(room, groups, strict=True))
        return _shortage(
            ShortageReason.TOPOLOGY, f"the fleet has room, but one {wish.level} holds at most {wanted} replicas"
        )
    return _shortage(
        ShortageReason.FRAGMENTED, f"each of {len(groups)} groups would fit alone, but not all of them together"
    )


def _explain_group(shape: TaskShape, replicas: int, states: Sequence[NodeState]) -> Shortage:
    if shape.gpu_models:
        states = [state for state in states if state.key.model in shape.gpu_models]
        if not states:
            return _shortage(ShortageReason.MODEL, f"no usable node has {' or '.join(shape.gpu_models)}")
    if shape.full_node:
        whole = sum(len(state.names) * fits(state.key, shape) for state in states)
        asked = f"{replicas} whole nodes with {shape.gpus} GPUs, {_cpu(shape)} and {shape.memory_mib} MiB asked"
        return _shortage(ShortageReason.FRAGMENTED, f"{asked}, {whole} idle")
    return _explain_sums(shape, replicas, states) or _explain_nodes(shape, replicas, states)


def _explain_sums(shape: TaskShape, replicas: int, states: Sequence[NodeState]) -> Shortage | None:
    def total(amount: str) -> int:
        return sum(len(state.names) * int(getattr(state.key, amount)) for state in states)

    asked_milli = replicas * (shape.gpus * DEVICE_MILLI + shape.gpu_milli)
    idle_milli = total("idle_milli")
    if idle_milli < asked_milli:
        return _shortage(ShortageReason.GPU, f"{_gpus(asked_milli)} GPUs asked, {_gpus(idle_milli)} free")
    cpu_milli, memory_mib = total("cpu_milli"), total("memory_mib")
    if cpu_milli < replicas * shape.cpu_milli:
        return _shortage(ShortageReason.CPU, f"{replicas} x {_cpu(shape)} asked, {cpu_milli / 1000:g} free")
    if memory_mib < replicas * shape.memory_mib:
        return _shortage(ShortageReason.MEMORY, f"{replicas} x {shape.memory_mib} MiB asked, {memory_mib} MiB free")
    return None


def _explain_nodes(shape: TaskShape, replicas: int, states: Sequence[NodeState]) -> Shortage:
    idle_milli = sum(len(state.names) * state.key.idle_milli for state in states)
    gpu_only = TaskShape(0, 0, gpus=shape.gpus, gpu_milli=shape.gpu_milli)
    asks_gpu = bool(shape.gpus or shape.gpu_milli)
    able = [state for state in states if fits(state.key, gpu_only)] if asks_gpu else list(states)
    each = f"{shape.gpus}" if shape.gpus else f"{_gpus(shape.gpu_milli)}"
    if not able:
        return _shortage(ShortageReason.FRAGMENTED, f"{_gpus(idle_milli)} free GPUs but none of {each} on one node")
    beside = f" beside {each} free GPUs" if asks_gpu else ""
    cpu_milli = max(state.key.cpu_milli for state in able)
    if cpu_milli < shape.cpu_milli:
        return _shortage(ShortageReason.CPU, f"{_cpu(shape)} asked, at most {cpu_milli / 1000:g} on one node{beside}")
    memory_mib = max(state.key.memory_mib for state in able)
    if memory_mib < shape.memory_mib:
        return _shortage(
            ShortageReason.MEMORY, f"{shape.memory_mib} MiB asked, at most {memory_mib} MiB on one node{beside}"
        )
    room = sum(len(state.names) * count(state.key, shape) for state in states)
    free = f"{_gpus(idle_milli)} free GPUs but " if asks_gpu else ""
    return _shortage(ShortageReason.FRAGMENTED, f"{free}room for {room} of {replicas} replicas")


def _shortage(reason: ShortageReason, detail: str) -> Shortage:
    return Shortage(reason, f"{reason.value}: {detail}")


def _gpus(milli: int) -> str:
    return f"{milli / DEVICE_MILLI:g}"


def _cpu(shape: TaskShape) -> str:
    return f"{shape.cpu_milli / 1000:g} CPU"
