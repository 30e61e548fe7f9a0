"""Nodes and queues of a scenario (or policy file), written out in the wire's units, with the field in every error."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from muster.fabric.layout import device_uuids
from muster.schemas import quantities
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.queue import PreemptionPolicy, QueueSpec, QueueTemplate
from muster.schemas.quantities import QuantityError
from muster.simulator.errors import InputError
from muster.simulator.scenario import model


def amounts(human: Mapping[str, float], at: str) -> dict[str, int]:
    """Raises InputError with the resource."""
    try:
        return quantities.amounts(human)
    except QuantityError as error:
        raise InputError(f"{at}.{error.key}", error.reason) from error


def gpus_of(wanted: float, at: str) -> tuple[int, int]:
    """Whole GPUs, or thousandths of one: never both. Raises InputError."""
    try:
        milli = quantities.gpu_milli(wanted, key="gpus")
    except QuantityError as error:
        raise InputError(f"{at}.gpus", error.reason) from error
    whole, share = divmod(milli, quantities.MILLI)
    if whole and share:
        raise InputError(f"{at}.gpus", f"{wanted:g} is neither a whole number of GPUs nor a share below 1; round it")
    return whole, share


def cpu_milli(cores: float, at: str) -> int:
    """Raises InputError."""
    try:
        return quantities.cpu_milli(cores, key="cpu")
    except QuantityError as error:
        raise InputError(f"{at}.cpu", error.reason) from error


def memory_mib(gib: float, at: str) -> int:
    """Raises InputError."""
    try:
        return quantities.memory_mib(gib, key="memory_gib")
    except QuantityError as error:
        raise InputError(f"{at}.memory_gib", error.reason) from error


def names_of(name: str, count: int) -> tuple[str, ...]:
    """Return the names of `count` equal things: the name itself for one, else numbered from 0."""
    return (name,) if count == 1 else tuple(f"{name}-{index}" for index in range(count))


_OWN_UNITS = frozenset({"quota", "borrowing_limit", "lending_limit", "user_template", "preemption"})


def queue_specs(queues: Sequence[model.Queue]) -> tuple[tuple[str, QueueSpec], ...]:
    """Return (path in the file, queue), parents first. Raises InputError."""
    placed = {queue.name: (f"queues[{index}]", queue) for index, queue in enumerate(queues)}
    if len(placed) < len(queues):
        names = [queue.name for queue in queues]
        index = next(index for index, name in enumerate(names) if name in names[:index])
        raise InputError(f"queues[{index}].name", f"there is a queue {names[index]} already; names are distinct")
    return tuple((at, queue_spec(queue, at)) for at, queue in _parents_first(placed))


def queue_spec(queue: model.Queue, at: str) -> QueueSpec:
    """Return the queue as the wire has it. at: its place in the file, for errors. Raises InputError."""
    template = queue.user_template
    plain = {name: getattr(queue, name) for name in model.Queue.model_fields if name not in _OWN_UNITS}
    return QueueSpec(
        **plain,
        quota=amounts(queue.quota, f"{at}.quota"),
        borrowing_limit=amounts(queue.borrowing_limit, f"{at}.borrowing_limit"),
        lending_limit=amounts(queue.lending_limit, f"{at}.lending_limit"),
        preemption=PreemptionPolicy(**dict(queue.preemption)),
        user_template=None if template is None else _template(template, f"{at}.user_template"),
    )


def inherited(queues: Mapping[str, model.Queue], queue: str) -> Iterable[model.Queue]:
    """Yield the queue and the queues above it, as far as they exist."""
    seen: set[str] = set()
    name: str | None = queue
    while name is not None and name in queues and name not in seen:
        seen.add(name)
        yield queues[name]
        name = queues[name].parent


def _template(template: model.UserTemplate, at: str) -> QueueTemplate:
    return QueueTemplate(
        quota=amounts(template.quota, f"{at}.quota"),
        borrowing_limit=amounts(template.borrowing_limit, f"{at}.borrowing_limit"),
        lending_limit=amounts(template.lending_limit, f"{at}.lending_limit"),
        weight=template.weight,
    )


def _parents_first(placed: Mapping[str, tuple[str, model.Queue]]) -> list[tuple[str, model.Queue]]:
    done: dict[str, tuple[str, model.Queue]] = {}
    for name, (at, queue) in placed.items():
        path: list[str] = []
        here: str | None = name
        while here is not None and here not in done:
            if here not in placed:
                known = ", ".join(placed)
                raise InputError(f"{placed[path[-1]][0]}.parent", f"there is no queue {here}; there are: {known}")
            if here in path:
                way = " -> ".join([*path[path.index(here) :], here])
                raise InputError(f"{at}.parent", f"queue {queue.name} would stand above itself: {way}")
            path.append(here)
            here = placed[here][1].parent
        done.update({step: placed[step] for step in reversed(path)})
    return list(done.values())


LEVELS = ("region", "zone", "datacenter", "hall", "block", "spine", "superpod", "pod", "row", "rack", "leaf", "nvlink")
"""Known topology levels, widest first; others come after them, in the order of their first mention."""


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """One node. name: as the fleet knows it."""

    name: str
    description: NodeJoined
    state: model.NodeState
    bad_gpus: tuple[int, ...]


def planned_nodes(nodes: Sequence[model.Node]) -> dict[str, PlannedNode]:
    """Return the nodes by name, in order. Raises InputError."""
    order = {level: rank for rank, level in enumerate(LEVELS)}
    for node in nodes:
        for level in node.labels:
            order.setdefault(level, len(order))
    found: dict[str, PlannedNode] = {}
    for index, node in enumerate(nodes):
        at = f"nodes[{index}]"
        for name in names_of(node.name, node.count):
            if name in found:
                raise InputError(f"{at}.name", f"there is a node {name} already; names are distinct")
            domains = tuple(sorted(node.labels.items(), key=lambda label: order[label[0]]))
            description = NodeJoined(
                cpu_milli=cpu_milli(node.cpu, at),
                memory_mib=memory_mib(node.memory_gib, at),
                gpu_model=node.model if node.gpus else "",
                gpu_uuids=device_uuids(name, node.gpus),
                domains=domains,
                device_domains=_device_domains(node, at),
            )
            found[name] = PlannedNode(name, description, node.state, node.bad_gpus)
    return found


def _device_domains(node: model.Node, at: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    levels: dict[str, tuple[int, ...]] = {}
    if "node" in node.labels:
        raise InputError(f"{at}.labels.node", "every node is a domain of its own already; call the level otherwise")
    if node.sockets is not None:
        if node.gpus % node.sockets:
            raise InputError(f"{at}.sockets", f"{node.gpus} GPUs do not split evenly; use device_domains instead")
        each = node.gpus // node.sockets
        levels["socket"] = tuple(index // each for index in range(node.gpus)) if each else ()
    for level, of_gpus in node.device_domains.items():
        if len(of_gpus) != node.gpus:
            raise InputError(f"{at}.device_domains.{level}", f"names {len(of_gpus)} domains for {node.gpus} GPUs")
        levels[level] = of_gpus
    for device in node.bad_gpus:
        if not 0 <= device < node.gpus:
            raise InputError(f"{at}.bad_gpus", f"there is no GPU {device}: they are 0 to {node.gpus - 1}")
    return tuple(sorted(levels.items(), key=lambda level: len(set(level[1]))))
