"""Why a gang does not fit, as one code and one sentence with numbers.

Searched only after placement failed, so it may examine every state. The first cause that alone explains the failure is
reported, from coarse to fine: no nodes, no such model, too few GPUs in total, too little CPU or memory, enough of all
but not together on a node, and at last enough nodes but not within one domain.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from muster.placement.counts import Ask, Asks, States
from muster.placement.gang import GangPlacer
from muster.placement.ledger import Ledger
from muster.placement.plans import Group, Plan
from muster.placement.shapes import DEVICE_MILLI, GangRequest, Shortage, ShortageReason, TaskShape, share_of
from muster.placement.state import allows
from muster.placement.topology import Topology


class Survey:
    """All usable nodes at one time, as arrays by state; created once for all gangs explained at that time."""

    def __init__(self, ledger: Ledger) -> None:
        live = list(ledger.live)
        self.states = States([state.key for state in live])
        self.nodes = np.array([len(state.names) for state in live], dtype=np.int64)

    def room(self, shape: TaskShape) -> NDArray[np.int64]:
        """Return the replicas that fit, by state."""
        return self.nodes * Asks([Ask(shape, 0)]).counts(self.states)[:, 0]


class Explainer:
    """Finds the shortage because of which a gang was not placed."""

    def __init__(self, ledger: Ledger, placer: GangPlacer, topology: Topology) -> None:
        self._ledger = ledger
        self._placer = placer
        self._topology = topology
        self._survey: Survey | None = None
        self._healthy: Survey | None = None
        self._moves = -1

    def explain(self, gang: GangRequest) -> Shortage:
        """Return why this gang does not fit, with the present numbers."""
        ledger = self._ledger
        if not ledger.live:
            return _shortage(ShortageReason.NO_NODE, f"none of {len(ledger.nodes)} nodes is usable")
        if self._survey is None or self._moves != ledger.moves:
            self._survey, self._healthy, self._moves = Survey(ledger), None, ledger.moves
        (plan,) = self._placer.plans(replace(gang, same_model=False))
        cause = self._explain_groups(plan, self._survey) or self._explain_topology(plan)
        if cause is None and gang.same_model:
            cause = self._explain_model(gang)
        if cause is None:
            words = f"each of {len(plan.groups)} groups would fit alone, but not all of them together"
            cause = _shortage(ShortageReason.FRAGMENTED, words)
        return self._explain_health(gang, plan, cause) or cause

    def _explain_groups(self, plan: Plan, survey: Survey) -> Shortage | None:
        for group in plan.groups:
            room = int(survey.room(group.shape).sum())
            if room < group.replicas:
                return _explain_group(group, survey, room)
        return None

    def _explain_topology(self, plan: Plan) -> Shortage | None:
        request, levels, regions = plan.wish, self._topology.levels(), self._placer.regions
        requests = [(request, plan.groups), *((group.wish, (group,)) for group in plan.groups)]
        for required, groups in requests:
            if required is None or not required.required:
                continue
            if required.level not in regions.levels():
                declared = f"only {', '.join(levels)}" if levels else "nor any other"
                return _shortage(ShortageReason.TOPOLOGY, f"no node declares level {required.level!r}, {declared}")
            domains = regions.within(regions.everywhere, required.level)
            most = [max([regions.room(domain, group.shape) for domain in domains], default=0) for group in groups]
            rooms = list(zip(most, groups, strict=True))
            if required is request or any(have < group.replicas for have, group in rooms):
                held = " + ".join(f"{min(have, group.replicas)} of {_asked(group)}" for have, group in rooms)
                words = f"the fleet has room, but one {required.level} holds at most {held} replicas"
                return _shortage(ShortageReason.TOPOLOGY, words)
        return None

    def _explain_model(self, gang: GangRequest) -> Shortage | None:
        assert self._survey is not None
        rooms = []
        for plan in self._placer.plans(gang):
            held = [(int(self._survey.room(group.shape).sum()), group) for group in plan.groups]
            lacking = [f"{room} of {_asked(group)}" for room, group in held if room < group.replicas]
            rooms.append(f"{' and '.join(lacking) or 'each group alone, not all'} on {plan.model}")
        where = ", ".join(rooms) or "none of the allowed models has any"
        return _shortage(ShortageReason.MODEL, f"the fleet has room, but one model has not for all replicas: {where}")

    def _explain_health(self, gang: GangRequest, plan: Plan, cause: Shortage) -> Shortage | None:
        """Return a shortage if the gang would fit with all unhealthy nodes and devices usable."""
        ledger = self._ledger
        if not ledger.ill:
            return None
        if self._healthy is None:
            with ledger.healed():
                self._healthy = Survey(ledger)
        if self._explain_groups(plan, self._healthy) is not None:
            return None
        if len(plan.groups) > 1 or plan.wish or plan.groups[0].wish or gang.same_model:
            with ledger.healed():
                if self._placer.place(gang) is None:
                    return None
        words = f"it would fit with {_ill(ledger, plan)} that are not usable; now {cause.detail}"
        return _shortage(ShortageReason.HEALTH, words)


def _ill(ledger: Ledger, plan: Plan) -> str:
    """Return the unhealthy nodes and devices that one of the groups could use, as text."""
    shapes = [group.shape for group in plan.groups]
    of_devices = [shape for shape in shapes if shape.holds_devices or shape.full_node]
    nodes = devices = idle = 0
    for node in ledger.ill:
        model = node.shape.gpu_model
        if node.usable:
            may_hold = any(allows(shape, model) for shape in of_devices)
            devices += len(node.broken - node.moving) if may_hold else 0
        elif any(allows(shape, model) for shape in shapes):
            nodes += 1
            idle += sum(share for index, share in enumerate(node.idle) if index not in node.moving)
    lacking = [f"{nodes} nodes with {_gpus(idle)} idle GPUs"] if nodes else []
    lacking += [f"{devices} devices of other nodes"] if devices else []
    return " and ".join(lacking) or "nodes or devices"


def _asked(group: Group) -> str:
    """Return the number of requested replicas, as text after "room for"."""
    return f"at least {group.replicas}" if group.replicas < group.most else f"{group.replicas}"


def _explain_group(group: Group, survey: Survey, room: int) -> Shortage:
    shape, replicas, states = group.shape, group.replicas, survey.states
    if shape.within_required:
        free = replace(shape, within="", within_required=False)
        anyhow = int(survey.room(free).sum())
        if anyhow < replicas:
            return _explain_group(replace(group, shape=free), survey, anyhow)
        words = f"room for {room} of {_asked(group)} replicas with their devices within one {shape.within}"
        return _shortage(ShortageReason.TOPOLOGY, f"{words}, for {min(anyhow, replicas)} if they may stand apart")
    allowed = np.array([allows(shape, model) for model in states.models], dtype=bool)[states.model]
    if not allowed.any():
        wanted = f"has {' or '.join(shape.gpu_models)}" if shape.gpu_models else "is of a model that will do"
        return _shortage(ShortageReason.MODEL, f"no usable node {wanted}")
    if shape.full_node:
        asked = f"{replicas} whole nodes with {shape.gpus} GPUs, {_cpu(shape)} and {shape.memory_mib} MiB asked"
        return _shortage(ShortageReason.FRAGMENTED, f"{asked}, {room} idle")
    return (
        _explain_share(shape, states, allowed)
        or _explain_sums(shape, replicas, survey, allowed)
        or _explain_nodes(group, survey, allowed, room)
    )


def _explain_share(shape: TaskShape, states: States, allowed: NDArray[np.bool_]) -> Shortage | None:
    """Return a shortage if no usable node offers so large a part of a device."""
    if not shape.gpu_milli:
        return None
    of_devices = [key.sizes for key, is_allowed in zip(states.keys, allowed, strict=True) if is_allowed and key.shares]
    if not of_devices or any(share_of(shape.gpu_milli, sizes) for sizes in of_devices):
        return None
    largest = max(sizes[-1] for sizes in of_devices)
    served = f"the largest part served is {_gpus(largest)}" if largest else "GPUs are not shared here"
    return _shortage(ShortageReason.GPU, f"no usable node has {_gpus(shape.gpu_milli)} of a GPU to give: {served}")


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
    shape, states = group.shape, survey.states
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
    return _shortage(ShortageReason.FRAGMENTED, f"{free}room for {room} of {_asked(group)} replicas")


def _shortage(reason: ShortageReason, detail: str) -> Shortage:
    return Shortage(reason, f"{reason.value}: {detail}")


def _gpus(milli: int) -> str:
    return f"{milli / DEVICE_MILLI:g}"


def _cpu(shape: TaskShape) -> str:
    return f"{shape.cpu_milli / 1000:g} CPU"
