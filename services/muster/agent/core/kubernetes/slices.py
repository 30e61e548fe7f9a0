"""Devices that drivers publish in ResourceSlices (`resource.k8s.io/v1`), reduced to a few fields.

A pool is one driver's devices of one node or of the fabric. It may have several slices; those of the highest generation
count, and only if all are there, because a driver replaces them one by one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.agent.core.kubernetes.resources import mib_down
from muster.kube.objects import JsonObject, at, integer, mapping, name_of, objects, text
from muster.schemas.facts.node import GPUS_PER_NODE_MAX

UUID, PRODUCT, TYPE = "uuid", "productName", "type"
NUMA_NODE, PCIE_ROOT = "resource.kubernetes.io/numaNode", "resource.kubernetes.io/pcieRoot"
WHOLE_GPU = "gpu"
"""Type of a whole GPU in the vendor's driver; shares have "mig"."""
_KEEPS_OUT = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Place:
    """Reference to a device in an allocation."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class Device:
    """One device."""

    place: Place
    uuid: str = ""
    model: str = ""
    """The driver's name of the model."""
    kind: str = ""
    numa: int = -1
    """NUMA node; -1 if unknown."""
    pcie_root: str = ""
    memory_mib: int = 0
    tainted: bool = False
    """Whether new pods must not use it."""
    binds: bool = False
    """Whether it is not at the node yet, and binding waits for it."""


@dataclass(frozen=True, slots=True)
class SliceView:
    """One slice; `node` is "" for a fabric's pool, `slices` their number in this generation."""

    name: str
    driver: str
    pool: str
    generation: int = 0
    slices: int = 1
    node: str = ""
    devices: tuple[Device, ...] = ()


def project_slice(raw: JsonObject) -> SliceView:
    """Project a slice; never raises."""
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
    """All slices of one driver, by node."""

    driver: str
    _slices: dict[str, SliceView] = field(default_factory=dict)
    _by_node: dict[str, dict[str, SliceView]] = field(default_factory=dict)

    def put(self, view: SliceView) -> frozenset[str]:
        """Add or update a slice. Return the nodes whose devices may have changed."""
        touched = self.remove(view.name)
        if view.driver != self.driver:
            return touched
        self._slices[view.name] = view
        if not view.node:
            return touched
        self._by_node.setdefault(view.node, {})[view.name] = view
        return touched | {view.node}

    def remove(self, name: str) -> frozenset[str]:
        """Remove a slice. Return the nodes whose devices may have changed."""
        old = self._slices.pop(name, None)
        if old is None or not old.node:
            return frozenset()
        of_node = self._by_node[old.node]
        del of_node[name]
        if not of_node:
            del self._by_node[old.node]
        return frozenset({old.node})

    def clear(self) -> None:
        """Forget all slices."""
        self._slices.clear()
        self._by_node.clear()

    def publishes(self, node: str) -> bool:
        """Return whether the driver publishes the node's devices, even if there are none."""
        return node in self._by_node

    @property
    def nodes(self) -> frozenset[str]:
        """Return the nodes whose devices are published."""
        return frozenset(self._by_node)

    def devices(self, node: str) -> tuple[Device, ...] | None:
        """Return the whole GPUs of the node by name; None while a pool is incomplete."""
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
        """Return whether some of its devices are tainted."""
        return any(device.tainted for view in self._by_node.get(node, {}).values() for device in view.devices)

    def find(self, node: str, uuid: str) -> Device | None:
        """Return the device of this uuid at the node, even a tainted one."""
        views = self._by_node.get(node, {}).values()
        found = (device for view in views for device in view.devices if device.uuid == uuid)
        return next(found, None)


def _is_whole_gpu(device: Device) -> bool:
    """Return whether it is a whole GPU: drivers without types have only those. Without a uuid it is a pool's entry."""
    return device.kind in ("", WHOLE_GPU) and bool(device.uuid) and not device.binds


def _name_order(device: Device) -> tuple[str, int, str]:
    """Return a key that sorts gpu-2 before gpu-10."""
    word = device.place.device.rstrip("0123456789")
    number = device.place.device[len(word) :]
    return word, int(number or 0), device.place.device


@dataclass(frozen=True, slots=True)
class Described:
    """Devices in a node's description; see `NodeJoined`. `left_out` are uuids that it cannot show."""

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
    """Return the node's devices by index; a device keeps its index in `before`, even after an absence.

    Tainted devices are left out unless jobs hold them (`held`). A node shows GPUs of one model: the most frequent, then
    the first by name.
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
    """Return the uuid by index, "" for a gap: known devices keep their index, new ones take the lowest gaps."""
    here = set(uuids)
    known = [uuid if uuid in here else "" for uuid in before]
    new = iter([uuid for uuid in uuids if uuid not in set(known)])
    places = [uuid or next(new, "") for uuid in known] + list(new)
    while places and not places[-1]:
        places.pop()
    return places


def _domains(devices: list[Device | None]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return sockets and PCIe roots of the devices, if all have them, numbered in order of appearance."""
    there = [device for device in devices if device is not None]
    found: list[tuple[str, tuple[int, ...]]] = []
    if all(device.numa >= 0 for device in there):
        found.append(("socket", _numbered([str(device.numa) if device else "" for device in devices])))
    if all(device.pcie_root for device in there):
        # a root belongs to one socket; combining them keeps the levels nested even if a driver says otherwise
        roots = [f"{device.numa}/{device.pcie_root}" if device else "" for device in devices]
        found.append(("pcie", _numbered(roots)))
    return tuple(found)


def _numbered(words: list[str]) -> tuple[int, ...]:
    """Return numbers of names; a gap counts to the first domain, since nothing is placed there."""
    numbers = {word: number for number, word in enumerate(dict.fromkeys(word for word in words if word))}
    return tuple(numbers.get(word, 0) for word in words)
