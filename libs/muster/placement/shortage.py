"""Why a gang does not fit, in one code and one sentence with numbers.

Found only after placement failed, so it may look at every state. The first cause that alone explains the failure is
named, from the coarsest to the finest: no nodes, no such model, too few GPUs in all, too little CPU or memory, enough
of all but not together on a node, and at last enough nodes but not within one domain.
"""

import numpy as np
from numpy.typing import NDArray

from muster.placement.gang import GangPlacer, Group, largest_first
from muster.placement.ledger import Ledger
from muster.placement.rooms import Ask, Asks, States
from muster.placement.shapes import DEVICE_MILLI, NODE_LEVEL, GangRequest, Shortage, ShortageReason, TaskShape
from muster.placement.topology import Topology


class Survey:
    """All usable nodes at one moment, as arrays by state; made once for all gangs that are explained then."""

    def __init__(self, ledger: Ledger) -> None:
        live = list(ledger.live)
        self.states = States([state.key for state in live])
        self.nodes = np.array([len(state.names) for state in live], dtype=np.int64)

    def room(self, shape: TaskShape) -> NDArray[np.int64]:
        """Replicas that fit, by state."""
        return self.nodes * Asks([Ask(shape, 0)]).counts(self.states)[:, 0]


class Explainer:
    """Names the shortage that keeps gangs, which did not fit, from being placed."""

    def __init__(self, ledger: Ledger, placer: GangPlacer, topology: Topology) -> None:
        self._ledger = ledger
        self._placer = placer
        self._topology = topology
        self._survey: Survey | None = None
        self._moves = -1

    def explain(self, gang: GangRequest) -> Shortage:
        """Why this gang does not fit, with the numbers of now."""
        ledger, topology = self._ledger, self._topology
        if not ledger.live:
            return _shortage(ShortageReason.NO_NODE, f"none of {len(ledger.nodes)} nodes is usable")
        if self._survey is None or self._moves != ledger.moves:
            self._survey, self._moves = Survey(ledger), ledger.moves
        groups = largest_first(gang)
        for group in groups:
            room = self._survey.room(group.shape)
            if room.sum() < group.replicas:
                return _explain_group(group, self._survey, int(room.sum()))
        wish = gang.topology
        if wish is not None and wish.required:
            if wish.level != NODE_LEVEL and wish.level not in topology.levels():
                declared = f"only {', '.join(topology.levels())}" if topology.levels() else "nor any other"
                return _shortage(ShortageReason.TOPOLOGY, f"no node declares level {wish.level!r}, {declared}")
            most = [self._placer.best_domain_room(group, wish.level) for group in groups]
            wanted = " + ".join(
                f"{min(have, g.replicas)} of {g.replicas}" for have, g in zip(most, groups, strict=True)
            )
            return _shortage(
                ShortageReason.TOPOLOGY, f"the fleet has room, but one {wish.level} holds at most {wanted} replicas"
            )
        return _shortage(
            ShortageReason.FRAGMENTED, f"each of {len(groups)} groups would fit alone, but not all of them together"
        )


def _explain_group(group: Group, survey: Survey, room: int) -> Shortage:
    shape, replicas, states = group.shape, group.replicas, survey.states
    allowed = np.ones(len(survey.nodes), dtype=bool)
    if shape.gpu_models:
        allowed = np.array([model in shape.gpu_models for model in states.models], dtype=bool)[states.model]
        if not allowed.any():
            return _shortage(ShortageReason.MODEL, f"no usable node has {' or '.join(shape.gpu_models)}")
    if shape.full_node:
        asked = f"{replicas} whole nodes with {shape.gpus} GPUs, {_cpu(shape)} and {shape.memory_mib} MiB asked"
        return _shortage(ShortageReason.FRAGMENTED, f"{asked}, {room} idle")
    return _explain_sums(shape, replicas, survey, allowed) or _explain_nodes(group, survey, allowed, room)


def _explain_sums(shape: TaskShape, replicas: int, survey: Survey, allowed: NDArray[np.bool_]) -> Shortage | None:
    nodes, states = survey.nodes * allowed, survey.states
    asked_milli = replicas * (shape.gpus * DEVICE_MILLI + shape.gpu_milli)
    idle_milli = int(nodes @ states.idle[:, 0])
    if idle_milli < asked_milli:
        return _shortage(ShortageReason.GPU, f"{_gpus(asked_milli)} GPUs asked, {_gpus(idle_milli)} free")
    cpu_milli, memory_mib = int(nodes @ states.cpu[:, 0]), int(nodes @ states.memory[:, 0])
    if cpu_milli < replicas * shape.cpu_milli:
        return _shortage(ShortageReason.CPU, f"{replicas} x {_cpu(shape)} asked, {cpu_milli / 1000:g} free")
    if memory_mib < replicas * shape.memory_mib:
        return _shortage(ShortageReason.MEMORY, f"{replicas} x {shape.memory_mib} MiB asked, {memory_mib} MiB free")
    return None


def _explain_nodes(group: Group, survey: Survey, allowed: NDArray[np.bool_], room: int) -> Shortage:
    shape, replicas, states = group.shape, group.replicas, survey.states
    idle_milli = int((survey.nodes * allowed) @ states.idle[:, 0])
    gpu_only = TaskShape(0, 0, gpus=shape.gpus, gpu_milli=shape.gpu_milli)
    asks_gpu = bool(shape.gpus or shape.gpu_milli)
    able = allowed & (survey.room(gpu_only) > 0) if asks_gpu else allowed
    each = f"{shape.gpus}" if shape.gpus else f"{_gpus(shape.gpu_milli)}"
    if not able.any():
        return _shortage(ShortageReason.FRAGMENTED, f"{_gpus(idle_milli)} free GPUs but none of {each} on one node")
    beside = f" beside {each} free GPUs" if asks_gpu else ""
    cpu_milli = int(states.cpu[able].max())
    if cpu_milli < shape.cpu_milli:
        return _shortage(ShortageReason.CPU, f"{_cpu(shape)} asked, at most {cpu_milli / 1000:g} on one node{beside}")
    memory_mib = int(states.memory[able].max())
    if memory_mib < shape.memory_mib:
        return _shortage(
            ShortageReason.MEMORY, f"{shape.memory_mib} MiB asked, at most {memory_mib} MiB on one node{beside}"
        )
    free = f"{_gpus(idle_milli)} free GPUs but " if asks_gpu else ""
    return _shortage(ShortageReason.FRAGMENTED, f"{free}room for {room} of {replicas} replicas")


def _shortage(reason: ShortageReason, detail: str) -> Shortage:
    return Shortage(reason, f"{reason.value}: {detail}")


def _gpus(milli: int) -> str:
    return f"{milli / DEVICE_MILLI:g}"


def _cpu(shape: TaskShape) -> str:
    return f"{shape.cpu_milli / 1000:g} CPU"
