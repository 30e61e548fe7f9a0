"""Devices of nodes as their drivers publish them in ResourceSlices (`resource.k8s.io/v1`), kept in a few fields.

A pool is what one driver says of one node (or of the fabric). It may lie in several slices; those of the highest
generation count, and only if there are as many as they say, since a driver replaces them one by one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.agent.core.kubernetes.resources import mib_down
from muster.kube.objects import JsonObject, at, integer, mapping, name_of, objects, text
from muster.schemas.facts.node import GPUS_PER_NODE_MAX

UUID, PRODUCT, TYPE = "uuid", "productName", "type"
NUMA_NODE, PCIE_ROOT = "resource.kubernetes.io/numaNode", "resource.kubernetes.io/pcieRoot"
WHOLE_GPU = "gpu"
"""What the vendor's driver says as the type of a whole GPU; parts of one say "mig"."""
_KEEPS_OUT = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device is found by whoever prepares it: what an allocation names."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class Device:
    """One device. model: as its driver calls it. numa: -1 if that is not said. tainted: nothing new is to use it.

    binds: it is not at the node yet, and binding waits until it is.
    """

    place: Place
    uuid: str = ""
    model: str = ""
    kind: str = ""
    numa: int = -1
    pcie_root: str = ""
    memory_mib: int = 0
    tainted: bool = False
    binds: bool = False


@dataclass(frozen=True, slots=True)
class SliceView:
    """One slice. node: whose devices these are, "" for a pool that is at no node. slices: of this generation."""

    name: str
    driver: str
    pool: str
    generation: int = 0
    slices: int = 1
    node: str = ""
    devices: tuple[Device, ...] = ()


def project_slice(raw: JsonObject) -> SliceView:
    """Raises nothing: what is absent counts as its default."""
    driver, pool = text(raw, "spec", "driver"), mapping(raw, "spec", "pool")
    named = text(pool, "name")
    return SliceView(
        name=name_of(raw),
        driver=driver,
        pool=named,
        generation=integer(pool, "generation"),
        slices=integer(pool, "resourceSliceCount", default=1),
        node=text(raw, "spec", "nodeName"),
        devices=tuple(_device(device, driver, named) for device in objects(raw, "spec", "devices")),
    )


def _device(raw: JsonObject, driver: str, pool: str) -> Device:
    attributes = mapping(raw, "attributes")

    def said(name: str) -> str:
        return text(attributes, name, "string") or text(attributes, f"{driver}/{name}", "string")

    memory = at(raw, "capacity", "memory", "value") or at(raw, "capacity", f"{driver}/memory", "value")
    return Device(
        place=Place(driver, pool, text(raw, "name")),
        uuid=said(UUID),
        model=said(PRODUCT),
        kind=said(TYPE),
        numa=integer(attributes, NUMA_NODE, "int", default=-1),
        pcie_root=text(attributes, PCIE_ROOT, "string"),
        memory_mib=mib_down(memory),
        tainted=any(text(taint, "effect") in _KEEPS_OUT for taint in objects(raw, "taints")),
        binds=bool(at(raw, "bindingConditions")),
    )


@dataclass(slots=True)
class DeviceIndex:
    """All slices of one driver, by node. driver: others' slices are passed over."""

    driver: str
    _slices: dict[str, SliceView] = field(default_factory=dict)
    _by_node: dict[str, dict[str, SliceView]] = field(default_factory=dict)

    def put(self, view: SliceView) -> frozenset[str]:
        """A slice is so. Returns the nodes whose devices may have changed."""
        touched = self.remove(view.name)
        if view.driver != self.driver:
            return touched
        self._slices[view.name] = view
        if not view.node:
            return touched
        self._by_node.setdefault(view.node, {})[view.name] = view
        return touched | {view.node}

    def remove(self, name: str) -> frozenset[str]:
        """A slice is gone. Returns the nodes whose devices may have changed."""
        old = self._slices.pop(name, None)
        if old is None or not old.node:
            return frozenset()
        of_node = self._by_node[old.node]
        del of_node[name]
        if not of_node:
            del self._by_node[old.node]
        return frozenset({old.node})

    def clear(self) -> None:
        """Forget all of them: they are to be seen again."""
        self._slices.clear()
        self._by_node.clear()

    def publishes(self, node: str) -> bool:
        """Whether the driver speaks for this node at all, if only to say that it has no device."""
        return node in self._by_node

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes for which the driver speaks."""
        return frozenset(self._by_node)

    def devices(self, node: str) -> tuple[Device, ...] | None:
        """Whole GPUs at the node, in the order of their names; None while a pool is incomplete."""
        pools: dict[str, list[SliceView]] = {}
        for view in self._by_node.get(node, {}).values():
            pools.setdefault(view.pool, []).append(view)
        found: list[Device] = []
        for views in pools.values():
            newest = max(view.generation for view in views)
            current = [view for view in views if view.generation == newest]
            if len(current) < max(view.slices for view in current):
                return None
            found += (device for view in current for device in view.devices if _is_whole_gpu(device))
        return tuple(sorted(found, key=_name_order))

    def has_taints(self, node: str) -> bool:
        """Whether its driver wants some of its devices left alone."""
        return any(device.tainted for view in self._by_node.get(node, {}).values() for device in view.devices)

    def find(self, node: str, uuid: str) -> Device | None:
        """The device of this uuid at the node, also one that is tainted."""
        views = self._by_node.get(node, {}).values()
        found = (device for view in views for device in view.devices if device.uuid == uuid)
        return next(found, None)


def _is_whole_gpu(device: Device) -> bool:
    """Drivers that name no type have whole devices only. Without a uuid it is a place in a pool, not a device."""
    return device.kind in ("", WHOLE_GPU) and bool(device.uuid) and not device.binds


def _name_order(device: Device) -> tuple[str, int, str]:
    """gpu-2 before gpu-10."""
    word = device.place.device.rstrip("0123456789")
    number = device.place.device[len(word) :]
    return word, int(number or 0), device.place.device


@dataclass(frozen=True, slots=True)
class Described:
    """What a node's description says of its devices; see `NodeJoined`. left_out: uuids of those it cannot say."""

    gpu_model: str = ""
    gpu_uuids: tuple[str, ...] = ()
    absent: tuple[int, ...] = ()
    device_domains: tuple[tuple[str, tuple[int, ...]], ...] = ()
    left_out: tuple[str, ...] = ()


def describe(
    devices: Iterable[Device],
    *,
    models: Mapping[str, str],
    before: tuple[str, ...] = (),
    held: frozenset[str] = frozenset(),
) -> Described:
    """A node's devices by place. before: which device was last at each place, there or not: it keeps its place.

    models: our name by what the driver says. held: uuids that jobs have, which stay although they are tainted. A node
    shows GPUs of one model: of several, the one that it has most of, by name where that is undecided.
    """
    offered = [device for device in devices if not device.tainted or device.uuid in held]
    by_model: dict[str, list[Device]] = {}
    for device in offered:
        by_model.setdefault(models.get(device.model, device.model), []).append(device)
    if not by_model:
        return Described()
    model = min(by_model, key=lambda name: (-len(by_model[name]), name))
    everything = by_model.pop(model)
    shown, too_many = everything[:GPUS_PER_NODE_MAX], everything[GPUS_PER_NODE_MAX:]
    others = [device for more in (*by_model.values(), too_many) for device in more]
    places = _places([device.uuid for device in shown], before)
    size = len(places)
    absent = tuple(index for index, uuid in enumerate(places) if not uuid)
    by_uuid = {device.uuid: device for device in shown}
    return Described(
        gpu_model=model,
        gpu_uuids=tuple(uuid or f"empty-{index}" for index, uuid in enumerate(places)),
        absent=absent,
        device_domains=_domains([by_uuid.get(places[index]) for index in range(size)]),
        left_out=tuple(sorted(device.uuid for device in others)),
    )


def _places(uuids: list[str], before: tuple[str, ...]) -> list[str]:
    """Uuid by place, "" for a hole: known devices where they were, new ones in the lowest holes, none at the end."""
    here = set(uuids)
    known = [uuid if uuid in here else "" for uuid in before]
    new = iter([uuid for uuid in uuids if uuid not in set(known)])
    places = [uuid or next(new, "") for uuid in known] + list(new)
    while places and not places[-1]:
        places.pop()
    return places


def _domains(devices: list[Device | None]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Sockets and PCIe roots of the devices, where all say theirs, numbered in the order in which they first come."""
    there = [device for device in devices if device is not None]
    found: list[tuple[str, tuple[int, ...]]] = []
    if all(device.numa >= 0 for device in there):
        found.append(("socket", _numbered([str(device.numa) if device else "" for device in devices])))
    if all(device.pcie_root for device in there):
        # a root belongs to one socket; naming both keeps the levels nested also where a driver says otherwise
        roots = [f"{device.numa}/{device.pcie_root}" if device else "" for device in devices]
        found.append(("pcie", _numbered(roots)))
    return tuple(found)


def _numbered(words: list[str]) -> tuple[int, ...]:
    """A hole counts to the first domain: nothing is ever placed there."""
    numbers = {word: number for number, word in enumerate(dict.fromkeys(word for word in words if word))}
    return tuple(numbers.get(word, 0) for word in words)
